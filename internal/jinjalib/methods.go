package jinjalib

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/warmpath/warmpath/internal/jinjalex"
	"github.com/warmpath/warmpath/internal/pyvalue"
)

// methods of strings and dicts. Those that change a value are forbidden in the sandbox, and missing here.
var methods = map[string]func(r *Run, of any, a Arguments) (any, error){
	"strip":  func(r *Run, of any, a Arguments) (any, error) { return r.strip(of, a, true, true) },
	"lstrip": func(r *Run, of any, a Arguments) (any, error) { return r.strip(of, a, true, false) },
	"rstrip": func(r *Run, of any, a Arguments) (any, error) { return r.strip(of, a, false, true) },
	"upper":  func(r *Run, of any, _ Arguments) (any, error) { return r.made(strings.ToUpper(of.(string))) },
	"lower":  func(r *Run, of any, _ Arguments) (any, error) { return r.made(strings.ToLower(of.(string))) },
	"title":  func(r *Run, of any, _ Arguments) (any, error) { return r.made(titled(of.(string))) },
	"capitalize": func(r *Run, of any, _ Arguments) (any, error) {
		return r.made(capitalized(of.(string)))
	},
	"split":      func(r *Run, of any, a Arguments) (any, error) { return r.split(of.(string), a, false) },
	"rsplit":     func(r *Run, of any, a Arguments) (any, error) { return r.split(of.(string), a, true) },
	"splitlines": func(r *Run, of any, a Arguments) (any, error) { return r.lines(of.(string), a) },
	"replace":    func(r *Run, of any, a Arguments) (any, error) { return r.replace(of.(string), a) },
	"startswith": func(r *Run, of any, a Arguments) (any, error) { return ends(of.(string), a, strings.HasPrefix) },
	"endswith":   func(r *Run, of any, a Arguments) (any, error) { return ends(of.(string), a, strings.HasSuffix) },
	"find":       func(r *Run, of any, a Arguments) (any, error) { return find(of.(string), a, strings.Index) },
	"rfind":      func(r *Run, of any, a Arguments) (any, error) { return find(of.(string), a, strings.LastIndex) },
	"count": func(r *Run, of any, a Arguments) (any, error) {
		sub, err := one(a)
		if err != nil || sub == "" {
			return nil, errors.Join(err, errors.New("count of nothing"))
		}
		return int64(strings.Count(of.(string), sub)), nil
	},
	"isdigit": func(_ *Run, of any, _ Arguments) (any, error) { return every(of.(string), unicode.IsDigit), nil },
	"isalpha": func(_ *Run, of any, _ Arguments) (any, error) { return every(of.(string), unicode.IsLetter), nil },
	"isspace": func(_ *Run, of any, _ Arguments) (any, error) { return every(of.(string), jinjalex.Space), nil },
	"join":    func(r *Run, of any, a Arguments) (any, error) { return r.joined(of.(string), a) },
	"removeprefix": func(_ *Run, of any, a Arguments) (any, error) {
		s, err := one(a)
		return strings.TrimPrefix(of.(string), s), err
	},
	"removesuffix": func(_ *Run, of any, a Arguments) (any, error) {
		s, err := one(a)
		return strings.TrimSuffix(of.(string), s), err
	},
	"format": func(r *Run, of any, a Arguments) (any, error) { return r.braces(of.(string), a) },
	"get": func(_ *Run, of any, a Arguments) (any, error) {
		if len(a.List) == 0 || len(a.List) > 2 || len(a.Named) > 0 {
			return nil, errors.New("get takes a key and what to give without it")
		}
		key, ok := a.List[0].(string)
		if v, found := of.(*pyvalue.Dict).Get(key); ok && found {
			return v, nil
		}
		return a.get(1, "", nil), nil
	},
	"keys": func(r *Run, of any, _ Arguments) (any, error) {
		return r.pairs(of.(*pyvalue.Dict), pyvalue.AsView, func(key string, _ any) any { return key })
	},
	"values": func(r *Run, of any, _ Arguments) (any, error) {
		return r.pairs(of.(*pyvalue.Dict), pyvalue.AsView, func(_ string, v any) any { return v })
	},
	"items": func(r *Run, of any, _ Arguments) (any, error) {
		return r.pairs(of.(*pyvalue.Dict), pyvalue.AsView, pair)
	},
	"copy": func(r *Run, of any, _ Arguments) (any, error) {
		return r.dictOf(Arguments{List: []any{of}})
	},
}

