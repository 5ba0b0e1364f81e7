// Package jsontext is what can be said of JSON text as text: where its values begin and end, what its strings say, and whether one
// text is like another that was read before. Nothing is built of it.
//
//	s := jsontext.Scanner{B: body}
//	m := s.Object(0, 0)
//	for m.Next() { // m.Key is a member's name, s.B[m.Val] where its value begins
//		m.I = s.Value(m.Val, m.Depth)
//	}
//	if m.I < 0 {
//		return fmt.Errorf("byte %d: %s", s.At, s.What)
//	}
//	var m jsontext.Mold
//	m.Set(event, &holes) // where the scalars stand that may change
//	if m.Fits(next) {
//		// next is event with other scalars there: nothing of it has to be read
//	}
package jsontext

import (
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// Hex4 reads the four hexadecimal digits at b[i:]; -1 when they are none.
func Hex4(b []byte, i int) rune {
	if i+4 > len(b) {
		return -1
	}
	var r rune
	for _, c := range b[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// Unescape decodes the contents of a string, which must be well formed.
func Unescape(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		c := raw[i]
		if c != '\\' {
			out = append(out, c)
			i++
			continue
		}
		c = raw[i+1]
		if c == 'u' {
			r := Hex4(raw, i+2)
			i += 6
			if r >= 0xd800 && r <= 0xdfff {
				r = (r-0xd800)<<10 + Hex4(raw, i+2) - 0xdc00 + 0x10000
				i += 6
			}
			out = utf8.AppendRune(out, r)
			continue
		}
		if at := strings.IndexByte("bfnrt", c); at >= 0 {
			c = "\b\f\n\r\t"[at]
		}
		out = append(out, c)
		i += 2
	}
	return out
}

// NotUTF8 is where b stops being UTF-8, -1 when nowhere. The standard library's Valid leaves its fast path at the first rune that is
// not ASCII and does not come back.
func NotUTF8(b []byte) int {
	for i := 0; i < len(b); {
		if i+8 <= len(b) && b[i] < utf8.RuneSelf {
			i += bits.TrailingZeros64(binary.LittleEndian.Uint64(b[i:])&0x8080808080808080) >> 3 // 8 when there is none
			continue
		}
		if b[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}
