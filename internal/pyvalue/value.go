// Package pyvalue holds JSON values as Python has them: keys in their order, whole numbers apart from fractions, and printed, compared and
// written as JSON the way Python does it. Chat templates are written against these rules.
//
//	v, err := pyvalue.ReadJSON(`{"b": 1, "a": [2.50, null]}`)
//	pyvalue.Str(v, 1000)                                      // {'b': 1, 'a': [2.5, None]}
//	pyvalue.AppendJSON(nil, v, pyvalue.JSONOptions{})         // {"b": 1, "a": [2.5, null]}
//
// A value is nil (None), bool, int64, Big, float64, string, *List, *Dict, Undefined, or something opaque of the caller's.
package pyvalue

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// DepthMax bounds how deep values nest where they are read, written or compared. Python gives up at about the same depth.
const DepthMax = 500

// ErrDepth is returned for values that nest deeper than DepthMax.
var ErrDepth = fmt.Errorf("a value nests deeper than %d levels", DepthMax)

// ErrSize is returned for values that are too big where they are compared or written. Values may share parts, so that a small one can be
// endless to walk.
var ErrSize = errors.New("a value is too big")

// equalMax bounds how many values are looked at in one comparison.
const equalMax = 1 << 17

// Undefined is what a name or key that is not there gives.
type Undefined struct{ Name string }

// Big is a whole number beyond 64 bits, in decimal digits. It is printed, and nothing else.
type Big string

// Shape tells sequences apart.
type Shape uint8

// A View is what a dict's keys(), values() and items() are: it has a length, and no item can be picked. Once is a generator: it has neither,
// counts as true, and is empty after it was walked.
const (
	AsList Shape = iota
	AsTuple
	AsView
	Once
)

// List is a sequence.
type List struct {
	Items []any
	Shape Shape
}

// Walk is what a loop over the list sees.
func (l *List) Walk() []any {
	items := l.Items
	if l.Shape == Once {
		l.Items = nil
	}
	return items
}

// Dict keeps its keys in the order in which they were first set.
type Dict struct {
	keys   []string
	values map[string]any
}

// NewDict is an empty dict.
func NewDict() *Dict { return &Dict{values: map[string]any{}} }

// Get finds a value.
func (d *Dict) Get(key string) (any, bool) { v, ok := d.values[key]; return v, ok }

// Set adds a key at the end, or changes its value where it is.
func (d *Dict) Set(key string, v any) {
	if _, ok := d.values[key]; !ok {
		d.keys = append(d.keys, key)
	}
	d.values[key] = v
}

// Len is the number of keys.
func (d *Dict) Len() int { return len(d.keys) }

// Keys are not to be changed.
func (d *Dict) Keys() []string { return d.keys }

// Truth is Python's bool().
func Truth(v any) bool {
	switch v := v.(type) {
	case nil, Undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case *List:
		return v.Shape == Once || len(v.Items) > 0
	case *Dict:
		return v.Len() > 0
	}
	return true
}

// TypeName is how messages call a value's type.
func TypeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return "bool"
	case int64, Big:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case *Dict:
		return "dict"
	case Undefined:
		return "undefined " + strconv.Quote(v.Name)
	case *List:
		return []string{"list", "tuple", "view", "generator"}[v.Shape]
	}
	return "object"
}

// Number is v as a number, with bool as 0 or 1; whole tells int from float.
func Number(v any) (n int64, f float64, whole, ok bool) {
	switch v := v.(type) {
	case bool:
		if v {
			n = 1
		}
		return n, float64(n), true, true
	case int64:
		return v, float64(v), true, true
	case float64:
		return 0, v, false, true
	}
	return 0, 0, false, false
}

// Equal is Python's ==. Values of different types are unequal, but for numbers.
func Equal(a, b any) (bool, error) {
	left := equalMax
	return equal(a, b, 0, &left)
}

func equal(a, b any, depth int, left *int) (bool, error) {
	if depth > DepthMax {
		return false, ErrDepth
	}
	if *left--; *left < 0 {
		return false, ErrSize
	}
	an, af, aWhole, aNumber := Number(a)
	bn, bf, bWhole, bNumber := Number(b)
	if aNumber && bNumber {
		if aWhole && bWhole {
			return an == bn, nil
		}
		return af == bf, nil
	}
	switch a := a.(type) {
	case Undefined:
		_, same := b.(Undefined)
		return same, nil
	case *List:
		other, ok := b.(*List)
		if !ok || a == other || a.Shape != other.Shape || a.Shape > AsTuple || len(a.Items) != len(other.Items) {
			return ok && a == other, nil
		}
		for i := range a.Items {
			if same, err := equal(a.Items[i], other.Items[i], depth+1, left); !same {
				return false, err
			}
		}
		return true, nil
	case *Dict:
		other, ok := b.(*Dict)
		if !ok || a == other || a.Len() != other.Len() {
			return ok && a == other, nil
		}
		for _, key := range a.keys {
			v, ok := other.values[key]
			if !ok {
				return false, nil
			}
			if same, err := equal(a.values[key], v, depth+1, left); !same {
				return false, err
			}
		}
		return true, nil
	}
	return a == b, nil
}

