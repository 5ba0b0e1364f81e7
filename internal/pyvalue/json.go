package pyvalue

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// JSONOptions are those of Python's json.dumps.
type JSONOptions struct {
	ASCII    bool
	Indent   *string // what one level is indented by; nil for everything on one line
	Item     string  // between items; ", ", or "," with an indent, where both separators are empty
	Key      string  // behind a key; ": "
	SortKeys bool
	Max      int // in bytes, about; 0 for no bound
}

// AppendJSON writes v as json.dumps does.
func AppendJSON(b []byte, v any, o JSONOptions) ([]byte, error) {
	if o.Item == "" && o.Key == "" {
		o.Item, o.Key = ", ", ": "
		if o.Indent != nil {
			o.Item = ","
		}
	}
	return o.append(b, v, 0)
}

func (o *JSONOptions) append(b []byte, v any, depth int) ([]byte, error) {
	if depth > DepthMax {
		return nil, ErrDepth
	}
	if o.Max > 0 && len(b) > o.Max {
		return nil, ErrSize
	}
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case Big:
		return append(b, v...), nil
	case float64:
		switch {
		case math.IsNaN(v):
			return append(b, "NaN"...), nil
		case math.IsInf(v, 1):
			return append(b, "Infinity"...), nil
		case math.IsInf(v, -1):
			return append(b, "-Infinity"...), nil
		}
		return append(b, Float(v)...), nil
	case string:
		return o.quote(b, v), nil
	case *List:
		if v.Shape <= AsTuple {
			return o.many(b, "[]", len(v.Items), depth, func(b []byte, i int) ([]byte, error) { return o.append(b, v.Items[i], depth+1) })
		}
	case *Dict:
		keys := v.keys
		if o.SortKeys {
			keys = slices.Sorted(slices.Values(keys))
		}
		return o.many(b, "{}", len(keys), depth, func(b []byte, i int) ([]byte, error) {
			return o.append(append(o.quote(b, keys[i]), o.Key...), v.values[keys[i]], depth+1)
		})
	}
	return nil, fmt.Errorf("a %s is not JSON", TypeName(v))
}

func (o *JSONOptions) many(b []byte, brackets string, n, depth int, item func([]byte, int) ([]byte, error)) ([]byte, error) {
	b = append(b, brackets[0])
	for i := range n {
		if i > 0 {
			b = append(b, o.Item...)
		}
		b = o.line(b, depth+1)
		var err error
		if b, err = item(b, i); err != nil {
			return nil, err
		}
	}
	if n > 0 {
		b = o.line(b, depth)
	}
	return append(b, brackets[1]), nil
}

func (o *JSONOptions) line(b []byte, depth int) []byte {
	if o.Indent == nil {
		return b
	}
	b = append(b, '\n')
	for range depth {
		b = append(b, *o.Indent...)
	}
	return b
}

