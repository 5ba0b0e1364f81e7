package tenant

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmpath/warmpath/internal/spelling"
)

// Most is how many tenants a table may have.
const Most = 100_000

// Bounds of a table.
const (
	fileBytesMax = 16 << 20
	keysMax      = 16 // of one tenant
	problemsMax  = 20 // that are told at one time
	weightMin    = 0.001
	weightMax    = 1000
	numberMax    = 1e15
)

// Error is what is wrong with a file: one line a problem, with its place. It repeats nothing that could be a key.
type Error struct{ Problems []string }

func (e *Error) Error() string { return strings.Join(e.Problems, "\n") }

// Parse reads a file of tenants. name stands in front of each problem. The whole format:
//
//	anonymous: guests          # who asks without a key; without this line nobody may
//	tenants:
//	  - name: search           # letters, digits, . _ and -
//	    keys:
//	      - sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//	      - {digest: "sha256:60303ae2...", expires: 2027-01-31T00:00:00Z}
//	    models: [chat, qwen-*] # none: all
//	    class: standard
//	    classes: [batch]       # that its requests may ask for
//	    weight: 2
//	    tier_min: 2            # of models that stand behind a name
//	    in_flight: 32          # and the others: 0 or no line is no limit
//	    requests_per_minute: 600
//	    tokens_per_minute: 200000
//	    spend_per_day: 25.5
//	  - {name: guests, weight: 0.1, in_flight: 2}
//
// What is not known, said twice, of the wrong kind or out of bounds is a problem, and then there is no table: *Error.
func Parse(name string, text []byte) (*Table, error) {
	p := &parser{file: name, table: &Table{tenants: map[string]*Tenant{}, keys: map[Digest]*key{}}, lines: map[Digest]int{}, has: map[*Tenant]int{}}
	if len(text) > fileBytesMax {
		p.report(0, "", "larger than %d bytes, the most that a file of tenants may have", fileBytesMax)
	} else if root := p.document(text); root != nil {
		p.root(root)
	}
	if len(p.problems) > 0 {
		return nil, &Error{p.problems}
	}
	return p.table, nil
}

// FromKeys makes a table of names and keys in the clear, NAME=KEY separated by commas, as an environment variable has them: tenants without
// limits. Only the keys' digests are kept.
func FromKeys(text string) (*Table, error) {
	table := &Table{tenants: map[string]*Tenant{}, keys: map[Digest]*key{}}
	for i, pair := range strings.Split(text, ",") {
		name, secret, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if !spelling.IsName(name) || looksLikeKey(name) {
			return nil, fmt.Errorf("the name before key %d: want 1 to 64 letters, digits, dots, underscores and hyphens, as in NAME=KEY,NAME=KEY", i+1)
		}
		digest, err := Hash(secret)
		if err != nil {
			return nil, fmt.Errorf("tenant%s: %w", unlessKey(name), err)
		}
		if table.keys[digest] != nil {
			return nil, fmt.Errorf("tenant%s: the same key is there before", unlessKey(name))
		}
		if table.tenants[name] == nil {
			table.tenants[name] = &Tenant{Name: name, Weight: 1}
		}
		table.keys[digest] = &key{digest: digest, tenant: table.tenants[name]}
	}
	return table, nil
}

// parser reads one file. It goes over the YAML's nodes by hand: what the library says of a value it cannot convert repeats the value.
type parser struct {
	file     string
	table    *Table
	lines    map[Digest]int  // where a key was read
	has      map[*Tenant]int // keys
	problems []string
}

func (p *parser) report(line int, where, text string, values ...any) {
	if len(p.problems) == problemsMax {
		return
	}
	place := p.file
	if line > 0 {
		place += ":" + strconv.Itoa(line)
	}
	if where != "" {
		place += ": " + where
	}
	p.problems = append(p.problems, place+": "+fmt.Sprintf(text, values...))
}

var lineOf = regexp.MustCompile(`line (\d+)`)

// document is the root node of the only document in text; nil when there is none.
func (p *parser) document(text []byte) *yaml.Node {
	reader := yaml.NewDecoder(bytes.NewReader(text))
	var first, second yaml.Node
	err := reader.Decode(&first)
	if err == nil {
		if err = reader.Decode(&second); err == nil {
			p.report(second.Line, "", "a second YAML document begins here; tenants are one document")
			return nil
		}
	} else if err == io.EOF {
		p.report(0, "", "there is nothing in it (setting tenants)")
		return nil
	}
	if err != io.EOF {
		line := 0
		if m := lineOf.FindStringSubmatch(err.Error()); m != nil {
			line, _ = strconv.Atoi(m[1])
		}
		p.report(line, "", "this is not YAML")
		return nil
	}
	return first.Content[0]
}