var dictMethods = map[string]bool{"get": true, "keys": true, "values": true, "items": true, "copy": true,
	"clear": true, "fromkeys": true, "pop": true, "popitem": true, "setdefault": true, "update": true}

// forbidden in the sandbox: a template may name them, and a call of them is an error.
var forbidden = map[string]bool{"append": true, "extend": true, "insert": true, "remove": true, "clear": true, "pop": true, "popitem": true, "setdefault": true, "update": true}

func hasMethod(of any, name string) bool {
	_, text := of.(string)
	return text && methods[name] != nil && !dictMethods[name]
}

func method(of any, name string) any {
	return Function(func(r *Run, a Arguments) (any, error) {
		m := methods[name]
		if m == nil {
			return nil, fmt.Errorf("the method %s may not be called in a template", name)
		}
		if text, ok := of.(string); ok {
			if err := r.Step(len(text) / 1024); err != nil {
				return nil, err
			}
		}
		return m(r, of, a)
	})
}

func pair(key string, v any) any { return &pyvalue.List{Items: []any{key, v}, Shape: pyvalue.AsTuple} }

func (r *Run) pairs(d *pyvalue.Dict, shape pyvalue.Shape, of func(key string, v any) any) (any, error) {
	items := make([]any, 0, d.Len())
	for _, key := range d.Keys() {
		v, _ := d.Get(key)
		items = append(items, of(key, v))
	}
	return &pyvalue.List{Items: items, Shape: shape}, r.Step(len(items))
}

// one is the only argument, a string.
func one(a Arguments) (string, error) {
	if len(a.List) == 1 && len(a.Named) == 0 {
		if s, ok := a.List[0].(string); ok {
			return s, nil
		}
	}
	return "", errors.New("one string is wanted")
}

func (r *Run) strip(of any, a Arguments, left, right bool) (any, error) {
	text := of.(string)
	in := r.space
	if chars := a.get(0, "chars", nil); chars != nil {
		set, ok := chars.(string)
		if !ok {
			return nil, errors.New("the characters to strip must be a string")
		}
		in = func(c rune) bool { return strings.ContainsRune(set, c) }
	}
	if left {
		text = strings.TrimLeftFunc(text, in)
	}
	if right {
		text = strings.TrimRightFunc(text, in)
	}
	return text, nil
}

func (r *Run) split(text string, a Arguments, fromRight bool) (any, error) {
	most, err := a.whole(1, "maxsplit", -1)
	if err != nil {
		return nil, err
	}
	var parts []string
	switch sep := a.get(0, "sep", nil).(type) {
	case nil:
		if most >= 0 {
			return nil, errors.New("a bounded split at white space is not known here")
		}
		parts = strings.FieldsFunc(text, jinjalex.Space)
	case string:
		if sep == "" {
			return nil, errors.New("empty separator")
		}
		parts = strings.Split(text, sep)
		if extra := len(parts) - 1 - int(most); most >= 0 && extra > 0 && fromRight {
			parts = append([]string{strings.Join(parts[:extra+1], sep)}, parts[extra+1:]...)
		} else if most >= 0 && extra > 0 {
			parts = strings.SplitN(text, sep, int(most)+1)
		}
	default:
		return nil, errors.New("the separator must be a string")
	}
	return r.strings(parts)
}

func (r *Run) strings(parts []string) (any, error) {
	items := make([]any, len(parts))
	for i, part := range parts {
		items[i] = part
	}
	return &pyvalue.List{Items: items}, errors.Join(r.Step(len(items)), r.Spend(32*len(items)))
}

// lineBreaks are where str.splitlines cuts.
const lineBreaks = "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029"

func cutLines(text string) []string {
	var lines []string
	for text != "" {
		i := strings.IndexAny(text, lineBreaks)
		if i < 0 {
			return append(lines, text)
		}
		lines = append(lines, text[:i])
		rest := strings.TrimPrefix(text[i:], "\r\n")
		if len(rest) == len(text)-i {
			for j := range rest {
				if j > 0 {
					rest = rest[j:]
					break
				}
			}
			if len(rest) == len(text)-i {
				rest = ""
			}
		}
		text = rest
	}
	return lines
}

