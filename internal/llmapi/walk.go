package llmapi

import (
	"bytes"
	"math"
	"strconv"

	"github.com/warmpath/warmpath/internal/jsontext"
)

// cursor steps through the members of an object or the elements of an array. After next, val is the index of a value's
// first byte and key, in an object, its decoded name; the caller then stores the index after the value in i (-1 when
// it failed).
type cursor struct {
	s     *scanner
	depth int // containers open around the values
	i     int
	close byte
	begun bool
	key   []byte
	val   int
}

// object opens the object whose brace is at i.
func (s *scanner) object(i, depth int) cursor {
	return cursor{s: s, depth: depth + 1, i: s.open(i, depth), close: '}'}
}

// array opens the array whose bracket is at i.
func (s *scanner) array(i, depth int) cursor {
	return cursor{s: s, depth: depth + 1, i: s.open(i, depth), close: ']'}
}

func (s *scanner) open(i, depth int) int {
	if depth >= DepthMax {
		return s.fail(i, deep)
	}
	return i + 1
}

// next is false at the end (i is then the index after the bracket) and on an error (i is -1).
func (c *cursor) next() bool {
	s := c.s
	if c.i < 0 {
		return false
	}
	c.i = s.space(c.i)
	b := s.peek(c.i)
	if b == c.close {
		c.i++
		return false
	}
	if c.begun {
		if b != ',' {
			c.i = s.fail(c.i, unclosed)
			return false
		}
		c.i = s.space(c.i + 1)
	}
	c.begun = true
	if c.close == '}' {
		return c.name()
	}
	c.val = c.i
	return true
}

// name reads a member's name and stops at its value.
func (c *cursor) name() bool {
	s := c.s
	start := c.i + 1
	s.escaped = false
	end := s.key(c.i)
	if c.i = end; end < 0 {
		return false
	}
	c.val = s.space(end)
	for end--; s.b[end] != '"'; end-- { // back over the colon and the space before it
	}
	c.key = s.b[start:end]
	if s.escaped {
		c.key = jsontext.Unescape(c.key)
	}
	return true
}

// wanted is a member to look for and where to note its value, whole; absent is what it is before.
type wanted struct {
	key  string
	into *Span
}

// pick notes the values of some members of an object, the last of duplicates; any other value it only skips.
func (s *scanner) pick(val, depth int, want ...wanted) int {
	if s.peek(val) != '{' {
		return s.value(val, depth)
	}
	m := s.object(val, depth)
	for m.next() {
		m.i = s.value(m.val, m.depth)
		for _, w := range want {
			if string(m.key) == w.key && m.i > 0 {
				*w.into = Span{m.val, m.i}
			}
		}
	}
	return m.i
}

// word is the contents of a string and the digits of a number; any other value has none.
func (s *scanner) word(value Span) Span {
	if value.Found() {
		switch c := s.b[value.Start]; {
		case c == '"':
			return Span{value.Start + 1, value.End - 1}
		case c >= '0' && c <= '9':
			return value
		}
	}
	return absent
}

// decode is the string whose raw contents these are. It returns old when that is the same, so that a pooled scan of
// like requests allocates nothing.
func decode(raw []byte, old string) string {
	if bytes.IndexByte(raw, '\\') >= 0 {
		raw = jsontext.Unescape(raw)
	}
	if string(raw) == old {
		return old
	}
	return string(raw)
}

// countMax bounds every count that is read: a larger one is absurd.
const countMax = math.MaxInt32

// whole reads a whole number, 10.0 and 1e3 included; anything else is 0 and not ok. It may be infinite.
func whole(raw []byte) (f float64, ok bool) {
	if len(raw) == 0 || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return 0, false
	}
	if n, err := strconv.Atoi(string(raw)); err == nil { // as nearly all counts are
		return float64(n), true
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil && !math.IsInf(f, 0) || f != math.Trunc(f) {
		return 0, false
	}
	return f, true
}
