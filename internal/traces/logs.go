package traces

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/internal/declog"
)

// logFilesMax bounds the files of one replay.
const logFilesMax = 10_000

// Rotated is a decision log with what was put aside from it, name.1, name.2 and so on, compressed or not: the oldest first, name last.
func Rotated(name string) (files []string) {
	files = []string{name}
	for n := 1; n <= logFilesMax; n++ {
		i := slices.IndexFunc([]string{"", ".gz", ".zst"}, func(end string) bool {
			aside := name + "." + strconv.Itoa(n) + end
			if _, err := os.Stat(aside); err != nil {
				return false
			}
			files = append(files, aside)
			return true
		})
		if i < 0 {
			break
		}
	}
	slices.Reverse(files)
	return files
}

// OpenLogs makes one trace of several logs, decision logs or texts: of one router's life in several files, of several routers, of one agent's
// session each. Requests are in the order of their arrival, whatever the order of the files and, within reorderWindow, of their lines. An
// empty file is left out, and so is one that is named again.
func OpenLogs(names []string, o Options) (*Trace, error) {
	if len(names) > logFilesMax {
		return nil, fmt.Errorf("%d files, more than %d", len(names), logFilesMax)
	}
	t := &Trace{skipped: new(int)}
	var heads []logHead
	tokens, blocks := 0, 0
	for i, name := range names {
		if slices.ContainsFunc(names[:i], func(o string) bool { return filepath.Clean(o) == filepath.Clean(name) }) {
			continue
		}
		h, err := headOf(name)
		switch {
		case err != nil:
			return nil, err
		case h.form == "":
			continue
		case len(heads) > 0 && h.form != heads[0].form:
			return nil, fmt.Errorf("%s is of the form %s, %s of the form %s: they are no one trace", name, h.form, heads[0].name, heads[0].form)
		}
		heads, tokens, blocks = append(heads, h), tokens+h.tokens, blocks+h.blocks
	}
	if len(heads) == 0 {
		return nil, fmt.Errorf("%s: no record in it", names[len(names)-1])
	}
	if t.Name, t.Form = heads[len(heads)-1].name, heads[0].form; len(heads) > 1 {
		t.Name = fmt.Sprintf("%s and %d more", filepath.Base(t.Name), len(heads)-1)
	}
	if t.BlockTokens = textBlockBytes / textTokenBytes; blocks > 0 {
		t.BlockTokens = max(1, (tokens+blocks/2)/blocks)
	}
	slices.SortStableFunc(heads, func(a, b logHead) int { return a.first.Compare(b.first) })
	start := heads[0].first
	t.open = func(uint64) (Reader, error) {
		*t.skipped = 0
		return &logs{to: heads, origin: start, open: func(h logHead) (Reader, error) {
			in, closeFile, err := OpenFile(h.name)
			if err != nil {
				return nil, err
			}
			parse := newTexts(start).parse
			if t.Form == decisionForm {
				parse = (&decisions{blockTokens: t.BlockTokens, start: start}).parse
			}
			return &reorder{Reader: &lines{name: h.name, in: in, closeFile: closeFile, parse: parse, skipBad: o.SkipBad, skipped: t.skipped}}, nil
		}}, nil
	}
	return t, nil
}

// The forms of logs.
const decisionForm, textForm = "decisions", "texts"

// logHead is what the beginning of a log tells.
type logHead struct {
	name, form     string    // form is "" of an empty file
	first          time.Time // the arrival of its first record, which was the first to end
	tokens, blocks int       // of the prompts there
}

// A log's beginning is headRecords records; what has headLinesBad bad lines before the first is no log.
const headRecords, headLinesBad = 200, 1000

