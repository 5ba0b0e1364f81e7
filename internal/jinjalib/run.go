// Package jinjalib is what Jinja templates are written with: filters, tests, methods of values, global functions and operators, each as
// Python's Jinja2 has them, and each counted against a Run's limits before it makes anything big.
//
//	r := jinjalib.NewRun(now, jinjalib.DefaultLimits())
//	v, err := r.Filter("trim", "  text ", jinjalib.Arguments{})
package jinjalib

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/jinjalex"
	"github.com/warmpath/warmpath/internal/pyvalue"
)

// ErrLimit is what an error wraps where a limit was reached.
var ErrLimit = errors.New("the template does too much")

// ErrRaised is what an error wraps where the template itself called raise_exception.
var ErrRaised = errors.New("refused by the template")

// Limits of one rendering. Fields that are 0 are taken from DefaultLimits.
type Limits struct {
	Steps int // statements and expressions evaluated, items walked
	Bytes int // of all strings made on the way, and of the output
	Calls int // of macros and recursive loops within each other
}

// DefaultLimits are some hundred times what templates in use need: a conversation of 431 KB takes some thousand steps and a few MB.
func DefaultLimits() Limits { return Limits{Steps: 3_000_000, Bytes: 256 << 20, Calls: 100} }

// Run is one rendering. Its counts go down to 0.
type Run struct {
	now     time.Time
	steps   int
	bytes   int
	calls   int
	filters map[string]filter // all of them, for map
	space   func(rune) bool   // what strip and trim take off
}

// ASCIISpace lets strip and trim take off ASCII white space only, as llama.cpp does.
func (r *Run) ASCIISpace() {
	r.space = func(c rune) bool { return c == ' ' || c >= '\t' && c <= '\r' }
}

// NewRun begins one; now is what strftime_now prints.
func NewRun(now time.Time, l Limits) Run {
	d := DefaultLimits()
	if l.Steps <= 0 {
		l.Steps = d.Steps
	}
	if l.Bytes <= 0 {
		l.Bytes = d.Bytes
	}
	if l.Calls <= 0 {
		l.Calls = d.Calls
	}
	return Run{now: now, steps: l.Steps, bytes: l.Bytes, calls: l.Calls, filters: filters, space: jinjalex.Space}
}

// Enter counts a call within calls; Leave must follow where it gives no error.
func (r *Run) Enter() error {
	if r.calls == 0 {
		return fmt.Errorf("%w: calls within calls", ErrLimit)
	}
	r.calls--
	return nil
}

// Leave ends a call.
func (r *Run) Leave() { r.calls++ }

// Filter puts a value through the filter of that name, which there must be.
func (r *Run) Filter(name string, of any, a Arguments) (any, error) {
	if text, ok := of.(string); ok { // filters read all of it
		if err := r.Step(len(text) / 1024); err != nil {
			return nil, err
		}
	}
	return filters[name](r, of, a)
}

// Test asks a value the test of that name, which there must be.
func (r *Run) Test(name string, of any, args []any) (any, error) { return tests[name](r, of, args) }

// IsFilter is whether there is one of that name.
func IsFilter(name string) bool { return filters[name] != nil }

// IsTest is whether there is one of that name.
func IsTest(name string) bool { return tests[name] != nil }

// IsMethod is whether a value may have one of that name, be it forbidden.
func IsMethod(name string) bool { return methods[name] != nil || forbidden[name] }

// Global is the function of that name.
func Global(name string) (Function, bool) { f, ok := globals[name]; return f, ok }

// Callable is what can be called besides functions: a macro.
type Callable interface{ IsCallable() }

// Namespace is the one kind of value that templates change.
type Namespace struct{ *pyvalue.Dict }

// Arguments of a call.
type Arguments struct {
	List   []any
	Named  map[string]any
	Order  []string // of the names
	Caller any      // the body of a call block, for the macro
}

// function is a global, a method with its value, or a loop's.
type Function func(r *Run, a Arguments) (any, error)

// Walk is what a loop over v sees: a dict's keys, a string's characters.
func (r *Run) Walk(v any) ([]any, error) {
	var items []any
	switch v := v.(type) {
	case *pyvalue.List:
		items = v.Walk()
	case *pyvalue.Dict:
		for _, key := range v.Keys() {
			items = append(items, key)
		}
	case string:
		if err := r.Step(len(v)); err != nil {
			return nil, err
		}
		for _, c := range v {
			items = append(items, string(c))
		}
	case pyvalue.Undefined:
	default:
		return nil, fmt.Errorf("a %s cannot be walked", pyvalue.TypeName(v))
	}
	return items, r.Step(len(items))
}

// Defined is an error for what is not.
func Defined(v any) error {
	if u, ok := v.(pyvalue.Undefined); ok {
		return fmt.Errorf("%q is undefined", u.Name)
	}
	return nil
}

