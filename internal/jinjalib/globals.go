package jinjalib

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/pyvalue"
)

// rangeMax is the sandbox's own bound of range().
const rangeMax = 100_000

var globals = map[string]Function{
	"range": spread,
	"dict": func(r *Run, a Arguments) (any, error) {
		d, err := r.dictOf(a)
		return d, err
	},
	"namespace": func(r *Run, a Arguments) (any, error) {
		d, err := r.dictOf(a)
		return &Namespace{d}, err
	},
	"raise_exception": func(r *Run, a Arguments) (any, error) {
		if len(a.List) != 1 {
			return nil, errors.New("raise_exception takes one message")
		}
		text, err := r.Str(a.List[0])
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %s", ErrRaised, text[:min(len(text), 500)])
	},
	"strftime_now": func(r *Run, a Arguments) (any, error) {
		if len(a.List) == 1 {
			if format, ok := a.List[0].(string); ok {
				return strftime(r.now, format)
			}
		}
		return nil, errors.New("strftime_now takes one format")
	},
	"joiner": func(_ *Run, a Arguments) (any, error) {
		sep := a.get(0, "sep", ", ")
		used := false
		return Function(func(*Run, Arguments) (any, error) {
			if !used {
				used = true
				return "", nil
			}
			return sep, nil
		}), nil
	},
}

// get is an argument by its place (counted without the value that a filter is for) or name.
func (a Arguments) get(at int, name string, fallback any) any {
	if at >= 0 && at < len(a.List) {
		return a.List[at]
	}
	if v, ok := a.Named[name]; ok {
		return v
	}
	return fallback
}

func (a Arguments) whole(at int, name string, fallback int64) (int64, error) {
	n, _, isWhole, ok := pyvalue.Number(a.get(at, name, fallback))
	if !ok || !isWhole {
		return 0, fmt.Errorf("%s must be a whole number", name)
	}
	return n, nil
}

func (r *Run) dictOf(a Arguments) (*pyvalue.Dict, error) {
	d := pyvalue.NewDict()
	if len(a.List) > 1 {
		return nil, errors.New("dict takes one value without a name")
	}
	if len(a.List) == 1 {
		from, ok := a.List[0].(*pyvalue.Dict)
		if !ok {
			return nil, errors.New("a dict of anything but a dict is not known here")
		}
		for _, key := range from.Keys() {
			v, _ := from.Get(key)
			d.Set(key, v)
		}
	}
	for _, key := range a.Order {
		d.Set(key, a.Named[key])
	}
	return d, r.Step(d.Len())
}

func spread(r *Run, a Arguments) (any, error) {
	var n [3]int64
	for i, v := range a.List {
		whole, _, isWhole, ok := pyvalue.Number(v)
		if !ok || !isWhole || i > 2 {
			return nil, errors.New("range takes one to three whole numbers")
		}
		n[i] = whole
	}
	from, to, step := n[0], n[1], n[2]
	switch len(a.List) {
	case 0:
		return nil, errors.New("range takes one to three whole numbers")
	case 1:
		from, to, step = 0, n[0], 1
	case 2:
		step = 1
	}
	if step == 0 {
		return nil, errors.New("range step must not be zero")
	}
	var items []any
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		if len(items) >= rangeMax {
			return nil, fmt.Errorf("%w: a range of more than %d", ErrLimit, rangeMax)
		}
		items = append(items, i)
		if next := i + step; (next > i) != (step > 0) {
			break
		}
	}
	return &pyvalue.List{Items: items}, r.Step(len(items))
}

var strftimes = map[byte]func(t time.Time) string{
	'Y': func(t time.Time) string { return strconv.Itoa(t.Year()) },
	'y': func(t time.Time) string { return t.Format("06") },
	'm': func(t time.Time) string { return t.Format("01") },
	'd': func(t time.Time) string { return t.Format("02") },
	'e': func(t time.Time) string { return t.Format("_2") },
	'j': func(t time.Time) string { return t.Format("002") },
	'H': func(t time.Time) string { return t.Format("15") },
	'I': func(t time.Time) string { return t.Format("03") },
	'M': func(t time.Time) string { return t.Format("04") },
	'S': func(t time.Time) string { return t.Format("05") },
	'p': func(t time.Time) string { return t.Format("PM") },
	'B': func(t time.Time) string { return t.Format("January") },
	'b': func(t time.Time) string { return t.Format("Jan") },
	'A': func(t time.Time) string { return t.Format("Monday") },
	'a': func(t time.Time) string { return t.Format("Mon") },
	'F': func(t time.Time) string { return t.Format("2006-01-02") },
	'T': func(t time.Time) string { return t.Format("15:04:05") },
	'%': func(time.Time) string { return "%" },
}

func strftime(t time.Time, format string) (any, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(format, "%")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		if rest == "" || strftimes[rest[0]] == nil {
			return nil, fmt.Errorf("strftime_now: the format %q is not known here", "%"+rest[:min(1, len(rest))])
		}
		b.WriteString(strftimes[rest[0]](t))
		format = rest[1:]
	}
}
