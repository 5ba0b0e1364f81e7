// Package prefix knows which worker holds which leading blocks of a prompt.
//
// A prompt is cut into blocks; each block's key hashes everything up to its end, so two prompts share a key exactly when
// they share the whole text before it. The index assumes that a worker caches what it was sent, least recently used out
// first, and answers for all workers at once how many leading blocks of a prompt each of them holds:
//
//	seed := prefix.NewSeed(secret)
//	key := seed.Next(seed.Root([]byte("llama-8b")), []byte("You are a helpful assistant."))
//	chain := prefix.Chain{Keys: []prefix.Key{key}, Ends: []int32{28}}
//
//	x := prefix.New(prefix.Options{})
//	x.SetCapacity(3, 1_600_000)    // worker in slot 3 caches some 400,000 tokens
//	x.Enter(3, chain, nowNanos)    // the prompt was dispatched to it
//	depth := x.Match(chain, nil)   // depth[3] == 1
//
// The room is pure: no goroutine, clock or lock. Its owner calls it under its own lock.
package prefix

// Key identifies a block together with all the prompt before it. 0 is never made by a Seed.
type Key uint64

// Chain is a prompt cut into blocks, first block first.
type Chain struct {
	Keys    []Key   // Keys[i] hashes everything up to the end of block i
	Ends    []int32 // Ends[i] is the number of prompt bytes up to the end of block i
	Replies []Range // assistant messages, in order, not overlapping
}

// Range is the blocks [First, Last) of one assistant message. A worker that holds exactly the blocks before First was
// sent a whole earlier prompt, so it generated this message and holds it too.
type Range struct{ First, Last int32 }

// Bytes is the length of the whole chain in prompt bytes.
func (c Chain) Bytes() int {
	if len(c.Ends) == 0 {
		return 0
	}
	return int(c.Ends[len(c.Ends)-1])
}

// Common is how many leading blocks two prompts share. Keys hash all that is before them, so it is found by halving.
func Common(a, b []Key) int {
	same, end := 0, min(len(a), len(b))+1 // the first same are equal, the first end are not, or there are not so many
	for end-same > 1 {
		if middle := same + (end-same)/2; a[middle-1] == b[middle-1] {
			same = middle
		} else {
			end = middle
		}
	}
	return same
}

// before is the number of prompt bytes before block i.
func (c Chain) before(i int) int32 {
	if i == 0 {
		return 0
	}
	return c.Ends[i-1]
}

// Reset empties c and keeps its memory for the next prompt.
func (c Chain) Reset() Chain {
	return Chain{Keys: c.Keys[:0], Ends: c.Ends[:0], Replies: c.Replies[:0]}
}