func (r *Run) character(text string, n int64, missing any) (any, error) {
	chars := []rune(text)
	if n < 0 {
		n += int64(len(chars))
	}
	if n >= 0 && n < int64(len(chars)) {
		return string(chars[n]), r.Spend(len(text))
	}
	return missing, r.Spend(len(text))
}

// Compare is one of == != < > <= >= in, and "not in".
func (r *Run) Compare(o string, left, right any) (bool, error) {
	if err := r.Step(compareSteps(left, right)); err != nil {
		return false, err
	}
	switch o {
	case "==", "!=":
		same, err := pyvalue.Equal(left, right)
		return same == (o == "=="), err
	case "in", "not in":
		has, err := r.Contains(right, left)
		return has == (o == "in"), err
	}
	if err := errors.Join(Defined(left), Defined(right)); err != nil {
		return false, err
	}
	c, err := pyvalue.Compare(left, right)
	return o == "<" && c < 0 || o == ">" && c > 0 || o == "<=" && c <= 0 || o == ">=" && c >= 0, err
}

// compareSteps is what a comparison counts for: those of long texts, lists and dicts take longer than others.
func compareSteps(left, right any) int {
	switch a := left.(type) {
	case string:
		b, _ := right.(string)
		return min(len(a), len(b)) / 1024
	case *pyvalue.List, *pyvalue.Dict:
		if _, list := right.(*pyvalue.List); list {
			return 500
		}
		if _, dict := right.(*pyvalue.Dict); dict {
			return 500
		}
	}
	return 0
}

// Contains is whether v is one of the items, a key or a part of the text.
func (r *Run) Contains(in, v any) (bool, error) {
	switch in := in.(type) {
	case string:
		text, ok := v.(string)
		if !ok {
			return false, fmt.Errorf("a %s cannot be in a string", pyvalue.TypeName(v))
		}
		return strings.Contains(in, text), r.Step(len(in) / 1024)
	case *pyvalue.Dict:
		key, _ := v.(string)
		_, ok := in.Get(key)
		if _, text := v.(string); !text {
			ok = false
		}
		return ok, nil
	}
	items, err := r.Walk(in)
	for _, item := range items {
		if same, err := pyvalue.Equal(item, v); same || err != nil {
			return same, err
		}
	}
	return false, err
}

// Item is of[key]: the item first, and then a method of that name.
func (r *Run) Item(of, key any) (any, error) {
	if err := Defined(of); err != nil {
		return nil, err
	}
	missing := pyvalue.Undefined{Name: "item"}
	if name, ok := key.(string); ok {
		missing.Name = name
		switch v := of.(type) {
		case *pyvalue.Dict:
			if value, ok := v.Get(name); ok {
				return value, nil
			}
		case *Namespace:
			return nil, errors.New("a namespace has no items")
		}
		if _, dict := of.(*pyvalue.Dict); dict && dictMethods[name] || hasMethod(of, name) {
			return method(of, name), nil
		}
		return missing, nil
	}
	n, _, whole, ok := pyvalue.Number(key)
	if !ok || !whole {
		return missing, nil
	}
	switch v := of.(type) {
	case *pyvalue.List:
		if v.Shape <= pyvalue.AsTuple {
			if n < 0 {
				n += int64(len(v.Items))
			}
			if n >= 0 && n < int64(len(v.Items)) {
				return v.Items[n], nil
			}
		}
	case string:
		return r.character(v, n, missing)
	}
	return missing, nil
}

// Attr is of.name: a method first, and then an item, so that d.items is the method even where d has such a key.
func (r *Run) Attr(of any, name string) (any, error) {
	if err := Defined(of); err != nil {
		return nil, err
	}
	switch v := of.(type) {
	case *Namespace:
		if value, ok := v.Get(name); ok {
			return value, nil
		}
		return pyvalue.Undefined{Name: name}, nil
	case *pyvalue.Dict:
		if dictMethods[name] {
			return method(of, name), nil
		}
		if value, ok := v.Get(name); ok {
			return value, nil
		}
		return pyvalue.Undefined{Name: name}, nil
	}
	if _, list := of.(*pyvalue.List); list && forbidden[name] || hasMethod(of, name) {
		return method(of, name), nil
	}
	return pyvalue.Undefined{Name: name}, nil
}

// Step counts n statements, expressions or items.
func (r *Run) Step(n int) error {
	if r.steps -= n; r.steps < 0 {
		return fmt.Errorf("%w: too many steps", ErrLimit)
	}
	return nil
}

// Spend counts bytes that are made.
func (r *Run) Spend(n int) error {
	if n > r.bytes {
		r.bytes = 0
		return fmt.Errorf("%w: too many bytes", ErrLimit)
	}
	r.bytes -= n
	return nil
}

// Str is Python's str() of a value, counted.
func (r *Run) Str(v any) (string, error) {
	if s, ok := v.(string); ok {
		return s, nil
	}
	s, err := pyvalue.Str(v, r.bytes)
	if err != nil {
		return "", err
	}
	return s, r.Spend(len(s))
}

func (r *Run) made(s string) (any, error) { return s, r.Spend(len(s)) }
