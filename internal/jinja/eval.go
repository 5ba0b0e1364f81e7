package jinja

import (
	"errors"
	"fmt"
	"strings"

	"github.com/warmpath/warmpath/internal/jinjalib"
	"github.com/warmpath/warmpath/internal/pyvalue"
)

// loop is the variable of that name.
type loop struct {
	node  *forNode
	scope *scope
	items []any
	at    int
	depth int
	last  any // what changed() saw
	seen  bool
}

func (r *run) all(exprs []expr, s *scope) ([]any, error) {
	if len(exprs) == 0 {
		return nil, nil
	}
	values := make([]any, len(exprs))
	for i, e := range exprs {
		v, err := e.eval(r, s)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	return values, r.Step(len(exprs))
}

func (r *run) arguments(args []expr, named []namedExpr, s *scope) (jinjalib.Arguments, error) {
	list, err := r.all(args, s)
	a := jinjalib.Arguments{List: list}
	for _, n := range named {
		if err != nil {
			break
		}
		if a.Named == nil {
			a.Named = map[string]any{}
		}
		a.Order = append(a.Order, n.name)
		a.Named[n.name], err = n.value.eval(r, s)
	}
	return a, err
}

func (e *constExpr) eval(*run, *scope) (any, error)    { return e.value, nil }
func (e *nameExpr) eval(_ *run, s *scope) (any, error) { return s.get(e.name), nil }

func (e *listExpr) eval(r *run, s *scope) (any, error) {
	items, err := r.all(e.items, s)
	return &pyvalue.List{Items: items, Shape: e.shape}, err
}

func (e *dictExpr) eval(r *run, s *scope) (any, error) {
	d := pyvalue.NewDict()
	for i := range e.keys {
		key, err := e.keys[i].eval(r, s)
		if err != nil {
			return nil, err
		}
		text, ok := key.(string)
		if !ok {
			return nil, fmt.Errorf("a %s as the key of a dict is not known here", pyvalue.TypeName(key))
		}
		v, err := e.values[i].eval(r, s)
		if err != nil {
			return nil, err
		}
		d.Set(text, v)
	}
	return d, r.Step(len(e.keys))
}

func (e *attrExpr) eval(r *run, s *scope) (any, error) {
	of, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	if l, ok := of.(*loop); ok {
		return l.attr(e.name)
	}
	return r.Attr(of, e.name)
}

func (e *itemExpr) eval(r *run, s *scope) (any, error) {
	of, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	key, err := e.key.eval(r, s)
	if err != nil {
		return nil, err
	}
	return r.Item(of, key)
}

func (e *callExpr) eval(r *run, s *scope) (any, error) { return e.with(r, s, nil) }

func (e *callExpr) with(r *run, s *scope, caller *macro) (any, error) {
	of, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	a, err := r.arguments(e.args, e.named, s)
	if err != nil {
		return nil, err
	}
	if caller != nil {
		a.Caller = caller
	}
	if err := jinjalib.Defined(of); err != nil {
		return nil, err
	}
	switch f := of.(type) {
	case jinjalib.Function:
		return f(&r.Run, a)
	case *macro:
		return f.call(r, a)
	case *loop:
		return f.again(r, a)
	}
	return nil, fmt.Errorf("a %s cannot be called", pyvalue.TypeName(of))
}

func (e *filterExpr) eval(r *run, s *scope) (any, error) {
	of, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	return e.apply(r, s, of)
}

func (e *filterExpr) apply(r *run, s *scope, of any) (any, error) {
	a, err := r.arguments(e.args, e.named, s)
	if err != nil {
		return nil, err
	}
	return r.Filter(e.name, of, a)
}

func (e *testExpr) eval(r *run, s *scope) (any, error) {
	of, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	args, err := r.all(e.args, s)
	if err != nil {
		return nil, err
	}
	return r.Test(e.name, of, args)
}

func (e *ifExpr) eval(r *run, s *scope) (any, error) {
	test, err := e.test.eval(r, s)
	switch {
	case err != nil:
		return nil, err
	case pyvalue.Truth(test):
		return e.then.eval(r, s)
	case e.otherwise != nil:
		return e.otherwise.eval(r, s)
	}
	return pyvalue.Undefined{Name: "the inline if-expression"}, r.Step(1)
}

func (e *logicExpr) eval(r *run, s *scope) (any, error) {
	left, err := e.left.eval(r, s)
	if err != nil || pyvalue.Truth(left) == e.or {
		return left, err
	}
	return e.right.eval(r, s)
}

func (e *notExpr) eval(r *run, s *scope) (any, error) {
	v, err := e.of.eval(r, s)
	return !pyvalue.Truth(v), err
}

func (e *compareExpr) eval(r *run, s *scope) (any, error) {
	left, err := e.first.eval(r, s)
	if err != nil {
		return nil, err
	}
	for i, o := range e.ops {
		right, err := e.right[i].eval(r, s)
		if err != nil {
			return nil, err
		}
		if ok, err := r.Compare(o, left, right); err != nil || !ok {
			return false, err
		}
		left = right
	}
	return true, r.Step(len(e.ops))
}

func (l *loop) attr(name string) (any, error) {
	n := int64(len(l.items))
	at := int64(l.at)
	switch name {
	case "index":
		return at + 1, nil
	case "index0":
		return at, nil
	case "revindex":
		return n - at, nil
	case "revindex0":
		return n - at - 1, nil
	case "first":
		return at == 0, nil
	case "last":
		return at == n-1, nil
	case "length":
		return n, nil
	case "depth":
		return int64(l.depth), nil
	case "depth0":
		return int64(l.depth - 1), nil
	case "previtem":
		if at > 0 {
			return l.items[at-1], nil
		}
	case "nextitem":
		if at < n-1 {
			return l.items[at+1], nil
		}
	case "cycle":
		return jinjalib.Function(l.cycle), nil
	case "changed":
		return jinjalib.Function(l.changed), nil
	}
	return pyvalue.Undefined{Name: "loop." + name}, nil
}

func (l *loop) cycle(_ *jinjalib.Run, a jinjalib.Arguments) (any, error) {
	if len(a.List) == 0 {
		return nil, errors.New("no items for cycling given")
	}
	return a.List[l.at%len(a.List)], nil
}

func (l *loop) changed(_ *jinjalib.Run, a jinjalib.Arguments) (any, error) {
	now := &pyvalue.List{Items: a.List, Shape: pyvalue.AsTuple}
	if l.seen {
		if same, err := pyvalue.Equal(l.last, now); same || err != nil {
			return false, err
		}
	}
	l.last, l.seen = now, true
	return true, nil
}

// again is a recursive loop's call of itself.
func (l *loop) again(r *run, a jinjalib.Arguments) (any, error) {
	if !l.node.recursive || len(a.List) != 1 {
		return nil, errors.New("a loop can be called with what to walk only where it is recursive")
	}
	if err := r.Enter(); err != nil {
		return nil, err
	}
	defer r.Leave()
	outer := r.out
	r.out = &strings.Builder{}
	err := l.node.walk(r, l.scope, a.List[0], l.depth+1)
	text := r.out.String()
	r.out = outer
	return text, err
}

func (e *signExpr) eval(r *run, s *scope) (any, error) {
	v, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	return jinjalib.Sign(v, e.minus)
}

func (e *binaryExpr) eval(r *run, s *scope) (any, error) {
	left, err := e.left.eval(r, s)
	if err != nil {
		return nil, err
	}
	right, err := e.right.eval(r, s)
	if err != nil {
		return nil, err
	}
	if err := r.Step(1); err != nil {
		return nil, err
	}
	if e.op == "~" || e.rawLeft || e.rawRight {
		return r.Joined(left, right, e.op == "+", e.rawLeft, e.rawRight)
	}
	return r.Binary(e.op, left, right)
}

func (e *sliceExpr) eval(r *run, s *scope) (any, error) {
	of, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	var bounds [3]any
	for i, part := range e.parts {
		if part == nil {
			continue
		}
		if bounds[i], err = part.eval(r, s); err != nil {
			return nil, err
		}
	}
	return r.Slice(of, bounds)
}
