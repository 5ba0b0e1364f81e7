// Package smuggling holds a corpus of HTTP/1.x requests that servers may read in more than one way, and what it takes to compare how two
// of them do: an origin that keeps what reached it, and a client that sends a case and sees what comes. Nothing of the product imports it.
//
//	cases, err := smuggling.Corpus()
//	origin, err := smuggling.StartOrigin()
//	got := smuggling.Ask{Dial: dial, Number: 17}.Run(cases[0])
//	got.Reached = origin.Reached(17)
//
// A case in testdata is written like this; see Case for what the parts mean:
//
//	== a length with a sign
//	POST /v1/@@@@ HTTP/1.1
//	Host: h
//	Content-Length: +5
//
//	hello\
//	~~ ours 400 closed
package smuggling

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

//go:embed testdata/*.txt
var files embed.FS

// Mark stands in a case for its number, four digits, in each target: by it the origin knows whose request it sees.
const Mark = "@@@@"

// Case is one connection's worth of bytes, and what became of them.
//
// Its text is sent line by line with CRLF behind each; a line that ends in a backslash is sent without, and Go's escapes (\n, \x00) stand
// for their bytes. {N*x} stands for N times x.
type Case struct {
	Name string
	Text []string // as written
	// Outcomes by who made them: "ours", "tls" where our other server differs, "nginx" where that does.
	Outcomes map[string]Outcome
	// Relation is "" where as much reaches the origin as through nginx, else "stricter" or "laxer", for the reason Why.
	Relation, Why string
}

// Outcome is what a client sees of a case, and what the origin does.
type Outcome struct {
	Answers []string // statuses in order
	End     string   // closed by the server; idle: it waits for a request; waits: for the rest of one
	Reached []string // requests as the origin read them, one line each
}

// The ends of a connection.
const (
	Closed = "closed"
	Idle   = "idle"
	Waits  = "waits"
)

// Corpus reads all cases, in order of files and lines.
func Corpus() (all []Case, err error) {
	names, err := fs.Glob(files, "testdata/*.txt")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		cases, _, err := Parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, cases...)
	}
	return all, nil
}

// Parse reads a file of the corpus; head is what stands before its first case.
func Parse(text string) (cases []Case, head string, err error) {
	var who string
	for number, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		name, isCase := strings.CutPrefix(line, "== ")
		if isCase {
			cases, who = append(cases, Case{Name: name, Outcomes: map[string]Outcome{}}), ""
			continue
		}
		if len(cases) == 0 {
			head += line + "\n"
			continue
		}
		c := &cases[len(cases)-1]
		told, isOutcome := strings.CutPrefix(line, "~~ ")
		switch word, rest, _ := strings.Cut(told, " "); {
		case isOutcome && (word == "stricter:" || word == "laxer:"):
			c.Relation, c.Why, who = strings.TrimSuffix(word, ":"), rest, ""
		case isOutcome:
			fields := strings.Fields(rest)
			if len(fields) == 0 {
				return nil, "", fmt.Errorf("line %d: %q does not say how the connection ended", number+1, line)
			}
			who = word
			c.Outcomes[who] = Outcome{Answers: fields[:len(fields)-1], End: fields[len(fields)-1]}
		case who != "":
			o := c.Outcomes[who]
			o.Reached = append(o.Reached, line)
			c.Outcomes[who] = o
		default:
			c.Text = append(c.Text, line)
		}
	}
	return cases, head, nil
}

// Format writes a file of the corpus.
func Format(head string, cases []Case) string {
	var out strings.Builder
	out.WriteString(head)
	for _, c := range cases {
		fmt.Fprintf(&out, "== %s\n", c.Name)
		for _, line := range c.Text {
			out.WriteString(line + "\n")
		}
		for _, who := range []string{"ours", "tls", "nginx"} {
			o, there := c.Outcomes[who]
			if !there {
				continue
			}
			out.WriteString("~~ " + strings.Join(append([]string{who}, append(slices.Clone(o.Answers), o.End)...), " ") + "\n")
			for _, line := range o.Reached {
				out.WriteString(line + "\n")
			}
		}
		if c.Relation != "" {
			fmt.Fprintf(&out, "~~ %s: %s\n", c.Relation, c.Why)
		}
	}
	return out.String()
}

// Bytes is what is sent of a case under a number.
func (c Case) Bytes(number int) ([]byte, error) {
	var out []byte
	for _, line := range c.Text {
		bare, open := strings.CutSuffix(line, `\`)
		text, err := strconv.Unquote(`"` + strings.ReplaceAll(bare, `"`, `\"`) + `"`)
		if err != nil {
			return nil, fmt.Errorf("case %s: %q: %w", c.Name, line, err)
		}
		if text, err = repeated(text); err != nil {
			return nil, fmt.Errorf("case %s: %q: %w", c.Name, line, err)
		}
		out = append(out, text...)
		if !open {
			out = append(out, "\r\n"...)
		}
	}
	return bytes.ReplaceAll(out, []byte(Mark), fmt.Appendf(nil, "%04d", number)), nil
}

// repeated writes {N*x} out.
func repeated(text string) (string, error) {
	before, rest, found := strings.Cut(text, "{")
	times, rest, isCount := strings.Cut(rest, "*")
	what, after, ends := strings.Cut(rest, "}")
	if !found || !isCount || !ends {
		return text, nil
	}
	n, err := strconv.Atoi(times)
	if err != nil {
		return "", err
	}
	return before + strings.Repeat(what, n) + after, nil
}

// Compare says how what reached the origin through us relates to what did through a judge: "" as much, "stricter" less, "laxer" something
// that did not reach it there. Requests are compared in order by method, target, body and the fields that passed.
func Compare(ours, judge []string) string {
	for i, line := range ours {
		if i >= len(judge) || !within(line, judge[i]) {
			return "laxer"
		}
	}
	if slices.Equal(ours, judge) {
		return ""
	}
	return "stricter"
}

// Relates says how one of our outcomes is recorded to relate to the judge's. Our two servers may differ.
func (c Case) Relates(ours Outcome) string {
	judge, differs := c.Outcomes["nginx"]
	if !differs {
		return ""
	}
	return Compare(ours.Reached, judge.Reached)
}

// within says that a request is another, or that with fewer fields.
func within(ours, judge string) bool {
	a, b := fieldsOf(ours), fieldsOf(judge)
	if a[0] != b[0] {
		return false
	}
	return !slices.ContainsFunc(a[1:], func(f string) bool { return !slices.Contains(b[1:], f) })
}

// fieldsOf cuts a request's line into what it is at its core, then its fields.
func fieldsOf(line string) []string {
	parts := strings.Split(line, " | ")
	return append([]string{parts[0]}, parts[1:]...)
}
