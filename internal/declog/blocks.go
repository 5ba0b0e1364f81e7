package declog

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Bounds on the blocks of one record; what goes beyond is cut off the end, and Record.BlocksCut says so.
const (
	keysMax = 1 << 18 // 16 MiB of text in blocks of 64 bytes
	runsMax = 1 << 14
)

// Run is a run of consecutive block numbers: First, First+1, ... Count of them. In JSON it is [first, count].
type Run struct {
	First uint64
	Count int
}

// MarshalJSON writes [first,count].
func (r Run) MarshalJSON() ([]byte, error) {
	b := append(make([]byte, 0, 32), '[')
	b = strconv.AppendUint(b, r.First, 10)
	b = append(b, ',')
	b = strconv.AppendInt(b, int64(r.Count), 10)
	return append(b, ']'), nil
}

// UnmarshalJSON reads [first,count].
func (r *Run) UnmarshalJSON(b []byte) error {
	var pair []uint64
	if err := json.Unmarshal(b, &pair); err != nil {
		return err
	}
	if len(pair) != 2 || pair[1] == 0 || pair[1] > keysMax {
		return fmt.Errorf("block run %.40s is not [first,count] with a count from 1 to %d", b, keysMax)
	}
	r.First, r.Count = pair[0], int(pair[1])
	return nil
}

// SetKeys gives a record its block keys, in prompt order. They are copied: the caller may reuse its slice.
func SetKeys[K ~uint64](r *Record, keys []K) {
	r.BlocksCut = len(keys) > keysMax
	r.keys = r.keys[:0]
	for _, k := range keys[:min(len(keys), keysMax)] {
		r.keys = append(r.keys, uint64(k))
	}
}

// Numbers appends a record's block numbers to into, in prompt order, at most 262,144 of them.
func (r *Record) Numbers(into []uint64) []uint64 {
	left := keysMax
	for _, run := range r.Blocks {
		for i := range uint64(min(run.Count, left)) {
			into = append(into, run.First+i)
		}
		left -= min(run.Count, left)
	}
	return into
}

// numbering gives keys consecutive numbers in the order in which they first appear. A key stands for the whole prompt up to its block,
// so a new prompt is one run and a follow-up is two; as plain keys a prompt of 6,000 blocks would be a line of 100 kB.
//
// It remembers in two generations: what was not seen for a whole generation is forgotten and gets a new number when it comes again.
// Numbers are never used twice, so forgetting can hide an old prefix but never invent one.
type numbering struct {
	young, old map[uint64]uint64
	generation int // entries in one
	last       uint64
}

func newNumbering(most int) *numbering {
	return &numbering{young: make(map[uint64]uint64), old: make(map[uint64]uint64), generation: max(1, most/2)}
}

func (n *numbering) of(key uint64) uint64 {
	if v, ok := n.young[key]; ok {
		return v
	}
	v, ok := n.old[key]
	if !ok {
		n.last++
		v = n.last
	}
	if len(n.young) >= n.generation {
		n.young, n.old = n.old, n.young
		clear(n.young)
	}
	n.young[key] = v
	return v
}

// runs codes keys as runs of numbers. cut says that they did not all fit.
func (n *numbering) runs(into []Run, keys []uint64) (runs []Run, cut bool) {
	for _, k := range keys {
		v := n.of(k)
		if last := len(into) - 1; last >= 0 && into[last].First+uint64(into[last].Count) == v {
			into[last].Count++
			continue
		}
		if len(into) == runsMax {
			return into, true
		}
		into = append(into, Run{First: v, Count: 1})
	}
	return into, false
}
