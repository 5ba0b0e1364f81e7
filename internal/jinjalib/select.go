package jinjalib

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/warmpath/warmpath/internal/pyvalue"
)

func mapped(r *Run, of any, a Arguments) (any, error) {
	if !pyvalue.Truth(of) {
		return &pyvalue.List{Shape: pyvalue.Once}, nil
	}
	items, err := r.Walk(of)
	if err != nil {
		return nil, err
	}
	by, named := a.Named["attribute"]
	if !named && len(a.List) == 0 {
		return nil, errors.New("map wants a filter or an attribute")
	}
	made := make([]any, len(items))
	for i, item := range items {
		if named {
			if made[i], err = r.attribute(item, by); err == nil {
				if _, gone := made[i].(pyvalue.Undefined); gone {
					made[i] = a.get(-1, "default", made[i])
				}
			}
		} else {
			f, ok := r.filters[fmt.Sprint(a.List[0])]
			if !ok {
				return nil, fmt.Errorf("the filter %v is not known here", a.List[0])
			}
			made[i], err = f(r, item, Arguments{List: a.List[1:], Named: a.Named, Order: a.Order})
		}
		if err != nil {
			return nil, err
		}
	}
	return &pyvalue.List{Items: made, Shape: pyvalue.Once}, r.Spend(16 * len(made))
}

// chosen is select, reject, selectattr and rejectattr: items for which the test, or their truth, is as wanted.
func (r *Run) chosen(of any, a Arguments, attr, wanted bool) (any, error) {
	if !pyvalue.Truth(of) {
		return &pyvalue.List{Shape: pyvalue.Once}, nil
	}
	items, err := r.Walk(of)
	if err != nil {
		return nil, err
	}
	list := a.List
	var by any
	if attr {
		if len(list) == 0 {
			return nil, errors.New("an attribute is missing")
		}
		by, list = list[0], list[1:]
	}
	test := func(_ *Run, v any, _ []any) (bool, error) { return pyvalue.Truth(v), nil }
	if len(list) > 0 {
		name, _ := list[0].(string)
		if tests[name] == nil {
			return nil, fmt.Errorf("the test %q is not known here", name)
		}
		test, list = func(r *Run, v any, args []any) (bool, error) { return tests.is(r, name, v, args) }, list[1:]
	}
	var picked []any
	for _, item := range items {
		v := item
		if attr {
			if v, err = r.attribute(item, by); err != nil {
				return nil, err
			}
		}
		ok, err := test(r, v, list)
		if err != nil {
			return nil, err
		}
		if ok == wanted {
			picked = append(picked, item)
		}
	}
	return &pyvalue.List{Items: picked, Shape: pyvalue.Once}, r.Spend(16 * len(picked))
}

// folded is what sorting and unique compare unless they are told to heed case.
func (r *Run) folded(item any, a Arguments, caseAt int, by any) (any, error) {
	if by != nil {
		var err error
		if item, err = r.attribute(item, by); err != nil {
			return nil, err
		}
	}
	if s, ok := item.(string); ok && !pyvalue.Truth(a.get(caseAt, "case_sensitive", false)) {
		return strings.ToLower(s), nil
	}
	return item, nil
}

type keyed struct{ key, item any }

func (r *Run) ordered(pairs []keyed, backwards bool) error {
	var failed error
	slices.SortStableFunc(pairs, func(a, b keyed) int {
		c, err := pyvalue.Compare(a.key, b.key)
		failed = errors.Join(failed, err)
		if backwards {
			return -c
		}
		return c
	})
	return errors.Join(failed, r.Step(20*len(pairs)))
}

func sorted(r *Run, of any, a Arguments) (any, error) {
	items, err := r.Walk(of)
	if err != nil {
		return nil, err
	}
	pairs := make([]keyed, len(items))
	for i, item := range items {
		key, err := r.folded(item, a, 1, a.get(2, "attribute", nil))
		if err != nil {
			return nil, err
		}
		pairs[i] = keyed{key, item}
	}
	if err := r.ordered(pairs, pyvalue.Truth(a.get(0, "reverse", false))); err != nil {
		return nil, err
	}
	made := make([]any, len(pairs))
	for i, p := range pairs {
		made[i] = p.item
	}
	return &pyvalue.List{Items: made}, r.Spend(16 * len(made))
}

func (r *Run) extreme(of any, a Arguments, sign int) (any, error) {
	items, err := r.Walk(of)
	if err != nil {
		return nil, err
	}
	var best keyed
	for i, item := range items {
		key, err := r.folded(item, a, 0, a.get(1, "attribute", nil))
		if err != nil {
			return nil, err
		}
		c := sign
		if i > 0 {
			if c, err = pyvalue.Compare(key, best.key); err != nil {
				return nil, err
			}
		}
		if c*sign > 0 {
			best = keyed{key, item}
		}
	}
	if len(items) == 0 {
		return pyvalue.Undefined{Name: "an item of an empty sequence"}, nil
	}
	return best.item, nil
}