// fields calls f with each value of a mapping, by name. Names that repeat, and values that refer to others, are problems.
func (p *parser) fields(n *yaml.Node, where string, f func(name string, at string, value *yaml.Node) bool) {
	if n.Kind != yaml.MappingNode {
		p.report(n.Line, where, "want a mapping of settings")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		at := strings.TrimPrefix(where+"."+k.Value, ".")
		switch {
		case v.Kind == yaml.AliasNode || v.Anchor != "":
			p.report(v.Line, where, "anchors and references have no place here")
		case seen[k.Value]:
			p.report(k.Line, where, "the setting%s is there twice", unlessKey(k.Value))
		case !f(k.Value, at, v):
			p.report(k.Line, where, "there is no setting%s", unlessKey(k.Value))
		}
		seen[k.Value] = true
	}
}

// unlessKey repeats a name in a message, unless it could be a key in the clear.
func unlessKey(name string) string {
	if len(name) >= keyBytesMin {
		return " of such a name"
	}
	return " " + quote(name)
}

func quote(s string) string { return strconv.Quote(cut(s, 64)) }

func (p *parser) root(n *yaml.Node) {
	anonymous, line := "", 0
	p.fields(n, "", func(name, at string, v *yaml.Node) bool {
		switch name {
		case "anonymous":
			anonymous, line = p.text(v, at), v.Line
		case "tenants":
			for i, one := range p.list(v, at, Most) {
				p.tenant(one, fmt.Sprintf("%s[%d]", at, i))
			}
		default:
			return false
		}
		return true
	})
	if line > 0 {
		if p.table.anonymous = p.table.tenants[anonymous]; p.table.anonymous == nil {
			p.report(line, "anonymous", "there is no tenant of that name")
		}
	}
	if len(p.table.tenants) == 0 {
		p.report(n.Line, "tenants", "there is none, want at least one")
	}
	if len(p.problems) > 0 {
		return
	}
	for _, t := range p.table.Tenants() {
		if t != p.table.anonymous && p.has[t] == 0 {
			p.report(0, "tenants", "tenant %s has no key, so that nobody can be it (settings keys, anonymous)", t.Name)
		}
	}
}

func (p *parser) tenant(n *yaml.Node, where string) {
	t := &Tenant{Weight: 1}
	l := &t.Limits
	var keys []*yaml.Node
	keysAt, named := "", false
	p.fields(n, where, func(name, at string, v *yaml.Node) bool {
		switch name {
		case "name":
			t.Name, named = p.text(v, at), true
			if looksLikeKey(t.Name) {
				p.report(v.Line, at, "this looks like a key in the clear")
			} else if !spelling.IsName(t.Name) {
				p.report(v.Line, at, "want %s", spelling.NameForm)
			}
		case "keys":
			keys, keysAt = p.list(v, at, keysMax), at
		case "models":
			t.Models = p.texts(v, at)
		case "class":
			t.Class = p.text(v, at)
		case "classes":
			t.Classes = p.texts(v, at)
		case "weight":
			t.Weight = p.number(v, at, weightMin, weightMax)
		case "tier_min":
			t.TierMin = p.whole(v, at)
		case "in_flight":
			l.InFlight = p.whole(v, at)
		case "requests_per_minute":
			l.RequestsPerMinute = p.whole(v, at)
		case "tokens_per_minute":
			l.TokensPerMinute = p.whole(v, at)
		case "spend_per_day":
			l.SpendPerDay = MoneyOf(p.number(v, at, 0, float64(moneyMax/Unit)))
		default:
			return false
		}
		return true
	})
	switch {
	case !named:
		p.report(n.Line, where, "the tenant has no name (setting name)")
	case p.table.tenants[t.Name] != nil:
		p.report(n.Line, where, "there is another tenant of that name")
	default:
		p.table.tenants[t.Name] = t
	}
	for i, k := range keys {
		p.key(t, k, fmt.Sprintf("%s[%d]", keysAt, i))
	}
}

// key reads one key's digest, with or without its end.
func (p *parser) key(t *Tenant, n *yaml.Node, where string) {
	k, text, line := &key{tenant: t}, "", n.Line
	if n.Kind == yaml.ScalarNode {
		text = n.Value
	} else {
		p.fields(n, where, func(name, at string, v *yaml.Node) bool {
			switch name {
			case "digest":
				text, line = v.Value, v.Line
			case "expires":
				var err error
				if k.expires, err = time.Parse(time.RFC3339, v.Value); err != nil || v.Kind != yaml.ScalarNode {
					p.report(v.Line, at, "want a time as in 2027-01-31T00:00:00Z")
				}
			default:
				return false
			}
			return true
		})
	}
	var err error
	if k.digest, err = ParseDigest(text); err != nil {
		p.report(line, where, "%v", err)
		return
	}
	if before := p.lines[k.digest]; before > 0 {
		p.report(line, where, "the same key is in line %d; a key says who somebody is", before)
		return
	}
	p.table.keys[k.digest], p.lines[k.digest] = k, line
	p.has[t]++
}