var errOrder = errors.New("values of these types have no order")

// Compare is below, at or above 0 as a is less than, equal to or greater than b; an error for what Python does not compare.
func Compare(a, b any) (int, error) { return compare(a, b, 0) }

func compare(a, b any, depth int) (int, error) {
	if depth > DepthMax {
		return 0, ErrDepth
	}
	an, af, aWhole, aNumber := Number(a)
	bn, bf, bWhole, bNumber := Number(b)
	switch {
	case aNumber && bNumber && aWhole && bWhole:
		return order(an < bn, an > bn), nil
	case aNumber && bNumber && !math.IsNaN(af) && !math.IsNaN(bf):
		return order(af < bf, af > bf), nil
	}
	switch a := a.(type) {
	case string:
		if b, ok := b.(string); ok {
			return strings.Compare(a, b), nil
		}
	case *List:
		other, ok := b.(*List)
		if !ok || a.Shape != other.Shape || a.Shape > AsTuple {
			break
		}
		for i := range min(len(a.Items), len(other.Items)) {
			if same, err := Equal(a.Items[i], other.Items[i]); err != nil {
				return 0, err
			} else if !same {
				return compare(a.Items[i], other.Items[i], depth+1)
			}
		}
		return order(len(a.Items) < len(other.Items), len(a.Items) > len(other.Items)), nil
	}
	return 0, fmt.Errorf("%w: %s and %s", errOrder, TypeName(a), TypeName(b))
}

func order(less, more bool) int {
	switch {
	case less:
		return -1
	case more:
		return 1
	}
	return 0
}

// Float is Python's repr of a float.
func Float(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(f, 'g', -1, 64)), "+")
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		format = 'e'
	}
	s := strconv.FormatFloat(f, format, -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// Str is Python's str(): a string as it is, anything else as Python shows it, in some max bytes at most.
func Str(v any, max int) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case Undefined:
		return "", nil
	}
	b, err := appendRepr(nil, v, 0, max)
	return string(b), err
}

func appendRepr(b []byte, v any, depth, max int) ([]byte, error) {
	if depth > DepthMax {
		return nil, ErrDepth
	}
	if len(b) > max {
		return nil, ErrSize
	}
	var err error
	switch v := v.(type) {
	case nil:
		return append(b, "None"...), nil
	case bool:
		if v {
			return append(b, "True"...), nil
		}
		return append(b, "False"...), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case Big:
		return append(b, v...), nil
	case float64:
		return append(b, Float(v)...), nil
	case Undefined:
		return append(b, "Undefined"...), nil
	case string:
		return appendQuoted(b, v), nil
	case *List:
		if v.Shape > AsTuple {
			break
		}
		brackets := []string{"[]", "()"}[v.Shape]
		b = append(b, brackets[0])
		for i, item := range v.Items {
			if i > 0 {
				b = append(b, ", "...)
			}
			if b, err = appendRepr(b, item, depth+1, max); err != nil {
				return nil, err
			}
		}
		if v.Shape == AsTuple && len(v.Items) == 1 {
			b = append(b, ',')
		}
		return append(b, brackets[1]), nil
	case *Dict:
		b = append(b, '{')
		for i, key := range v.keys {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = append(appendQuoted(b, key), ": "...)
			if b, err = appendRepr(b, v.values[key], depth+1, max); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	}
	return nil, fmt.Errorf("a %s cannot be printed", TypeName(v))
}

// appendQuoted is Python's repr of a string: in single quotes, unless only those are in it.
func appendQuoted(b []byte, s string) []byte {
	quote := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b = append(b, byte(quote))
	for _, r := range s {
		switch {
		case r == quote || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r < ' ' || r == 0x7f || r > 0x7f && r < 0x100 && !unicode.IsPrint(r):
			b = fmt.Appendf(b, `\x%02x`, r)
		case r > 0xffff && !unicode.IsPrint(r):
			b = fmt.Appendf(b, `\U%08x`, r)
		case r >= 0x100 && !unicode.IsPrint(r):
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = append(b, string(r)...)
		}
	}
	return append(b, byte(quote))
}
