package sched

import (
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/prefix"
)

// Known is what is known of a prompt by its own tokens, in blocks of one size: their keys, and how many leading ones each worker said that
// it holds. It goes before what is assumed, for the workers whose blocks have that size and whose word is not doubted.
type Known struct {
	BlockTokens int
	Keys        []prefix.Key // of whole blocks; they may not change until the request is released
	Depth       []int32      // by slot; below 0, or beyond its end, for a worker whose holdings are not known completely
	Fast        []int32      // by slot: those of Depth that need not be loaded from slower memory
}

// of is what the worker in a slot holds of it; -1 where that is not known.
func (k *Known) of(slot int) (depth, fast int) {
	if slot >= len(k.Depth) || k.Depth[slot] < 0 {
		return -1, 0
	}
	depth = min(int(k.Depth[slot]), len(k.Keys))
	return depth, min(depth, int(k.Fast[slot]))
}

// expectedMax is how many of the newest requests on a worker are looked at for blocks that it will have soon. Siblings of a burst come one
// after the other, and what is older than so many has been told meanwhile.
const expectedMax = 16

// expected is a prompt that was sent to a worker and is not answered to its end: its blocks are there or will be, and stay while it runs,
// whether or not the worker has told so yet. Nothing is entered anywhere or taken out again.
type expected struct {
	first prefix.Key // keys[0], to tell most others apart without a look into their memory
	keys  []prefix.Key
}

// known is what is known of the prompt in blocks of the worker's size; nil when nothing is.
func (r *Request) known(w *fleet.Worker) *Known {
	for i := range r.Known {
		if k := &r.Known[i]; k.BlockTokens == w.BlockTokens() {
			return k
		}
	}
	return nil
}

// byEvents puts what a worker told in place of what is assumed of it, unless its word is in doubt.
func (s *Scheduler) byEvents(c *candidate, req *Request, j *judgement) {
	c.told, c.byEvents, c.loaded = -1, false, 0
	k := req.known(c.worker)
	if k == nil {
		return
	}
	depth, fast := k.of(c.worker.Slot)
	if depth < 0 {
		return
	}
	for _, e := range s.slot(c.worker).expected {
		if len(k.Keys) > 0 && e.first == k.Keys[0] {
			if n := prefix.Common(e.keys, k.Keys); n > depth {
				depth, fast = n, n
			}
		}
	}
	c.told = wholeBlocks(depth*k.BlockTokens, j.tokens, k.BlockTokens)
	if c.worker.Doubted() {
		return
	}
	c.byEvents, c.cached = true, c.told
	c.loaded = max(0, c.told-fast*k.BlockTokens)
	c.sharedKey = 0
	if depth > 0 {
		c.sharedKey = uint64(k.Keys[depth-1])
	}
}

// wholeBlocks is how much of what is held an engine uses: whole blocks, and never the last token, which it computes anew.
func wholeBlocks(held, tokens, block int) int {
	held = max(0, min(held, tokens-1))
	if block > 1 {
		held -= held % block
	}
	return held
}

// expect notes that the chosen worker will hold the prompt's blocks, and returns what withdraws it.
func (s *Scheduler) expectBlocks(c *candidate, req *Request) []prefix.Key {
	k := req.known(c.worker)
	if k == nil || len(k.Keys) == 0 {
		return nil
	}
	l := s.slot(c.worker)
	if len(l.expected) == expectedMax {
		copy(l.expected, l.expected[1:])
		l.expected = l.expected[:expectedMax-1]
	}
	l.expected = append(l.expected, expected{k.Keys[0], k.Keys})
	return k.Keys
}

// withdraw takes a prompt out of what is expected: it has ended, and what is left of it the worker has told.
func (s *Scheduler) withdraw(w *fleet.Worker, keys []prefix.Key) {
	if len(keys) == 0 || w.Slot >= len(s.slots) {
		return
	}
	l := &s.slots[w.Slot]
	for i := range l.expected {
		if e := &l.expected[i]; &e.keys[0] == &keys[0] {
			l.expected = append(l.expected[:i], l.expected[i+1:]...)
			return
		}
	}
}
