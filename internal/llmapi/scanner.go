package llmapi

import (
	"encoding/binary"
	"math/bits"

	"github.com/warmpath/warmpath/internal/jsontext"
)

// DepthMax is how deep a body may nest. Python's parser gives up near 1,000 and recursive ones overflow their stack;
// no real request comes near either.
const DepthMax = 512

const (
	deep     = "nested deeper than 512 levels"
	unclosed = "expected a comma or the closing bracket"
)

// scanner walks JSON in place. Its methods take the index of a first byte and return the index after the last one,
// or -1 once the text is not JSON; at and what then say where and why. It is as strict as the engines' own parsers
// taken together: what any of them would answer with a 5xx must not reach it (lone surrogates, control characters).
type scanner struct {
	b       []byte
	high    uint64 // union of the bytes of all strings: tells whether any was not ASCII
	escaped bool   // a string since it was last cleared had an escape
	lenient bool   // NaN and Infinity pass: Python's encoder writes them into replies
	at      int
	what    string
}

const (
	each = 0x0101010101010101
	tops = 0x8080808080808080
)

func (s *scanner) fail(at int, what string) int {
	s.at, s.what = min(at, len(s.b)), what
	return -1
}

// space skips white space.
func (s *scanner) space(i int) int {
	for i < len(s.b) {
		if c := s.b[i]; c > ' ' || c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			break
		}
		i++
	}
	return i
}

// peek is the byte at i, 0 past the end. A real NUL outside a string is an error wherever peek is asked.
func (s *scanner) peek(i int) byte {
	if i < len(s.b) {
		return s.b[i]
	}
	return 0
}

// special marks, in the top bits, the first byte of eight that is a quote, a backslash or a control character: xor 2
// turns the quote into a space and keeps control characters below it, so that one subtraction finds both (a trick of
// Daniel Lemire's). Bytes over 127 are masked out. A borrow can only mark bytes above a true match, so the lowest mark
// is exact.
func special(x uint64) uint64 {
	return ((x ^ 0x02*each) - 0x21*each | ((x ^ 0x5c*each) - each)) &^ x
}

// plain is the index of the first special byte from i on, the length of the text when there is none. Most strings
// end within eight bytes; long ones go by 32.
func (s *scanner) plain(i int) int {
	b := s.b
	for i+8 <= len(b) {
		x := binary.LittleEndian.Uint64(b[i:])
		s.high |= x
		if m := special(x) & tops; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
		for i+32 <= len(b) {
			p := b[i : i+32 : i+32]
			x, y := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:])
			z, w := binary.LittleEndian.Uint64(p[16:]), binary.LittleEndian.Uint64(p[24:])
			if (special(x)|special(y)|special(z)|special(w))&tops != 0 {
				for s.high |= x; special(x)&tops == 0; x, y, z = y, z, w {
					s.high |= y
					i += 8
				}
				return i + bits.TrailingZeros64(special(x)&tops)>>3
			}
			s.high |= x | y | z | w
			i += 32
		}
	}
	for i < len(b) && b[i] >= 0x20 && b[i] != '"' && b[i] != '\\' {
		s.high |= uint64(b[i])
		i++
	}
	return i
}

// str skips the string whose opening quote is at i.
func (s *scanner) str(i int) int {
	for i++; ; {
		i = s.plain(i)
		if i >= len(s.b) {
			return s.fail(i, "unterminated string")
		}
		switch c := s.b[i]; {
		case c == '"':
			return i + 1
		case c != '\\':
			return s.fail(i, "control character in a string")
		}
		if i = s.escape(i); i < 0 {
			return -1
		}
	}
}

// escape skips the escape whose backslash is at i; a pair of surrogates is one escape, half a pair is an error.
func (s *scanner) escape(i int) int {
	s.escaped = true
	switch s.peek(i + 1) {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		r := jsontext.Hex4(s.b, i+2)
		if r < 0 {
			return s.fail(i, `\u without four hexadecimal digits`)
		}
		if r < 0xd800 || r > 0xdfff {
			return i + 6
		}
		if low := jsontext.Hex4(s.b, i+8); r < 0xdc00 && s.peek(i+6) == '\\' && s.peek(i+7) == 'u' && low >= 0xdc00 && low <= 0xdfff {
			return i + 12
		}
		return s.fail(i, "half of a surrogate pair")
	}
	return s.fail(i, "unknown escape in a string")
}

