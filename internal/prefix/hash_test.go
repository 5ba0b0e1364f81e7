package prefix

import (
	"bytes"
	"math/bits"
	"slices"
	"testing"
)

func TestKeysDependOnSeedParentLengthAndEveryBit(t *testing.T) {
	seed, other := NewSeed([]byte("a")), NewSeed([]byte("b"))
	if seed.Fingerprint() == other.Fingerprint() || len(seed.Fingerprint()) != 12 {
		t.Errorf("fingerprints %q and %q", seed.Fingerprint(), other.Fingerprint())
	}
	seen := map[Key]string{}
	note := func(what string, k Key) {
		if before, ok := seen[k]; ok {
			t.Errorf("%s has the key of %s", what, before)
		}
		seen[k] = what
	}
	for _, n := range []int{0, 1, 8, 63, 64, 65, 127, 128, 129, 1000} {
		block := make([]byte, n)
		note("zeros", seed.Next(1, block))
		note("zeros behind another parent", seed.Next(2, block))
		note("zeros under another seed", other.Next(1, block))
		for bit := range 8 * n {
			block[bit/8] ^= 1 << (bit % 8)
			note("one bit", seed.Next(1, block))
			block[bit/8] ^= 1 << (bit % 8)
		}
	}
}

func TestAFlippedBitChangesHalfOfTheKey(t *testing.T) {
	seed := NewSeed([]byte("avalanche"))
	block := bytes.Repeat([]byte("text"), 16)
	whole := seed.Next(7, block)
	changed := 0
	for bit := range 512 {
		block[bit/8] ^= 1 << (bit % 8)
		changed += bits.OnesCount64(uint64(whole ^ seed.Next(7, block)))
		block[bit/8] ^= 1 << (bit % 8)
	}
	if mean := float64(changed) / 512; mean < 31 || mean > 33 {
		t.Errorf("%.2f bits change on average, want 32", mean)
	}
}

func TestRootsFrameTheirParts(t *testing.T) {
	seed := NewSeed(nil)
	part := func(s ...string) (parts [][]byte) {
		for _, p := range s {
			parts = append(parts, []byte(p))
		}
		return parts
	}
	seen := map[Key][][]byte{}
	for _, p := range [][][]byte{part(), part(""), part("", ""), part("ab", "c"), part("a", "bc"), part("abc"), part("abc", "")} {
		k := seed.Root(p...)
		if seen[k] != nil {
			t.Errorf("%q and %q have one root", p, seen[k])
		}
		seen[k] = p
	}
}

func TestExtendIsNextInALoop(t *testing.T) {
	seed := NewSeed([]byte("loop"))
	text := bytes.Repeat([]byte("0123456789abcde"), 40)
	for _, size := range []int{1, 16, 64, 100, 1000} {
		c, last, rest := seed.Extend(Chain{Keys: []Key{5}, Ends: []int32{9}}, 5, text, size)
		want := Chain{Keys: []Key{5}, Ends: []int32{9}}
		for left := text; len(left) >= size; left = left[size:] {
			want.Keys = append(want.Keys, seed.Next(want.Keys[len(want.Keys)-1], left[:size]))
			want.Ends = append(want.Ends, want.Ends[len(want.Ends)-1]+int32(size))
		}
		if !slices.Equal(c.Keys, want.Keys) || !slices.Equal(c.Ends, want.Ends) || len(rest) != len(text)%size || last != c.Keys[len(c.Keys)-1] {
			t.Errorf("blocks of %d: got %v, want %v; %d left", size, c, want, len(rest))
		}
	}
}

func FuzzNext(f *testing.F) {
	f.Add([]byte("one block"), []byte("another"))
	f.Add(make([]byte, 64), make([]byte, 65))
	seed := NewSeed([]byte("fuzz"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if ka, kb := seed.Next(3, a), seed.Next(3, b); (ka == kb) != bytes.Equal(a, b) {
			t.Errorf("keys %x and %x of %q and %q", ka, kb, a, b)
		}
	})
}

func TestPromptsShareTheirLeadingBlocks(t *testing.T) {
	keys := func(shared, n int) []Key {
		all := make([]Key, n)
		for i := range all {
			all[i] = Key(i + 1)
			if i >= shared {
				all[i] += 1000
			}
		}
		return all
	}
	for n := range 20 {
		for shared := range n + 1 {
			if got := Common(keys(n, n), keys(shared, n+3)); got != shared {
				t.Errorf("of %d blocks %d are shared, found %d", n, shared, got)
			}
		}
	}
}
