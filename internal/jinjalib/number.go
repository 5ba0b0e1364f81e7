package jinjalib

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/warmpath/warmpath/internal/pyvalue"
)

var errRange = errors.New("a number leaves 64 bits")

var escapes = strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;")

func numbers(o string, left, right any) (any, error) {
	a, af, aWhole, aNumber := pyvalue.Number(left)
	b, bf, bWhole, bNumber := pyvalue.Number(right)
	if !aNumber || !bNumber {
		return nil, fmt.Errorf("%s of %s and %s", o, pyvalue.TypeName(left), pyvalue.TypeName(right))
	}
	if aWhole && bWhole && o != "/" {
		return whole(o, a, b)
	}
	return fraction(o, af, bf)
}

func (r *Run) join(a, b string) (any, error) {
	if err := r.Spend(len(a) + len(b)); err != nil {
		return nil, err
	}
	return a + b, nil
}

// sequences are the operators of strings and lists.
func (r *Run) sequences(o string, left, right any) (v any, ok bool, err error) {
	switch a := left.(type) {
	case string:
		b, text := right.(string)
		n, _, isWhole, isNumber := pyvalue.Number(right)
		switch {
		case o == "+" && text:
			v, err = r.join(a, b)
			return v, true, err
		case o == "*" && isNumber && isWhole:
			v, err = r.repeat(a, n)
			return v, true, err
		case o == "%":
			v, err = r.format(a, right)
			return v, true, err
		}
	case *pyvalue.List:
		b, list := right.(*pyvalue.List)
		if o == "+" && list && a.Shape == b.Shape && a.Shape <= pyvalue.AsTuple {
			items := append(append(make([]any, 0, len(a.Items)+len(b.Items)), a.Items...), b.Items...)
			return &pyvalue.List{Items: items, Shape: a.Shape}, true, errors.Join(r.Step(len(items)), r.Spend(16*len(items)))
		}
	case int64:
		if text, ok := right.(string); ok && o == "*" {
			v, err = r.repeat(text, a)
			return v, true, err
		}
	}
	return nil, false, nil
}

func (r *Run) repeat(text string, n int64) (any, error) {
	if n <= 0 || text == "" {
		return "", nil
	}
	if n > int64(r.bytes)/int64(len(text)) {
		return nil, r.Spend(math.MaxInt)
	}
	return strings.Repeat(text, int(n)), r.Spend(int(n) * len(text))
}

// format is the operator % of strings, with %s, %d and %% alone.
func (r *Run) format(text string, with any) (any, error) {
	values := []any{with}
	if l, ok := with.(*pyvalue.List); ok && l.Shape == pyvalue.AsTuple {
		values = l.Items
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "%")
		b.WriteString(before)
		if !found {
			break
		}
		if rest == "" || !strings.Contains("sd%", rest[:1]) {
			return nil, errors.New("formats other than %s and %d are not known here")
		}
		text = rest[1:]
		if rest[0] == '%' {
			b.WriteByte('%')
			continue
		}
		if len(values) == 0 {
			return nil, errors.New("not enough arguments for format string")
		}
		v := values[0]
		values = values[1:]
		if n, _, isWhole, _ := pyvalue.Number(v); rest[0] == 'd' && isWhole {
			v = n
		} else if rest[0] == 'd' {
			return nil, errors.New("%d wants a whole number")
		}
		s, err := r.Str(v)
		if err != nil {
			return nil, err
		}
		b.WriteString(s)
	}
	if len(values) > 0 {
		return nil, errors.New("not all Arguments converted during string formatting")
	}
	return r.made(b.String())
}