// value skips any value. depth is the number of containers already open around it. It keeps its own stack, one bit a
// level, so that hostile nesting costs no goroutine stack.
func (s *scanner) value(i, depth int) int {
	i = s.space(i)
	c := s.peek(i)
	if c != '{' && c != '[' {
		return s.scalar(i, c)
	}
	var objects [DepthMax/64 + 1]uint64 // bit set: an object is open at that level
	for level := depth; ; {
		i = s.space(i)
		c = s.peek(i)
		if c == '{' || c == '[' {
			if level++; level > DepthMax {
				return s.fail(i, deep)
			}
			objects[level>>6] &^= 1 << (level & 63)
			if c == '{' {
				objects[level>>6] |= 1 << (level & 63)
			}
			i = s.space(i + 1)
			if s.peek(i) != c+2 { // in ASCII both closers are two after their openers
				if c == '{' {
					if i = s.key(i); i < 0 {
						return -1
					}
				}
				continue
			}
			i++
			level--
		} else if i = s.scalar(i, c); i < 0 {
			return -1
		}
		for {
			if level == depth {
				return i
			}
			i = s.space(i)
			object := objects[level>>6]>>(level&63)&1 == 1
			if c = s.peek(i); c == ',' {
				i++
				if object {
					if i = s.key(s.space(i)); i < 0 {
						return -1
					}
				}
				break
			}
			if object != (c == '}') || !object && c != ']' {
				return s.fail(i, unclosed)
			}
			i++
			level--
		}
	}
}

// key skips a member's name and its colon.
func (s *scanner) key(i int) int {
	if s.peek(i) != '"' {
		return s.fail(i, "expected a string as name")
	}
	if i = s.str(i); i < 0 {
		return -1
	}
	if i = s.space(i); s.peek(i) != ':' {
		return s.fail(i, "expected a colon")
	}
	return i + 1
}

func (s *scanner) scalar(i int, c byte) int {
	switch {
	case c == '"':
		return s.str(i)
	case c == '-' || c >= '0' && c <= '9':
		return s.number(i)
	case i >= len(s.b):
		return s.fail(i, "unexpected end")
	}
	for _, w := range [...]string{"null", "true", "false", "NaN", "Infinity"} {
		if w[0] == c && (c > 'Z' || s.lenient) {
			return s.literal(i, w)
		}
	}
	return s.fail(i, "expected a value")
}

func (s *scanner) literal(i int, w string) int {
	if end := i + len(w); end <= len(s.b) && string(s.b[i:end]) == w {
		return end
	}
	return s.fail(i, "expected a value")
}

func (s *scanner) number(i int) int {
	start := i
	if s.b[i] == '-' {
		i++
		if s.lenient && s.peek(i) == 'I' {
			return s.literal(i, "Infinity")
		}
	}
	switch c := s.peek(i); {
	case c == '0':
		i++
	case c >= '1' && c <= '9':
		i = s.digits(i)
	default:
		return s.fail(start, "malformed number")
	}
	if s.peek(i) == '.' {
		fraction := i + 1
		if i = s.digits(fraction); i == fraction {
			return s.fail(start, "malformed number")
		}
	}
	if s.peek(i)|0x20 == 'e' {
		i++
		if c := s.peek(i); c == '+' || c == '-' {
			i++
		}
		exponent := i
		if i = s.digits(exponent); i == exponent {
			return s.fail(start, "malformed number")
		}
	}
	return i
}

func (s *scanner) digits(i int) int {
	for i < len(s.b) && s.b[i] >= '0' && s.b[i] <= '9' {
		i++
	}
	return i
}

// utf8 checks the whole text, once, when a string was not ASCII: -1 when it is not UTF-8.
func (s *scanner) utf8() int {
	if s.high&tops != 0 {
		if i := jsontext.NotUTF8(s.b); i >= 0 {
			return s.fail(i, "invalid UTF-8")
		}
	}
	return len(s.b)
}
