package jsontext

import (
	"encoding/binary"
	"math/bits"
)

// DepthMax is how deep a text may nest. Python's parser gives up near 1,000 and recursive ones overflow their stack;
// no real request comes near either.
const DepthMax = 512

// Deep is what is wrong with a text that nests deeper.
const Deep = "nested deeper than 512 levels"

const unclosed = "expected a comma or the closing bracket"

// Scanner walks JSON in place. Its methods take the index of a first byte and return the index after the last one,
// or -1 once the text is not JSON; At and What then say where and why. It is as strict as the engines' own parsers
// taken together: what any of them would answer with a 5xx must not reach it (lone surrogates, control characters).
type Scanner struct {
	B       []byte
	high    uint64 // union of the bytes of all strings: tells whether any was not ASCII
	escaped bool   // a string since it was last cleared had an escape
	Lenient bool   // NaN and Infinity pass: Python's encoder writes them into replies
	At      int    // where it stopped being JSON
	What    string // and why
}

const (
	each = 0x0101010101010101
	tops = 0x8080808080808080
)

// Fail says that the text is none from at on; it returns -1.
func (s *Scanner) Fail(at int, what string) int {
	s.At, s.What = min(at, len(s.B)), what
	return -1
}

// Space skips white space.
func (s *Scanner) Space(i int) int {
	for i < len(s.B) {
		if c := s.B[i]; c > ' ' || c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			break
		}
		i++
	}
	return i
}

// Peek is the byte at i, 0 past the end. A real NUL outside a string is an error wherever peek is asked.
func (s *Scanner) Peek(i int) byte {
	if i < len(s.B) {
		return s.B[i]
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
func (s *Scanner) plain(i int) int {
	b := s.B
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
func (s *Scanner) str(i int) int {
	for i++; ; {
		i = s.plain(i)
		if i >= len(s.B) {
			return s.Fail(i, "unterminated string")
		}
		switch c := s.B[i]; {
		case c == '"':
			return i + 1
		case c != '\\':
			return s.Fail(i, "control character in a string")
		}
		if i = s.escape(i); i < 0 {
			return -1
		}
	}
}

// escape skips the escape whose backslash is at i; a pair of surrogates is one escape, half a pair is an error.
func (s *Scanner) escape(i int) int {
	s.escaped = true
	switch s.Peek(i + 1) {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		r := Hex4(s.B, i+2)
		if r < 0 {
			return s.Fail(i, `\u without four hexadecimal digits`)
		}
		if r < 0xd800 || r > 0xdfff {
			return i + 6
		}
		if low := Hex4(s.B, i+8); r < 0xdc00 && s.Peek(i+6) == '\\' && s.Peek(i+7) == 'u' && low >= 0xdc00 && low <= 0xdfff {
			return i + 12
		}
		return s.Fail(i, "half of a surrogate pair")
	}
	return s.Fail(i, "unknown escape in a string")
}

// Value skips any value. depth is the number of containers already open around it. It keeps its own stack, one bit a
// level, so that hostile nesting costs no goroutine stack.
func (s *Scanner) Value(i, depth int) int {
	i = s.Space(i)
	c := s.Peek(i)
	if c != '{' && c != '[' {
		return s.scalar(i, c)
	}
	var objects [DepthMax/64 + 1]uint64 // bit set: an object is open at that level
	for level := depth; ; {
		i = s.Space(i)
		c = s.Peek(i)
		if c == '{' || c == '[' {
			if level++; level > DepthMax {
				return s.Fail(i, Deep)
			}
			objects[level>>6] &^= 1 << (level & 63)
			if c == '{' {
				objects[level>>6] |= 1 << (level & 63)
			}
			i = s.Space(i + 1)
			if s.Peek(i) != c+2 { // in ASCII both closers are two after their openers
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
			i = s.Space(i)
			object := objects[level>>6]>>(level&63)&1 == 1
			if c = s.Peek(i); c == ',' {
				i++
				if object {
					if i = s.key(s.Space(i)); i < 0 {
						return -1
					}
				}
				break
			}
			if object != (c == '}') || !object && c != ']' {
				return s.Fail(i, unclosed)
			}
			i++
			level--
		}
	}
}

// key skips a member's name and its colon.
func (s *Scanner) key(i int) int {
	if s.Peek(i) != '"' {
		return s.Fail(i, "expected a string as name")
	}
	if i = s.str(i); i < 0 {
		return -1
	}
	if i = s.Space(i); s.Peek(i) != ':' {
		return s.Fail(i, "expected a colon")
	}
	return i + 1
}

func (s *Scanner) scalar(i int, c byte) int {
	switch {
	case c == '"':
		return s.str(i)
	case c == '-' || c >= '0' && c <= '9':
		return s.number(i)
	case i >= len(s.B):
		return s.Fail(i, "unexpected end")
	}
	for _, w := range [...]string{"null", "true", "false", "NaN", "Infinity"} {
		if w[0] == c && (c > 'Z' || s.Lenient) {
			return s.literal(i, w)
		}
	}
	return s.Fail(i, "expected a value")
}

func (s *Scanner) literal(i int, w string) int {
	if end := i + len(w); end <= len(s.B) && string(s.B[i:end]) == w {
		return end
	}
	return s.Fail(i, "expected a value")
}

func (s *Scanner) number(i int) int {
	start := i
	if s.B[i] == '-' {
		i++
		if s.Lenient && s.Peek(i) == 'I' {
			return s.literal(i, "Infinity")
		}
	}
	switch c := s.Peek(i); {
	case c == '0':
		i++
	case c >= '1' && c <= '9':
		i = s.digits(i)
	default:
		return s.Fail(start, "malformed number")
	}
	if s.Peek(i) == '.' {
		fraction := i + 1
		if i = s.digits(fraction); i == fraction {
			return s.Fail(start, "malformed number")
		}
	}
	if s.Peek(i)|0x20 == 'e' {
		i++
		if c := s.Peek(i); c == '+' || c == '-' {
			i++
		}
		exponent := i
		if i = s.digits(exponent); i == exponent {
			return s.Fail(start, "malformed number")
		}
	}
	return i
}

func (s *Scanner) digits(i int) int {
	for i < len(s.B) && s.B[i] >= '0' && s.B[i] <= '9' {
		i++
	}
	return i
}

// UTF8 checks the whole text, once, when a string was not ASCII: -1 when it is not UTF-8.
func (s *Scanner) UTF8() int {
	if s.high&tops != 0 {
		if i := NotUTF8(s.B); i >= 0 {
			return s.Fail(i, "invalid UTF-8")
		}
	}
	return len(s.B)
}