func dictSorted(r *Run, of any, a Arguments) (any, error) {
	d, ok := of.(*pyvalue.Dict)
	if !ok {
		return nil, errors.New("dictsort wants a dict")
	}
	byValue := a.get(1, "by", "key") == "value"
	var pairs []keyed
	for _, name := range d.Keys() {
		v, _ := d.Get(name)
		var key any = name
		if byValue {
			key = v
		}
		key, err := r.folded(key, a, 0, nil)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, keyed{key, pair(name, v)})
	}
	if err := r.ordered(pairs, pyvalue.Truth(a.get(2, "reverse", false))); err != nil {
		return nil, err
	}
	made := make([]any, len(pairs))
	for i, p := range pairs {
		made[i] = p.item
	}
	return &pyvalue.List{Items: made}, r.Spend(16 * len(made))
}

func unique(r *Run, of any, a Arguments) (any, error) {
	items, err := r.Walk(of)
	if err != nil {
		return nil, err
	}
	var seen, kept []any
	for _, item := range items {
		key, err := r.folded(item, a, 0, a.get(1, "attribute", nil))
		if err != nil {
			return nil, err
		}
		if err := r.Step(len(seen)); err != nil {
			return nil, err
		}
		known, err := r.Contains(&pyvalue.List{Items: seen}, key)
		if err != nil {
			return nil, err
		}
		if !known {
			seen, kept = append(seen, key), append(kept, item)
		}
	}
	return &pyvalue.List{Items: kept, Shape: pyvalue.Once}, nil
}

type test func(r *Run, of any, args []any) (any, error)

type testSet map[string]test

func (t testSet) is(r *Run, name string, of any, args []any) (bool, error) {
	v, err := t[name](r, of, args)
	return v == true, err
}

func allTests() testSet {
	plain := func(is func(v any) bool) test {
		return func(_ *Run, of any, _ []any) (any, error) { return is(of), nil }
	}
	order := func(o string) test {
		return func(r *Run, of any, args []any) (any, error) {
			if len(args) != 1 {
				return nil, fmt.Errorf("the test %s wants one argument", o)
			}
			return r.Compare(o, of, args[0])
		}
	}
	kind := func(names ...string) test {
		return plain(func(v any) bool { return slices.Contains(names, pyvalue.TypeName(v)) })
	}
	gone := func(v any) bool { _, is := v.(pyvalue.Undefined); return is }
	remainder := func(by int64) test {
		return func(_ *Run, of any, args []any) (any, error) {
			divisor, want := int64(2), by
			if by > 1 && len(args) == 1 {
				divisor, _, _, _ = pyvalue.Number(args[0])
				want = 0
			}
			v, err := whole("%", asWhole(of), divisor)
			return v == want, err
		}
	}
	eq, ne, gt, ge, lt, le := order("=="), order("!="), order(">"), order(">="), order("<"), order("<=")
	return testSet{
		"defined": plain(func(v any) bool { return !gone(v) }), "undefined": plain(gone),
		"none": plain(func(v any) bool { return v == nil }), "true": plain(func(v any) bool { return v == true }), "false": plain(func(v any) bool { return v == false }),
		"boolean": kind("bool"), "integer": kind("int"), "float": kind("float"), "number": kind("int", "float", "bool"), "string": kind("str"), "mapping": kind("dict"),
		"sequence": plain(func(v any) bool {
			l, is := v.(*pyvalue.List)
			return is && l.Shape <= pyvalue.AsTuple || gone(v) || kindOf(v, "str", "dict")
		}),
		"iterable": plain(func(v any) bool { _, is := v.(*pyvalue.List); return is || gone(v) || kindOf(v, "str", "dict") }),
		"callable": plain(func(v any) bool {
			switch v.(type) {
			case Function, Callable, pyvalue.Undefined:
				return true
			}
			return false
		}),
		"odd": remainder(1), "even": remainder(0), "divisibleby": remainder(2),
		"eq": eq, "equalto": eq, "==": eq, "ne": ne, "!=": ne, "gt": gt, "greaterthan": gt, ">": gt, "ge": ge, ">=": ge, "lt": lt, "lessthan": lt, "<": lt, "le": le, "<=": le,
		"in": order("in"),
		"upper": plain(func(v any) bool {
			s, is := v.(string)
			return is && s == strings.ToUpper(s) && strings.ContainsFunc(s, unicode.IsUpper)
		}),
		"lower": plain(func(v any) bool {
			s, is := v.(string)
			return is && s == strings.ToLower(s) && strings.ContainsFunc(s, unicode.IsLower)
		}),
	}
}

func kindOf(v any, names ...string) bool { return slices.Contains(names, pyvalue.TypeName(v)) }

func asWhole(v any) int64 {
	n, _, _, _ := pyvalue.Number(v)
	return n
}
