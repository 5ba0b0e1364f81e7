// Package jinja renders the Jinja templates that models come with, as Python's Jinja2 does in the sandbox that engines set up: trim_blocks,
// lstrip_blocks, loop controls, tojson without HTML escapes, raise_exception and strftime_now.
//
//	t, err := jinja.Parse("{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{% endfor %}")
//	text, err := t.Render(map[string]any{"messages": messages}, jinja.Options{})
//
// Parse refuses by its name whatever is not known here. Render stops at limits that do not depend on the clock: steps, bytes written and
// calls within calls, so that neither a template nor a request can hang or end the process.
package jinja

import (
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/jinjalex"
	"github.com/warmpath/warmpath/internal/jinjalib"
	"github.com/warmpath/warmpath/internal/pyvalue"
)

// Options of a rendering.
type Options struct {
	Now        time.Time // what strftime_now prints
	Limits     jinjalib.Limits
	ASCIISpace bool // strip and trim take off ASCII white space only, as llama.cpp does
	Expect     int  // about how many bytes the output will have, to save copies; 0 where that is not known
}

// Template is parsed. Any number of goroutines may render it at once.
type Template struct {
	nodes []node
	dated bool
}

// Parse reads a template. Its error is a *jinjalex.SyntaxError.
func Parse(source string) (*Template, error) {
	tokens, err := jinjalex.Lex(source)
	if err != nil {
		return nil, err
	}
	p := parser{tokens: tokens, safe: map[string]bool{}}
	nodes, _, err := p.body()
	if err != nil {
		return nil, err
	}
	return &Template{nodes, p.dated}, nil
}

// Dated is whether the output may depend on the date or time.
func (t *Template) Dated() bool { return t.dated }

// Render writes the template with values for its names, which are those of pyvalue.
func (t *Template) Render(values map[string]any, o Options) (string, error) {
	r := &run{Run: jinjalib.NewRun(o.Now, o.Limits), out: &strings.Builder{}}
	if o.ASCIISpace {
		r.ASCIISpace()
	}
	r.out.Grow(max(0, min(o.Expect, jinjalib.DefaultLimits().Bytes)))
	root := &scope{names: make(map[string]any, len(values)+4)}
	for key, v := range values {
		root.names[key] = v
	}
	if _, err := r.exec(t.nodes, root); err != nil {
		return "", err
	}
	return r.out.String(), nil
}

// run is one rendering.
type run struct {
	jinjalib.Run
	out *strings.Builder
}

type scope struct {
	names  map[string]any
	parent *scope
}

func (s *scope) child() *scope { return &scope{parent: s} }

func (s *scope) set(name string, v any) {
	if s.names == nil {
		s.names = map[string]any{}
	}
	s.names[name] = v
}

func (s *scope) get(name string) any {
	for ; s != nil; s = s.parent {
		if v, ok := s.names[name]; ok {
			return v
		}
	}
	if g, ok := jinjalib.Global(name); ok {
		return g
	}
	return pyvalue.Undefined{Name: name}
}