func (r *Run) lines(text string, a Arguments) (any, error) {
	if len(a.List)+len(a.Named) > 0 {
		return nil, errors.New("splitlines that keeps the ends is not known here")
	}
	return r.strings(cutLines(text))
}

func (r *Run) replace(text string, a Arguments) (any, error) {
	from, ok := a.get(0, "old", nil).(string)
	to, ok2 := a.get(1, "new", nil).(string)
	most, err := a.whole(2, "count", -1)
	if !ok || !ok2 || err != nil {
		return nil, errors.Join(err, errors.New("replace wants two strings"))
	}
	n := strings.Count(text, from)
	if most >= 0 {
		n = min(n, int(most))
	}
	if err := r.Spend(len(text)); err != nil {
		return nil, err
	}
	if grown := len(to) - len(from); grown > 0 {
		if n > r.bytes/grown {
			return nil, r.Spend(int(^uint(0) >> 1))
		}
		if err := r.Spend(n * grown); err != nil {
			return nil, err
		}
	}
	return strings.Replace(text, from, to, int(most)), nil
}

func ends(text string, a Arguments, has func(s, end string) bool) (any, error) {
	if len(a.List) == 1 {
		switch v := a.List[0].(type) {
		case string:
			return has(text, v), nil
		case *pyvalue.List:
			for _, item := range v.Items {
				s, ok := item.(string)
				if !ok {
					return nil, errors.New("strings are wanted")
				}
				if has(text, s) {
					return true, nil
				}
			}
			return false, nil
		}
	}
	return nil, errors.New("one string or a tuple of strings is wanted")
}

// find counts in characters.
func find(text string, a Arguments, index func(s, sub string) int) (any, error) {
	sub, err := one(a)
	if err != nil {
		return nil, err
	}
	i := index(text, sub)
	if i < 0 {
		return int64(-1), nil
	}
	return int64(len([]rune(text[:i]))), nil
}

func every(text string, is func(rune) bool) bool {
	return text != "" && strings.IndexFunc(text, func(c rune) bool { return !is(c) }) < 0
}

// braces is the method format with {} alone.
func (r *Run) braces(text string, a Arguments) (any, error) {
	parts := strings.Split(text, "{}")
	if len(a.Named) > 0 || len(parts)-1 > len(a.List) || strings.ContainsAny(strings.Join(parts, ""), "{}") {
		return nil, errors.New("formats other than {} are not known here")
	}
	all := parts[:1:1]
	for i, part := range parts[1:] {
		s, err := r.Str(a.List[i])
		if err != nil {
			return nil, err
		}
		all = append(all, s, part)
	}
	return r.glue("", all)
}

func titled(text string) string {
	inWord := false
	return strings.Map(func(c rune) rune {
		was := inWord
		inWord = unicode.IsLetter(c)
		switch {
		case inWord && !was:
			return unicode.ToTitle(c)
		case inWord:
			return unicode.ToLower(c)
		}
		return c
	}, text)
}

func capitalized(text string) string {
	first := true
	return strings.Map(func(c rune) rune {
		if first {
			first = false
			return unicode.ToTitle(c)
		}
		return unicode.ToLower(c)
	}, text)
}

func (r *Run) joined(sep string, a Arguments) (any, error) {
	if len(a.List) != 1 {
		return nil, errors.New("join takes one list")
	}
	items, err := r.Walk(a.List[0])
	if err != nil {
		return nil, err
	}
	parts := make([]string, len(items))
	for i, item := range items {
		s, ok := item.(string)
		if !ok {
			return nil, errors.New("join wants strings")
		}
		parts[i] = s
	}
	return r.glue(sep, parts)
}

// glue joins, counted before it is made.
func (r *Run) glue(sep string, parts []string) (any, error) {
	for _, part := range parts {
		if err := r.Spend(len(part) + len(sep)); err != nil {
			return nil, err
		}
	}
	return strings.Join(parts, sep), nil
}
