package prefix

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
)

// Seed is the secret that keys every hash. It is kept per installation, so that keys in logs and snapshots of one
// installation agree and nobody outside can make two prompts collide.
type Seed struct {
	words       [12]uint64
	fingerprint string
}

// NewSeed spreads a secret of any length (32 random bytes are plenty) over the words of the hash.
func NewSeed(secret []byte) Seed {
	var s Seed
	for i := 0; i < len(s.words); i += 4 {
		sum := sha256.Sum256(append([]byte{'k', byte(i)}, secret...))
		for j := range 4 {
			s.words[i+j] = binary.LittleEndian.Uint64(sum[8*j:])
		}
	}
	sum := sha256.Sum256(append([]byte("fingerprint"), secret...))
	s.fingerprint = hex.EncodeToString(sum[:6])
	return s
}

// Fingerprint names the seed in logs and snapshots (12 hex digits) without telling it.
func (s Seed) Fingerprint() string { return s.fingerprint }

// Root is the key in front of a prompt's first block: model identity, adapter, salt. Parts are framed by their number
// and length, so ("ab", "c") and ("a", "bc") differ, and prompts under different roots never share a key.
func (s Seed) Root(parts ...[]byte) Key {
	k := Key(s.words[8])
	for _, p := range parts {
		k = s.Next(k, p)
	}
	return k
}

// Next is the key of a block that follows parent. The block's digest does not depend on the parent, so that a processor
// works on several blocks of a chain at once; only one multiplication per block is serial. Folded 128-bit products of
// data and secret words are the idea of wyhash (Wang Yi, public domain); the arrangement is our own.
func (s Seed) Next(parent Key, block []byte) Key {
	w := &s.words
	n := uint64(len(block))
	var d uint64
	for len(block) > 64 { // long blocks: media, model names; each stripe is keyed by what came before
		d = fold(d^w[9], stripe(w, (*[64]byte)(block))^w[10])
		block = block[64:]
	}
	if len(block) == 64 {
		d ^= stripe(w, (*[64]byte)(block))
	} else {
		var last [64]byte
		copy(last[:], block)
		d ^= stripe(w, &last)
	}
	k := fold(d^w[8]^n, uint64(parent)^w[11])
	if k == 0 {
		k = 1
	}
	return Key(k)
}

func stripe(w *[12]uint64, b *[64]byte) uint64 {
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
