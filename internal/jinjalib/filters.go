package jinjalib

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/warmpath/warmpath/internal/jinjalex"
	"github.com/warmpath/warmpath/internal/pyvalue"
)

type filter func(r *Run, of any, a Arguments) (any, error)

var filters, tests = allFilters(), allTests()

func allFilters() map[string]filter {
	text := func(change func(string) string) filter {
		return func(r *Run, of any, _ Arguments) (any, error) {
			s, err := r.Str(of)
			if err != nil {
				return nil, err
			}
			return r.made(change(s))
		}
	}
	length := func(r *Run, of any, _ Arguments) (any, error) { return size(of) }
	return map[string]filter{
		"upper": text(strings.ToUpper), "lower": text(strings.ToLower), "capitalize": text(capitalized), "title": text(wordsTitled), "string": text(func(s string) string { return s }),
		"safe":   func(_ *Run, of any, _ Arguments) (any, error) { return of, nil },
		"length": length, "count": length,
		"default": fallback, "d": fallback,
		"trim": func(r *Run, of any, a Arguments) (any, error) {
			s, err := r.Str(of)
			if err != nil {
				return nil, err
			}
			return r.strip(s, a, true, true)
		},
		"replace": func(r *Run, of any, a Arguments) (any, error) {
			s, err := r.Str(of)
			if err != nil {
				return nil, err
			}
			return r.replace(s, a)
		},
		"join":   joinFilter,
		"indent": indent,
		"tojson": tojson,
		"int":    toInt,
		"float":  toFloat,
		"abs":    absolute,
		"round":  round,
		"first":  func(r *Run, of any, _ Arguments) (any, error) { return r.pick(of, 0) },
		"last":   func(r *Run, of any, _ Arguments) (any, error) { return r.pick(of, -1) },
		"list":   func(r *Run, of any, _ Arguments) (any, error) { return r.listed(of, nil, pyvalue.AsList) },
		"reverse": func(r *Run, of any, _ Arguments) (any, error) {
			return r.listed(of, slices.Reverse[[]any], pyvalue.Once)
		},
		"items": func(r *Run, of any, _ Arguments) (any, error) {
			if d, ok := of.(*pyvalue.Dict); ok {
				return r.pairs(d, pyvalue.Once, pair)
			}
			if _, ok := of.(pyvalue.Undefined); ok {
				return &pyvalue.List{Shape: pyvalue.Once}, nil
			}
			return nil, errors.New("can only get item pairs from a mapping")
		},
		"min":        func(r *Run, of any, a Arguments) (any, error) { return r.extreme(of, a, -1) },
		"max":        func(r *Run, of any, a Arguments) (any, error) { return r.extreme(of, a, 1) },
		"map":        mapped,
		"select":     func(r *Run, of any, a Arguments) (any, error) { return r.chosen(of, a, false, true) },
		"reject":     func(r *Run, of any, a Arguments) (any, error) { return r.chosen(of, a, false, false) },
		"selectattr": func(r *Run, of any, a Arguments) (any, error) { return r.chosen(of, a, true, true) },
		"rejectattr": func(r *Run, of any, a Arguments) (any, error) { return r.chosen(of, a, true, false) },
		"sort":       sorted,
		"dictsort":   dictSorted,
		"unique":     unique,
	}
}

// wordsTitled is the filter title, whose words begin behind white space, "-" and opening brackets; the method title has others.
func wordsTitled(s string) string {
	begins := true
	return strings.Map(func(c rune) rune {
		first := begins
		begins = jinjalex.Space(c) || strings.ContainsRune("-([{<", c)
		if first && !begins {
			return unicode.ToUpper(c)
		}
		return unicode.ToLower(c)
	}, s)
}

func size(of any) (any, error) {
	switch v := of.(type) {
	case string:
		return int64(len([]rune(v))), nil
	case *pyvalue.Dict:
		return int64(v.Len()), nil
	case pyvalue.Undefined:
		return int64(0), nil
	case *pyvalue.List:
		if v.Shape != pyvalue.Once {
			return int64(len(v.Items)), nil
		}
	}
	return nil, fmt.Errorf("a %s has no length", pyvalue.TypeName(of))
}

func fallback(_ *Run, of any, a Arguments) (any, error) {
	if _, gone := of.(pyvalue.Undefined); gone || pyvalue.Truth(a.get(1, "boolean", false)) && !pyvalue.Truth(of) {
		return a.get(0, "default_value", ""), nil
	}
	return of, nil
}

func (r *Run) attribute(of any, path any) (any, error) {
	if n, ok := path.(int64); ok {
		return r.Item(of, n)
	}
	name, ok := path.(string)
	if !ok {
		return nil, errors.New("an attribute must be a name")
	}
	for _, part := range strings.Split(name, ".") {
		var key any = part
		if n, err := strconv.ParseInt(part, 10, 64); err == nil {
			key = n
		}
		var err error
		if of, err = r.Item(of, key); err != nil {
			return nil, err
		}
	}
	return of, nil
}

func joinFilter(r *Run, of any, a Arguments) (any, error) {
	items, err := r.Walk(of)
	if err != nil {
		return nil, err
	}
	sep, err := r.Str(a.get(0, "d", ""))
	if err != nil {
		return nil, err
	}
	by := a.get(1, "attribute", nil)
	parts := make([]string, len(items))
	for i, item := range items {
		if by != nil {
			if item, err = r.attribute(item, by); err != nil {
				return nil, err
			}
		}
		if parts[i], err = r.Str(item); err != nil {
			return nil, err
		}
	}
	return r.glue(sep, parts)
}

