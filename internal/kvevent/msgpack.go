package kvevent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// reader walks over msgpack without building values. The first error sticks; afterwards everything reads as empty.
type reader struct {
	b   []byte
	i   int
	err error
}

// depthMax bounds how deep values are nested; events need five.
const depthMax = 32

var errShort = errors.New("the message ends in the middle of a value")

// kind is the family of the next value.
type kind uint8

const (
	kindNone kind = iota // the end, or an error
	kindNil
	kindBool
	kindInt
	kindFloat
	kindText // str or bin
	kindArray
	kindMap
	kindOther
)

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = fmt.Errorf("at byte %d: %w", r.i, err)
	}
}

func (r *reader) next() kind {
	if r.err != nil || r.i >= len(r.b) {
		return kindNone
	}
	switch c := r.b[r.i]; {
	case c < 0x80 || c >= 0xe0 || c >= 0xcc && c <= 0xd3:
		return kindInt
	case c < 0x90 || c == 0xde || c == 0xdf:
		return kindMap
	case c < 0xa0 || c == 0xdc || c == 0xdd:
		return kindArray
	case c < 0xc0 || c >= 0xc4 && c <= 0xc6 || c >= 0xd9 && c <= 0xdb:
		return kindText
	case c == 0xc0:
		return kindNil
	case c == 0xc2 || c == 0xc3:
		return kindBool
	case c == 0xca || c == 0xcb:
		return kindFloat
	}
	return kindOther
}

// take returns the next n bytes.
func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b)-r.i {
		r.fail(errShort)
		return nil
	}
	r.i += n
	return r.b[r.i-n : r.i]
}

// number reads a big-endian number of 1, 2, 4 or 8 bytes.
func (r *reader) number(bytes int) uint64 {
	b := r.take(bytes)
	if b == nil {
		return 0
	}
	switch bytes {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.BigEndian.Uint16(b))
	case 4:
		return uint64(binary.BigEndian.Uint32(b))
	}
	return binary.BigEndian.Uint64(b)
}

// integer reads any integer: its bits, and whether it is below zero.
func (r *reader) integer() (bits uint64, negative bool) {
	if r.next() != kindInt {
		r.fail(errors.New("an integer was expected"))
		return 0, false
	}
	c := r.take(1)[0]
	switch {
	case c < 0x80:
		return uint64(c), false
	case c >= 0xe0:
		return uint64(int64(int8(c))), true
	case c <= 0xcf:
		return r.number(1 << (c - 0xcc)), false
	}
	n := r.number(1 << (c - 0xd0))
	shift := 64 - 8<<(c-0xd0)
	signed := int64(n<<shift) >> shift
	return uint64(signed), signed < 0
}

// length reads the head of a text, an array or a map: its bytes, elements or pairs.
func (r *reader) length(k kind) int {
	if r.next() != k {
		r.fail(errors.New("another kind of value was expected"))
		return 0
	}
	c := r.take(1)[0]
	var n uint64
	switch {
	case c < 0xa0:
		return int(c & 0x0f)
	case c < 0xc0:
		return int(c & 0x1f)
	case c >= 0xc4 && c <= 0xc6:
		n = r.number(1 << (c - 0xc4))
	case c >= 0xd9 && c <= 0xdb:
		n = r.number(1 << (c - 0xd9))
	default: // 16 or 32 bits of elements or pairs
		n = r.number(2 << (c & 1))
	}
	if n > uint64(len(r.b)-r.i) { // each element has a byte at least
		r.fail(errShort)
		return 0
	}
	return int(n)
}

// text reads a str or bin; the bytes are the message's own.
func (r *reader) text() []byte {
	if b := r.short(); b != nil {
		return b
	}
	return r.take(r.length(kindText))
}

// short reads a str of 1 to 31 bytes, which nearly all are; nil when there is none.
func (r *reader) short() []byte {
	if r.err != nil || r.i >= len(r.b) || r.b[r.i] <= 0xa0 || r.b[r.i] > 0xbf {
		return nil
	}
	from := r.i + 1
	end := from + int(r.b[r.i]&0x1f)
	if end > len(r.b) {
		return nil
	}
	r.i = end
	return r.b[from:end]
}

// float reads a float or integer.
func (r *reader) float() float64 {
	if r.next() == kindInt {
		n, negative := r.integer()
		if negative {
			return float64(int64(n))
		}
		return float64(n)
	}
	if r.next() != kindFloat {
		r.fail(errors.New("a number was expected"))
		return 0
	}
	if r.take(1)[0] == 0xca {
		return float64(math.Float32frombits(uint32(r.number(4))))
	}
	return math.Float64frombits(r.number(8))
}

// skip passes over one value, whatever it is.
func (r *reader) skip() { r.skipValue(depthMax) }

func (r *reader) skipValue(depth int) {
	if depth == 0 {
		r.fail(fmt.Errorf("values are nested deeper than %d", depthMax))
		return
	}
	switch r.next() {
	case kindNone:
		r.fail(errShort)
	case kindNil, kindBool:
		r.take(1)
	case kindInt:
		r.integer()
	case kindFloat:
		r.float()
	case kindText:
		r.text()
	case kindArray, kindMap:
		n := 0
		if r.next() == kindArray {
			n = r.length(kindArray)
		} else {
			n = 2 * r.length(kindMap)
		}
		for ; n > 0 && r.err == nil; n-- {
			r.skipValue(depth - 1)
		}
	case kindOther:
		r.skipOther()
	}
}

// skipOther passes over an extension.
func (r *reader) skipOther() {
	switch c := r.take(1)[0]; {
	case c >= 0xd4 && c <= 0xd8:
		r.take(1 + 1<<(c-0xd4))
	case c >= 0xc7 && c <= 0xc9:
		if n := r.number(1 << (c - 0xc7)); n < uint64(len(r.b)) {
			r.take(int(n) + 1)
			return
		}
		r.fail(errShort)
	default:
		r.fail(fmt.Errorf("byte %#x begins no value", c))
	}
}

// raw passes over one value and returns its bytes.
func (r *reader) raw() []byte {
	from := r.i
	r.skip()
	if r.err != nil {
		return nil
	}
	return r.b[from:r.i]
}
