package tokenizer

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/warmpath/warmpath/internal/joins"
)

// Bounds of what Load takes; more is refused with the number, as are more than joins.PairsMax merges. The largest there are: 262,144 tokens
// (gemma-3), 580,604 merges (gemma-2).
const (
	tokensMax = 1<<idBits - 1
	idBits    = joins.IDBits
)

// none stands for "no token".
const none = ^uint32(0)

// vocabulary is the model's tokens, both ways. All texts are in one slice, because a map of strings would take five times as much.
// Of a byte-level model it holds the bytes that tokens stand for, not their spelling in the file.
type vocabulary struct {
	text  []byte
	spans []span   // by id
	slots []uint32 // open addressing, at most half full: id + 1 in the lower 21 bits, bits of the hash above, which spare most comparisons; 0 is empty
	shift int
	count int // of ids
}

// span is where a token's text is; to is 0 for ids that there are not.
type span struct{ from, to uint32 }

// add enters a token; index makes it findable.
func (v *vocabulary) add(text []byte, id uint64) error {
	if id >= tokensMax {
		return fmt.Errorf("model.vocab: the id %d of %s is beyond %d", id, quote(string(text)), tokensMax-1)
	}
	if len(v.text) == 0 {
		v.text = append(v.text, 0) // so that no text ends at 0
	}
	if grow := int(id) + 1 - len(v.spans); grow > 0 {
		v.spans = append(v.spans, make([]span, grow)...)
	}
	if v.spans[id].to != 0 {
		return fmt.Errorf("model.vocab: the id %d is that of %s and of %s", id, quote(string(v.bytes(uint32(id)))), quote(string(text)))
	}
	from := len(v.text)
	v.text = append(v.text, text...)
	v.spans[id] = span{uint32(from), uint32(len(v.text))}
	v.count++
	return nil
}

// index makes all tokens findable by their text, but for hidden ones, which no text can become, and lets go of spare room.
func (v *vocabulary) index(hidden map[string]uint32) error {
	v.text, v.spans = slices.Clip(slices.Clone(v.text)), slices.Clip(slices.Clone(v.spans))
	power := bits.Len(uint(v.count*2 + 1))
	v.slots, v.shift = make([]uint32, 1<<power), 64-power
	for id, s := range v.spans {
		if h, ok := hidden[string(v.text[s.from:s.to])]; s.to == 0 || ok && h == uint32(id) {
			continue
		}
		text := v.text[s.from:s.to]
		slot, twin := v.slot(text)
		if twin != none {
			return fmt.Errorf("model.vocab: %s has the ids %d and %d", quote(string(text)), twin, id)
		}
		v.slots[slot] = uint32(hashText(text))<<idBits | uint32(id+1)
	}
	return nil
}

// slot is where text is, and its id, or where it would be, and none.
func (v *vocabulary) slot(text []byte) (slot uint64, id uint32) {
	hash, mask := hashText(text), uint64(len(v.slots)-1)
	for slot = hash >> v.shift; ; slot = (slot + 1) & mask {
		entry := v.slots[slot]
		if entry == 0 {
			return slot, none
		}
		if (entry^uint32(hash)<<idBits)>>idBits == 0 {
			if id = entry&tokensMax - 1; bytes.Equal(v.bytes(id), text) {
				return slot, id
			}
		}
	}
}

// id is the token whose text this is, or none.
func (v *vocabulary) id(text []byte) uint32 {
	_, id := v.slot(text)
	return id
}

// word is id for a string, which would be copied to become bytes.
func (v *vocabulary) word(text string) uint32 {
	hash, mask := hashText(text), uint64(len(v.slots)-1)
	for slot := hash >> v.shift; ; slot = (slot + 1) & mask {
		entry := v.slots[slot]
		if entry == 0 {
			return none
		}
		if (entry^uint32(hash)<<idBits)>>idBits == 0 {
			if id := entry&tokensMax - 1; string(v.bytes(id)) == text {
				return id
			}
		}
	}
}

// bytes are those that a token stands for; none for ids that the model does not have.
func (v *vocabulary) bytes(id uint32) []byte {
	if int(id) >= len(v.spans) {
		return nil
	}
	return v.text[v.spans[id].from:v.spans[id].to]
}

// hashText mixes 8 bytes a step, the last ones with a look back where there are not 8 more; its upper bits are the good ones.
func hashText[T string | []byte](s T) uint64 {
	n := len(s)
	h, tail := uint64(n)*0x9e3779b97f4a7c15, uint64(0)
	switch {
	case n >= 8:
		for at := 0; at < n-8; at += 8 {
			h = mix(h ^ load8(s[at:]))
		}
		tail = load8(s[n-8:])
	case n >= 4:
		tail = load4(s) | load4(s[n-4:])<<32
	case n > 0:
		tail = uint64(s[0]) | uint64(s[n/2])<<8 | uint64(s[n-1])<<16
	}
	return mix(h ^ tail ^ 0xa0761d6478bd642f)
}

func load4[T string | []byte](s T) uint64 {
	_ = s[3]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24
}

func load8[T string | []byte](s T) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func mix(x uint64) uint64 {
	hi, lo := bits.Mul64(x^0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3)
	return hi ^ lo
}

// byteOf gives for a character below 324 the byte that it spells in byte-level files, or -1. The spelling came with gpt-2: characters that
// print stand for all bytes, so that a format for text can hold any.
var byteOf = byteLevelAlphabet()

func byteLevelAlphabet() (byteOf [324]int16) {
	for i := range byteOf {
		byteOf[i] = -1
	}
	beyond := 256
	for b := range 256 {
		r := b
		if printed := b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae; !printed {
			r = beyond
			beyond++
		}
		byteOf[r] = int16(b)
	}
	return byteOf
}

// appendBytes appends the bytes that a byte-level token's spelling stands for; the spelling itself, and false, if it has characters that
// stand for none.
func appendBytes(dst, spelt []byte) ([]byte, bool) {
	from := len(dst)
	for rest := spelt; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if int(r) >= len(byteOf) || byteOf[r] < 0 {
			return append(dst[:from], spelt...), false
		}
		dst = append(dst, byte(byteOf[r]))
		rest = rest[n:]
	}
	return dst, true
}