func indent(r *Run, of any, a Arguments) (any, error) {
	text, ok := of.(string)
	if !ok {
		return nil, errors.New("indent wants a string")
	}
	pad, err := r.padding(a.get(0, "width", int64(4)))
	if err != nil {
		return nil, err
	}
	first, blank := pyvalue.Truth(a.get(1, "first", false)), pyvalue.Truth(a.get(2, "blank", false))
	lines := cutLines(text + "\n")
	for i, line := range lines {
		if i == 0 && !first || i > 0 && line == "" && !blank {
			continue
		}
		if err := r.Spend(len(pad) + len(line)); err != nil {
			return nil, err
		}
		lines[i] = pad + line
	}
	return r.glue("\n", lines)
}

// padding is a string, or so many blanks.
func (r *Run) padding(width any) (string, error) {
	if s, ok := width.(string); ok {
		return s, nil
	}
	n, _, isWhole, ok := pyvalue.Number(width)
	if !ok || !isWhole {
		return "", errors.New("a width must be a whole number or a string")
	}
	v, err := r.repeat(" ", n)
	if err != nil {
		return "", err
	}
	return v.(string), nil
}

func tojson(r *Run, of any, a Arguments) (any, error) {
	o := pyvalue.JSONOptions{ASCII: pyvalue.Truth(a.get(0, "ensure_ascii", false)), SortKeys: pyvalue.Truth(a.get(3, "sort_keys", false)), Max: max(1, r.bytes)}
	if by := a.get(1, "indent", nil); by != nil {
		pad, err := r.padding(by)
		if err != nil {
			return nil, err
		}
		if len(pad) > 100 {
			return nil, fmt.Errorf("%w: an indent of %d", ErrLimit, len(pad))
		}
		o.Indent = &pad
	}
	if pair, ok := a.get(2, "separators", nil).(*pyvalue.List); ok {
		if len(pair.Items) != 2 {
			return nil, errors.New("separators must be two strings")
		}
		o.Item, _ = pair.Items[0].(string)
		o.Key, _ = pair.Items[1].(string)
	}
	b, err := pyvalue.AppendJSON(nil, of, o)
	if err != nil {
		return nil, err
	}
	return r.made(string(b))
}

func toInt(_ *Run, of any, a Arguments) (any, error) {
	other := a.get(0, "default", int64(0))
	if a.get(1, "base", int64(10)) != int64(10) {
		return nil, errors.New("numbers of another base than ten are not known here")
	}
	if s, ok := of.(string); ok {
		if n, err := strconv.ParseInt(strings.TrimFunc(s, jinjalex.Space), 10, 64); err == nil {
			return n, nil
		}
		f, err := strconv.ParseFloat(strings.TrimFunc(s, jinjalex.Space), 64)
		if err != nil {
			return other, nil
		}
		of = f
	}
	n, f, isWhole, ok := pyvalue.Number(of)
	switch {
	case ok && isWhole:
		return n, nil
	case !ok || math.IsNaN(f) || math.IsInf(f, 0):
		return other, nil
	case math.Abs(f) >= 1<<63:
		return nil, errRange
	}
	return int64(f), nil
}

func toFloat(_ *Run, of any, a Arguments) (any, error) {
	if s, ok := of.(string); ok {
		if f, err := strconv.ParseFloat(strings.TrimFunc(s, jinjalex.Space), 64); err == nil {
			return f, nil
		}
	} else if _, f, _, ok := pyvalue.Number(of); ok {
		return f, nil
	}
	return a.get(0, "default", 0.0), nil
}

func absolute(_ *Run, of any, _ Arguments) (any, error) {
	n, f, isWhole, ok := pyvalue.Number(of)
	switch {
	case !ok:
		return nil, errors.New("abs wants a number")
	case !isWhole:
		return math.Abs(f), nil
	}
	return max(n, -n), nil
}

func round(_ *Run, of any, a Arguments) (any, error) {
	_, f, _, ok := pyvalue.Number(of)
	digits, err := a.whole(0, "precision", 0)
	if !ok || err != nil || digits < 0 || digits > 15 {
		return nil, errors.New("round wants a number, and 0 to 15 digits")
	}
	scale := math.Pow(10, float64(digits))
	switch a.get(1, "method", "common") {
	case "ceil":
		return math.Ceil(f*scale) / scale, nil
	case "floor":
		return math.Floor(f*scale) / scale, nil
	}
	return strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(digits), 64), 64)
}

func (r *Run) pick(of any, at int) (any, error) {
	items, err := r.Walk(of)
	if err != nil {
		return nil, err
	}
	if l, ok := of.(*pyvalue.List); ok && l.Shape == pyvalue.Once && at < 0 {
		return nil, errors.New("a generator cannot be reversed")
	}
	if len(items) == 0 {
		return pyvalue.Undefined{Name: "an item of an empty sequence"}, nil
	}
	return items[(at+len(items))%len(items)], nil
}

func (r *Run) listed(of any, change func([]any), shape pyvalue.Shape) (any, error) {
	if text, ok := of.(string); ok && change != nil {
		chars := []rune(text)
		slices.Reverse(chars)
		return r.made(string(chars))
	}
	items, err := r.Walk(of)
	if err != nil {
		return nil, err
	}
	items = slices.Clone(items)
	if change != nil {
		change(items)
	}
	return &pyvalue.List{Items: items, Shape: shape}, r.Spend(16 * len(items))
}
