package prefix

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
)

// Seed is the secret that keys every hash. It is kept per installation, so that keys in logs and snapshots of one
// installation agree and nobody outside can make two prompts collide. Only NewSeed makes a usable one.
type Seed struct{ s *secret }

type secret struct {
	words       secretWords
	fingerprint string
}

// NewSeed spreads a secret of any length (32 random bytes are plenty) over the words of the hash.
func NewSeed(from []byte) Seed {
	s := new(secret)
	for i := 0; i < len(s.words); i += 4 {
		sum := sha256.Sum256(append([]byte{'k', byte(i)}, from...))
		for j := range 4 {
			s.words[i+j] = binary.LittleEndian.Uint64(sum[8*j:])
		}
	}
	sum := sha256.Sum256(append([]byte("fingerprint"), from...))
	s.fingerprint = hex.EncodeToString(sum[:6])
	return Seed{s}
}

// Fingerprint names the seed in logs and snapshots (12 hex digits) without telling it.
func (s Seed) Fingerprint() string { return s.s.fingerprint }

// Root is the key in front of a prompt's first block: model identity, adapter, salt. Parts are framed by their number
// and length, so ("ab", "c") and ("a", "bc") differ, and prompts under different roots never share a key.
func (s Seed) Root(parts ...[]byte) Key {
	w := &s.s.words
	k := Key(w[10] ^ uint64(len(parts)))
	for _, p := range parts {
		k = w.next(k, p)
	}
	return k
}

// Next is the key of a block that follows parent. The block's digest does not depend on the parent, so that a processor
// works on several blocks of a chain at once; only one multiplication per block is serial. Folded 128-bit products of
// data and secret words are the idea of wyhash (Wang Yi, public domain); the arrangement is our own.
func (s Seed) Next(parent Key, block []byte) Key { return s.s.words.next(parent, block) }

// Extend cuts text into as many whole blocks of blockBytes as it holds, appends them to c behind parent, and returns
// the chain, its last key and the text that is left over. It is Next in a loop, for text of any length.
func (s Seed) Extend(c Chain, parent Key, text []byte, blockBytes int) (Chain, Key, []byte) {
	w := &s.s.words
	end := int32(c.Bytes())
	keys, ends := c.Keys, c.Ends
	for len(text) >= blockBytes {
		if blockBytes == stripeBytes {
			parent = w.join(parent, w.stripe((*[stripeBytes]byte)(text)), stripeBytes)
		} else {
			parent = w.next(parent, text[:blockBytes])
		}
		text = text[blockBytes:]
		end += int32(blockBytes)
		keys = append(keys, parent)
		ends = append(ends, end)
	}
	c.Keys, c.Ends = keys, ends
	return c, parent, text
}

const stripeBytes = 64

type secretWords [12]uint64

func (w *secretWords) next(parent Key, block []byte) Key {
	length := uint64(len(block))
	var digest uint64
	for len(block) > stripeBytes { // long blocks, such as media: each stripe is keyed by what came before
		digest = fold(digest^w[8], w.stripe((*[stripeBytes]byte)(block))^w[9])
		block = block[stripeBytes:]
	}
	if len(block) == stripeBytes {
		digest ^= w.stripe((*[stripeBytes]byte)(block))
	} else {
		var last [stripeBytes]byte
		copy(last[:], block)
		digest ^= w.stripe(&last)
	}
	return w.join(parent, digest, length)
}

// join makes the key of a block from its parent's and its own digest and length.
func (w *secretWords) join(parent Key, digest, length uint64) Key {
	return Key(max(1, fold(digest^w[10]^length, uint64(parent)^w[11])))
}

func (w *secretWords) stripe(b *[stripeBytes]byte) uint64 {
	le := binary.LittleEndian
	return fold(le.Uint64(b[0:])^w[0], le.Uint64(b[8:])^w[1]) ^
		fold(le.Uint64(b[16:])^w[2], le.Uint64(b[24:])^w[3]) ^
		fold(le.Uint64(b[32:])^w[4], le.Uint64(b[40:])^w[5]) ^
		fold(le.Uint64(b[48:])^w[6], le.Uint64(b[56:])^w[7])
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