// whole computes with whole numbers; what leaves 64 bits, where Python goes on, is an error.
func whole(o string, a, b int64) (any, error) {
	switch o {
	case "+":
		if sum := a + b; (sum > a) == (b > 0) {
			return sum, nil
		}
	case "-":
		if d := a - b; (d < a) == (b > 0) {
			return d, nil
		}
	case "*":
		if hi, lo := bits.Mul64(magnitude(a), magnitude(b)); hi == 0 && lo < 1<<63 {
			return a * b, nil
		}
	case "//", "%":
		if b == 0 {
			return nil, errors.New("division by zero")
		}
		if a == math.MinInt64 && b == -1 {
			break
		}
		q, m := a/b, a%b
		if m != 0 && (m < 0) != (b < 0) {
			q, m = q-1, m+b
		}
		if o == "%" {
			return m, nil
		}
		return q, nil
	case "**":
		return power(a, b)
	}
	return nil, errRange
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

func power(a, b int64) (any, error) {
	if b < 0 {
		return fraction("**", float64(a), float64(b))
	}
	if b > 63 && (a > 1 || a < -1) {
		return nil, errRange
	}
	if b > 63 {
		b = 2 + b%2 // of 0, 1 and -1
	}
	var v any = int64(1)
	for range b {
		var err error
		if v, err = whole("*", v.(int64), a); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func fraction(o string, a, b float64) (any, error) {
	if b == 0 && (o == "/" || o == "//" || o == "%") {
		return nil, errors.New("division by zero")
	}
	switch o {
	case "+":
		return a + b, nil
	case "-":
		return a - b, nil
	case "*":
		return a * b, nil
	case "/":
		return a / b, nil
	case "**":
		return math.Pow(a, b), nil
	}
	m := math.Mod(a, b)
	if m != 0 && (m < 0) != (b < 0) {
		m += b
	}
	if o == "%" {
		return m, nil
	}
	return math.Round((a - m) / b), nil
}

func cut[T any](items []T, at [3]*int64) ([]T, error) {
	n, step := int64(len(items)), int64(1)
	if at[2] != nil {
		step = *at[2]
	}
	if step == 0 {
		return nil, errors.New("slice step cannot be zero")
	}
	low, high := int64(0), n
	if step < 0 {
		low, high = -1, n-1
	}
	bound := func(p *int64, missing int64) int64 {
		if p == nil {
			return missing
		}
		i := *p
		if i < 0 {
			i += n
		}
		return min(max(i, low), high)
	}
	from, to := bound(at[0], low), bound(at[1], high)
	if step < 0 {
		from, to = bound(at[0], high), bound(at[1], low)
	}
	var picked []T
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		picked = append(picked, items[i])
		if step > n || step < -n {
			break
		}
	}
	return picked, nil
}

// Joined is the operator ~, and + beside what safe made.
func (r *Run) Joined(left, right any, plus, rawLeft, rawRight bool) (any, error) {
	if _, text := left.(string); plus && !text {
		return nil, errors.New("only text can be joined to text")
	}
	if _, text := right.(string); plus && !text {
		return nil, errors.New("only text can be joined to text")
	}
	a, err := r.Str(left)
	if err != nil {
		return nil, err
	}
	b, err := r.Str(right)
	if err != nil {
		return nil, err
	}
	if rawLeft && !rawRight {
		b = escapes.Replace(b)
	}
	if rawRight && !rawLeft {
		a = escapes.Replace(a)
	}
	return r.join(a, b)
}

// Sign is v with or without a minus in front.
func Sign(v any, minus bool) (any, error) {
	n, f, whole, ok := pyvalue.Number(v)
	switch {
	case !ok:
		return nil, fmt.Errorf("a %s has no sign", pyvalue.TypeName(v))
	case whole && minus && n == math.MinInt64:
		return nil, errRange
	case whole && minus:
		return -n, nil
	case whole:
		return n, nil
	case minus:
		return -f, nil
	}
	return f, nil
}

// Binary is one of + - * / // % **.
func (r *Run) Binary(op string, left, right any) (any, error) {
	if err := errors.Join(Defined(left), Defined(right)); err != nil {
		return nil, err
	}
	if v, ok, err := r.sequences(op, left, right); ok || err != nil {
		return v, err
	}
	return numbers(op, left, right)
}

// Slice cuts a list or a string, with Python's rules for bounds that are missing (nil), negative or too far.
func (r *Run) Slice(of any, bounds [3]any) (any, error) {
	var at [3]*int64
	for i, v := range bounds {
		n, _, isWhole, ok := pyvalue.Number(v)
		if v != nil && (!ok || !isWhole) {
			return nil, errors.New("slice indices must be integers or None")
		}
		if v != nil {
			at[i] = &n
		}
	}
	if err := Defined(of); err != nil {
		return nil, err
	}
	switch v := of.(type) {
	case *pyvalue.List:
		if v.Shape <= pyvalue.AsTuple {
			items, err := cut(v.Items, at)
			return &pyvalue.List{Items: items, Shape: v.Shape}, errors.Join(err, r.Step(len(items)), r.Spend(16*len(items)))
		}
	case string:
		chars, err := cut([]rune(v), at)
		return string(chars), errors.Join(err, r.Spend(len(v)))
	}
	return pyvalue.Undefined{Name: "slice"}, nil
}