func (o *JSONOptions) quote(b []byte, s string) []byte {
	b = append(b, '"')
	for from := 0; from < len(s); {
		i := from
		for i < len(s) && s[i] >= ' ' && s[i] != '"' && s[i] != '\\' && (s[i] < 0x7f || !o.ASCII) {
			i++
		}
		b = append(b, s[from:i]...)
		if i == len(s) {
			break
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		from = i + size
		if j := strings.IndexRune("\"\\\n\r\t\b\f", r); j >= 0 {
			b = append(b, '\\', `"\nrtbf`[j])
		} else if r > 0xffff {
			r -= 0x10000
			b = fmt.Appendf(b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		} else {
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return append(b, '"')
}

// ReadJSON reads one JSON text, as json.loads does: of a key that comes twice the last value counts, at the first one's place. What is
// not JSON is an error that names the byte.
func ReadJSON(text string) (any, error) {
	r := reader{text: text}
	v, err := r.value(0)
	if err != nil {
		return nil, err
	}
	if r.space(); r.at < len(text) {
		return nil, r.fail("something behind the value")
	}
	return v, nil
}

type reader struct {
	text   string
	at     int
	buffer []byte // of strings with escapes
}

func (r *reader) fail(what string) error { return fmt.Errorf("byte %d is not JSON: %s", r.at, what) }

func (r *reader) space() {
	for r.at < len(r.text) && strings.IndexByte(" \t\r\n", r.text[r.at]) >= 0 {
		r.at++
	}
}

func (r *reader) take(c byte) bool {
	r.space()
	if r.at < len(r.text) && r.text[r.at] == c {
		r.at++
		return true
	}
	return false
}

func (r *reader) value(depth int) (any, error) {
	if depth > DepthMax {
		return nil, ErrDepth
	}
	r.space()
	if r.at >= len(r.text) {
		return nil, r.fail("it ends early")
	}
	switch r.text[r.at] {
	case '{':
		r.at++
		return r.dict(depth)
	case '[':
		r.at++
		return r.list(depth)
	case '"':
		return r.quoted()
	}
	switch {
	case r.word("null"):
		return nil, nil
	case r.word("true"):
		return true, nil
	case r.word("false"):
		return false, nil
	}
	return r.number()
}

func (r *reader) word(word string) bool {
	if !strings.HasPrefix(r.text[r.at:], word) {
		return false
	}
	r.at += len(word)
	return true
}

func (r *reader) list(depth int) (any, error) {
	l := &List{}
	for !r.take(']') {
		if len(l.Items) > 0 && !r.take(',') {
			return nil, r.fail("a comma is missing")
		}
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		l.Items = append(l.Items, v)
	}
	return l, nil
}

func (r *reader) dict(depth int) (any, error) {
	d := NewDict()
	for !r.take('}') {
		if d.Len() > 0 && !r.take(',') {
			return nil, r.fail("a comma is missing")
		}
		r.space()
		if r.at >= len(r.text) || r.text[r.at] != '"' {
			return nil, r.fail("a key is missing")
		}
		key, err := r.quoted()
		if err != nil {
			return nil, err
		}
		if !r.take(':') {
			return nil, r.fail("a colon is missing")
		}
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		d.Set(key, v)
	}
	return d, nil
}

func (r *reader) number() (any, error) {
	from := r.at
	for r.at < len(r.text) && strings.IndexByte("+-0123456789.eE", r.text[r.at]) >= 0 {
		r.at++
	}
	s := r.text[from:r.at]
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || digits[0] < '0' || digits[0] > '9' || len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9' {
		r.at = from
		return nil, r.fail("no value begins here")
	}
	if !strings.ContainsAny(s, ".eE") {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return n, nil
		}
		if strings.ContainsAny(digits, "+-") {
			return nil, r.fail("a broken number")
		}
		return Big(s), nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return nil, r.fail("a broken number")
	}
	return f, nil
}

func (r *reader) quoted() (string, error) {
	r.at++
	rest := r.text[r.at:]
	end := strings.IndexByte(rest, '"')
	if end < 0 {
		return "", r.fail("a string is not closed")
	}
	if strings.IndexByte(rest[:end], '\\') < 0 {
		r.at += end + 1
		return rest[:end], nil
	}
	for at := end; rest[at-1] == '\\'; { // escaped, most likely: the string is longer
		more := strings.IndexByte(rest[at+1:], '"')
		if more < 0 {
			break
		}
		at += more + 1
		end = at
	}
	rest = rest[:end+1] // it ends here at the latest
	if cap(r.buffer) < len(rest) {
		r.buffer = make([]byte, len(rest))
	}
	out, n := r.buffer[:len(rest)], 0 // escapes are longer than what they stand for
	for from := r.at; r.at-from < len(rest); {
		i := plain(out[n:], rest[r.at-from:])
		n += i
		r.at += i + 1
		at := r.at - from
		if at > len(rest) || rest[at-1] == '\\' && at == len(rest) {
			break
		}
		if rest[at-1] == '"' {
			return string(out[:n]), nil
		}
		r.at++
		if j := strings.IndexByte(`"\/nrtbf`, rest[at]); j >= 0 {
			out[n] = "\"\\/\n\r\t\b\f"[j]
			n++
			continue
		}
		if rest[at] != 'u' {
			return "", r.fail("an unknown escape")
		}
		char, err := r.escape()
		if err != nil {
			return "", err
		}
		n += utf8.EncodeRune(out[n:], char)
	}
	return "", r.fail("a string is not closed")
}

// plain copies s up to the first quote or backslash and returns how much that is. What it writes behind that is of no meaning. Long
// strings are much of a request, so eight bytes are looked at and copied at once.
func plain(out []byte, s string) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(s); i += 8 {
		t := s[i : i+8]
		x := uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 | uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
		binary.LittleEndian.PutUint64(out[i:], x)
		quote, slash := x^ones*'"', x^ones*'\\'
		if m := ((quote-ones)&^quote | (slash-ones)&^slash) & tops; m != 0 { // the lowest is right, see Warren, Hacker's Delight, 6-1
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for ; i < len(s) && s[i] != '"' && s[i] != '\\'; i++ {
		out[i] = s[i]
	}
	return i
}

// escape reads the digits behind \u, and a second half where they name the first half of a pair.
func (r *reader) escape() (rune, error) {
	four := func(s string) (rune, bool) {
		if len(s) < 4 {
			return 0, false
		}
		n, err := strconv.ParseUint(s[:4], 16, 16)
		return rune(n), err == nil
	}
	char, ok := four(r.text[r.at:])
	if !ok {
		return 0, r.fail("a broken escape")
	}
	r.at += 4
	if char < 0xd800 || char >= 0xe000 {
		return char, nil
	}
	rest := r.text[r.at:]
	if char < 0xdc00 && strings.HasPrefix(rest, `\u`) {
		if low, ok := four(rest[2:]); ok && low >= 0xdc00 && low < 0xe000 {
			r.at += 6
			return (char-0xd800)<<10 + (low - 0xdc00) + 0x10000, nil
		}
	}
	return 0, r.fail("half of a surrogate pair")
}
