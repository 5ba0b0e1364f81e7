package kvindex

import (
	"math/bits"

	"github.com/warmpath/warmpath/internal/prefix"
)

const (
	hintsMax  = 1024 // prompts of which it is remembered where holdings ended
	hintEnds  = 8    // ends of each
	hintBytes = 8 + 4*hintEnds
	hintLeast = 8 // blocks that a prompt must have
)

// hint is where holdings of a prompt ended when it was looked up last. A conversation's next turn, or a sibling's prompt, is looked for
// there first: two blocks tell for each end that it is still the same, where halving would look at eleven. It is a guess at where to look
// and nothing else, so that whatever was stored or removed meanwhile is found as without it.
type hint struct {
	key  prefix.Key // of the last block whose number is a power of two before the deepest end
	ends [hintEnds]int32
}

// hintAt is the place of the hint for a prompt that is held up to such a depth.
func hintAt(depth int) int { return 1<<(bits.Len(uint(depth))-1) - 1 }

// guess puts the places into at where holdings ended last time, in ascending order, and returns their number; 0 when nothing is known.
func (w *walk) guess(at *[readyMax]int32) (n int) {
	last := int32(len(w.keys) - 1)
	if len(w.keys) < hintLeast || len(w.x.hints) == 0 {
		return 0
	}
	for p := hintAt(len(w.keys)); p >= hintLeast-1; p = (p+1)/2 - 1 {
		h := w.x.hintOf(w.keys[p])
		if h.key != w.keys[p] {
			continue
		}
		at[0], n = 0, 1
		for _, end := range h.ends {
			for _, i := range [2]int32{end - 1, end} {
				if i > at[n-1] && i <= last {
					at[n] = i
					n++
				}
			}
		}
		return n
	}
	return 0
}

// ended notes an end for the next guess.
func (w *walk) ended(blocks int) {
	if w.ends < hintEnds && (w.ends == 0 || w.hint.ends[w.ends-1] < int32(blocks)) {
		w.hint.ends[w.ends] = int32(blocks)
		w.ends++
	}
}

// remember keeps the ends that were found.
func (w *walk) remember() {
	if len(w.x.hints) == 0 || w.ends == 0 || w.hint.ends[w.ends-1] < hintLeast {
		return
	}
	w.hint.key = w.keys[hintAt(int(w.hint.ends[w.ends-1]))]
	*w.x.hintOf(w.hint.key) = w.hint
}

func (x *Index) hintOf(key prefix.Key) *hint { return &x.hints[uint64(key)%uint64(len(x.hints))] }
