package jinja

import (
	"fmt"
	"strings"

	"github.com/warmpath/warmpath/internal/jinjalib"
	"github.com/warmpath/warmpath/internal/pyvalue"
)

// jump is what a statement does to the loop around it.
type jump uint8

const (
	onward jump = iota
	broken
	continued
)

func (r *run) exec(nodes []node, s *scope) (jump, error) {
	for _, n := range nodes {
		if err := r.Step(1); err != nil {
			return onward, err
		}
		if j, err := n.exec(r, s); err != nil || j != onward {
			return j, err
		}
	}
	return onward, nil
}

// captured is what nodes write.
func (r *run) captured(nodes []node, s *scope) (string, error) {
	outer := r.out
	r.out = &strings.Builder{}
	_, err := r.exec(nodes, s)
	text := r.out.String()
	r.out = outer
	return text, err
}

func (r *run) write(text string) error {
	if err := r.Spend(len(text)); err != nil {
		return err
	}
	r.out.WriteString(text)
	return nil
}

// print writes a value as it is shown.
func (r *run) print(v any) error {
	text, err := r.Str(v)
	if err != nil {
		return err
	}
	return r.write(text)
}

func (n *textNode) exec(r *run, _ *scope) (jump, error) { return onward, r.write(n.text) }

func (n *outputNode) exec(r *run, s *scope) (jump, error) {
	v, err := n.value.eval(r, s)
	if err != nil {
		return onward, err
	}
	return onward, r.print(v)
}

func (n *jumpNode) exec(*run, *scope) (jump, error) {
	if n.out {
		return broken, nil
	}
	return continued, nil
}

func (n *ifNode) exec(r *run, s *scope) (jump, error) {
	for i, test := range n.tests {
		if test != nil {
			v, err := test.eval(r, s)
			if err != nil {
				return onward, err
			}
			if !pyvalue.Truth(v) {
				continue
			}
		}
		return r.exec(n.bodies[i], s)
	}
	return onward, nil
}

func (n *forNode) exec(r *run, s *scope) (jump, error) {
	over, err := n.over.eval(r, s)
	if err != nil {
		return onward, err
	}
	return onward, n.walk(r, s, over, 1)
}

func (n *forNode) walk(r *run, s *scope, over any, depth int) error {
	items, err := r.Walk(over)
	if err != nil {
		return err
	}
	if n.only != nil {
		if items, err = n.chosen(r, s, items); err != nil {
			return err
		}
	}
	if len(items) == 0 {
		_, err := r.exec(n.otherwise, s.child())
		return err
	}
	l := &loop{node: n, scope: s, items: items, depth: depth}
	for i, item := range items {
		inner := s.child()
		l.at = i
		inner.set("loop", l)
		if err := bind(r, inner, n.targets, item); err != nil {
			return err
		}
		j, err := r.exec(n.body, inner)
		if err != nil {
			return err
		}
		if j == broken {
			break
		}
	}
	return nil
}

func (n *forNode) chosen(r *run, s *scope, items []any) ([]any, error) {
	var chosen []any
	for _, item := range items {
		inner := s.child()
		if err := bind(r, inner, n.targets, item); err != nil {
			return nil, err
		}
		v, err := n.only.eval(r, inner)
		if err != nil {
			return nil, err
		}
		if pyvalue.Truth(v) {
			chosen = append(chosen, item)
		}
	}
	return chosen, nil
}

// bind gives names to a value, or to its items where there are several names.
func bind(r *run, s *scope, names []string, v any) error {
	if len(names) == 1 {
		s.set(names[0], v)
		return nil
	}
	items, err := r.Walk(v)
	if err != nil {
		return err
	}
	if len(items) != len(names) {
		return fmt.Errorf("%d values for %d names", len(items), len(names))
	}
	for i, item := range items {
		s.set(names[i], item)
	}
	return nil
}

func (n *setNode) exec(r *run, s *scope) (jump, error) {
	var v any
	var err error
	if n.value != nil {
		v, err = n.value.eval(r, s)
	} else {
		v, err = r.captured(n.body, s.child())
		if err == nil && n.filter != nil {
			v, err = r.filtered(n.filter, s, v)
		}
	}
	if err != nil {
		return onward, err
	}
	if n.attr == "" {
		return onward, bind(r, s, n.targets, v)
	}
	ns, ok := s.get(n.targets[0]).(*jinjalib.Namespace)
	if !ok {
		return onward, fmt.Errorf("cannot assign attribute on non-namespace object %q", n.targets[0])
	}
	ns.Set(n.attr, v)
	return onward, nil
}

// filtered puts a block's text through filters, of which the innermost has nothing in front.
func (r *run) filtered(filter expr, s *scope, v any) (any, error) {
	f := filter.(*filterExpr)
	if f.of != nil {
		inner, err := r.filtered(f.of, s, v)
		if err != nil {
			return nil, err
		}
		v = inner
	}
	return f.apply(r, s, v)
}

func (n *macroNode) exec(_ *run, s *scope) (jump, error) {
	s.set(n.name, &macro{n, s})
	return onward, nil
}

func (n *callNode) exec(r *run, s *scope) (jump, error) {
	v, err := n.call.with(r, s, &macro{n.macro, s})
	if err != nil {
		return onward, err
	}
	return onward, r.print(v)
}

func (n *filterNode) exec(r *run, s *scope) (jump, error) {
	text, err := r.captured(n.body, s.child())
	if err != nil {
		return onward, err
	}
	v, err := r.filtered(n.filter, s, text)
	if err != nil {
		return onward, err
	}
	if text, err = r.Str(v); err != nil {
		return onward, err
	}
	return onward, r.write(text)
}

func (n *withNode) exec(r *run, s *scope) (jump, error) {
	inner := s.child()
	for i, value := range n.values {
		v, err := value.eval(r, s)
		if err != nil {
			return onward, err
		}
		inner.set(n.names[i], v)
	}
	return r.exec(n.body, inner)
}

// macro is one with the scope that it was defined in.
type macro struct {
	node  *macroNode
	scope *scope
}

func (m *macro) call(r *run, args jinjalib.Arguments) (any, error) {
	if err := r.Enter(); err != nil {
		return nil, err
	}
	defer r.Leave()
	n, inner := m.node, m.scope.child()
	if len(args.List) > len(n.names) {
		return nil, fmt.Errorf("macro %q takes not more than %d arguments", n.name, len(n.names))
	}
	used := 0
	for i, name := range n.names {
		v, named := args.Named[name]
		switch {
		case i < len(args.List):
			if named {
				return nil, fmt.Errorf("macro %q got two values for %q", n.name, name)
			}
			v = args.List[i]
		case named:
			used++
		case n.fallbacks[i] != nil:
			var err error
			if v, err = n.fallbacks[i].eval(r, inner); err != nil {
				return nil, err
			}
		default:
			v = pyvalue.Undefined{Name: name}
		}
		inner.set(name, v)
	}
	if used < len(args.Named) {
		return nil, fmt.Errorf("macro %q got an argument by a name that it has not", n.name)
	}
	if args.Caller != nil {
		inner.set("caller", args.Caller)
	}
	return r.captured(n.body, inner)
}

// IsCallable makes a macro pass the test callable.
func (m *macro) IsCallable() {}
