package jsontext

import (
	"math"
	"strconv"
)

// Span is a run of bytes of a text, End exclusive. Start is negative when there is none.
type Span struct{ Start, End int }

// Absent is the span of what is not there.
var Absent = Span{-1, -1}

// Found tells whether the span names bytes at all.
func (s Span) Found() bool { return s.Start >= 0 }

// Len is the number of bytes.
func (s Span) Len() int { return s.End - s.Start }

// Of returns those bytes of text, nil when the span is absent.
func (s Span) Of(text []byte) []byte {
	if s.Start < 0 {
		return nil
	}
	return text[s.Start:s.End]
}

// Cursor steps through the members of an object or the elements of an array. After Next, Val is the index of a value's
// first byte and Key, in an object, its decoded name; the caller then stores the index after the value in I (-1 when
// it failed).
type Cursor struct {
	s     *Scanner
	Depth int // containers open around the values
	I     int
	close byte
	begun bool
	Key   []byte
	Val   int
}

// Object opens the object whose brace is at i.
func (s *Scanner) Object(i, depth int) Cursor {
	return Cursor{s: s, Depth: depth + 1, I: s.open(i, depth), close: '}'}
}

// Array opens the array whose bracket is at i.
func (s *Scanner) Array(i, depth int) Cursor {
	return Cursor{s: s, Depth: depth + 1, I: s.open(i, depth), close: ']'}
}

func (s *Scanner) open(i, depth int) int {
	if depth >= DepthMax {
		return s.Fail(i, Deep)
	}
	return i + 1
}

// Next is false at the end (I is then the index after the bracket) and on an error (I is -1).
func (c *Cursor) Next() bool {
	s := c.s
	if c.I < 0 {
		return false
	}
	c.I = s.Space(c.I)
	b := s.Peek(c.I)
	if b == c.close {
		c.I++
		return false
	}
	if c.begun {
		if b != ',' {
			c.I = s.Fail(c.I, unclosed)
			return false
		}
		c.I = s.Space(c.I + 1)
	}
	c.begun = true
	if c.close == '}' {
		return c.name()
	}
	c.Val = c.I
	return true
}

// name reads a member's name and stops at its value.
func (c *Cursor) name() bool {
	s := c.s
	start := c.I + 1
	s.escaped = false
	end := s.key(c.I)
	if c.I = end; end < 0 {
		return false
	}
	c.Val = s.Space(end)
	for end--; s.B[end] != '"'; end-- { // back over the colon and the space before it
	}
	c.Key = s.B[start:end]
	if s.escaped {
		c.Key = Unescape(c.Key)
	}
	return true
}

// Wanted is a member to look for and where to note its value, whole; Absent is what it is before.
type Wanted struct {
	key  string
	into *Span
}

// Want looks for a member by its decoded name.
func Want(key string, into *Span) Wanted { return Wanted{key, into} }

// Pick notes the values of some members of an object, the last of duplicates; any other value it only skips.
func (s *Scanner) Pick(val, depth int, want ...Wanted) int {
	if s.Peek(val) != '{' {
		return s.Value(val, depth)
	}
	m := s.Object(val, depth)
	for m.Next() {
		m.I = s.Value(m.Val, m.Depth)
		for _, w := range want {
			if string(m.Key) == w.key && m.I > 0 {
				*w.into = Span{m.Val, m.I}
			}
		}
	}
	return m.I
}

// Word is the contents of a string and the digits of a number; any other value has none.
func (s *Scanner) Word(value Span) Span {
	if value.Found() {
		switch c := s.B[value.Start]; {
		case c == '"':
			return Span{value.Start + 1, value.End - 1}
		case c >= '0' && c <= '9':
			return value
		}
	}
	return Absent
}

// Whole reads a whole number, 10.0 and 1e3 included; anything else is 0 and not ok. It may be infinite.
func Whole(raw []byte) (f float64, ok bool) {
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