func headOf(name string) (h logHead, err error) {
	head, err := peek(name)
	if head = bytes.TrimSpace(head); err != nil || len(head) == 0 {
		return h, err
	}
	in, closeFile, err := OpenFile(name)
	if err != nil {
		return h, err
	}
	defer closeFile()
	if first, _, _ := bytes.Cut(head, []byte("\n")); !isDecision(first) && isText(first) {
		var q Request
		all := &lines{name: name, in: in, parse: newTexts(time.Unix(0, 0)).parse, skipBad: true, skipped: new(int)}
		if err := all.Next(&q); err != nil {
			return h, fmt.Errorf("%s: no prompt in it", name)
		}
		return logHead{name: name, form: textForm, first: time.Unix(0, int64(q.At))}, nil
	}
	h, err = decisionHead(name, in)
	return h, err
}

func decisionHead(name string, in io.Reader) (h logHead, err error) {
	h.name = name
	reader := declog.NewReader(in)
	for n, bad := 0, 0; n < headRecords; {
		var r declog.Record
		err := reader.Next(&r)
		switch {
		case errors.As(err, new(*declog.LineError)) && bad < headLinesBad:
			bad++ // it is told of when it is read again
			continue
		case (err == io.EOF || bad >= headLinesBad) && h.form == "":
			return h, fmt.Errorf("%s: none of its first %d lines is a record of a decision log; several files are one trace when all are such logs, or all are texts", name, bad)
		case err == io.EOF || bad >= headLinesBad:
			return h, nil
		case err != nil:
			return h, fmt.Errorf("%s: %w", name, err)
		case h.form == "":
			h.form, h.first = decisionForm, r.Time
		}
		n++
		if numbers := r.Numbers(nil); len(numbers) > 0 && !r.BlocksCut {
			h.tokens += promptTokens(&r)
			h.blocks += len(numbers)
		}
	}
	return h, nil
}

// logs merges logs by arrival. A file is opened when a request in it may be the next one, and closed at its end, so that a year of
// rotated files takes no more memory than those that overlap.
type logs struct {
	to     []logHead // by their first record; not opened yet
	open   func(logHead) (Reader, error)
	at     []source
	origin time.Time     // of the requests' times
	start  time.Duration // the first request's arrival
	begun  bool
}

// source is an open file and its next request.
type source struct {
	Reader
	next Request
}

func (m *logs) Next(r *Request) error {
	for {
		first := -1
		for i := range m.at {
			if first < 0 || m.at[i].next.At < m.at[first].next.At {
				first = i
			}
		}
		if len(m.to) > 0 && (first < 0 || m.to[0].first.Sub(m.origin)-reorderWindow <= m.at[first].next.At) {
			if err := m.openNext(); err != nil {
				return err
			}
			continue
		}
		if first < 0 {
			return io.EOF
		}
		if *r = m.at[first].next; !m.begun {
			m.start, m.begun = r.At, true
		}
		r.At = max(0, r.At-m.start)
		return m.advance(first)
	}
}

func (m *logs) openNext() error {
	reader, err := m.open(m.to[0])
	if err != nil {
		return err
	}
	m.to = m.to[1:]
	m.at = append(m.at, source{Reader: reader})
	return m.advance(len(m.at) - 1)
}

// advance reads a file's next request, and closes it behind its last.
func (m *logs) advance(i int) error {
	err := m.at[i].Reader.Next(&m.at[i].next)
	if err == io.EOF {
		err = m.at[i].Close()
		m.at = slices.Delete(m.at, i, i+1)
	}
	return err
}

func (m *logs) Close() (err error) {
	for i := range m.at {
		err = cmp.Or(err, m.at[i].Close())
	}
	return err
}

// isDecision says whether a file that begins with this line is a decision log.
func isDecision(line []byte) bool {
	return bytes.Contains(line, []byte(`"boot"`)) && bytes.Contains(line, []byte(`"v"`))
}

// isText says the same of a file of prompts.
func isText(line []byte) bool {
	return bytes.Contains(line, []byte(`"input"`)) && !bytes.Contains(line, []byte(`"hash_ids"`)) && !bytes.Contains(line, []byte(`"requests"`))
}
