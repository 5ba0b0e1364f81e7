package prefix

import (
	"cmp"
	"slices"
)

// Record is one block that a worker is assumed to hold, as it outlives the index. Records of a worker are complete enough to be put back in any
// other index with the same seed, whatever their order.
type Record struct {
	Slot   int
	Key    Key
	Parent Key // 0: it is a chain's first
	Size   uint16
	Stamp  uint32 // of its last use, see stampOf
}

// Records appends what up to so many places of the index hold, from one on that an earlier call returned, 0 at first; next is 0 when there are no
// more. Between the calls the index may change: each block that stays is told once, one that comes or goes meanwhile perhaps.
func (x *Index) Records(into []Record, from, places int) (all []Record, next int) {
	m := &x.members
	end := min(max(from, 1)+places, m.used)
	for i := max(from, 1); i < end; i++ {
		e := m.at(int32(i))
		if e.key == 0 || !x.live.has(e.lane) {
			continue
		}
		r := Record{Slot: x.lanes[e.lane].slot, Key: e.key, Size: e.size, Stamp: e.stamp}
		if e.parent != 0 {
			r.Parent = m.at(e.parent).key
		}
		into = append(into, r)
	}
	if end >= m.used {
		return into, 0
	}
	return into, end
}

// Arrange puts the records of one worker in the order in which PutBack takes them: what was used last first, and nothing before its parent. What
// has no parent among them, or is its own ancestor, is left out. It needs no lock.
func Arrange(records []Record) []Record {
	slices.SortFunc(records, func(a, b Record) int {
		return cmp.Or(cmp.Compare(int32(b.Stamp-a.Stamp), 0), cmp.Compare(a.Key, b.Key))
	})
	at := make(map[Key]int, len(records))
	for i, r := range records {
		at[r.Key] = i
	}
	const placed, barred = 1, 2
	state := make([]uint8, len(records))
	out := make([]Record, 0, len(records))
	var line []int // from a block to the first of its ancestors that is not placed
	for i := range records {
		line = line[:0]
		whole := true
		for n := i; state[n] != placed; {
			if state[n] == barred || len(line) > len(records) {
				whole = false
				break
			}
			line = append(line, n)
			if records[n].Parent == 0 {
				break
			}
			parent, ok := at[records[n].Parent]
			if !ok {
				whole = false
				break
			}
			n = parent
		}
		for k := len(line) - 1; k >= 0; k-- {
			n := line[k]
			if state[n] != 0 {
				continue
			}
			if state[n] = barred; whole {
				state[n] = placed
				out = append(out, records[n])
			}
		}
	}
	return out
}

// PutBack puts back what Arrange returned, or a part of it, as what a worker used least recently. What does not fit in its cache or in the index is
// left out, and so is what follows it; nothing gives way to it. It returns how many blocks came.
func (x *Index) PutBack(slot int, records []Record) (came int) {
	n, ok := x.laneOf(slot)
	if !ok {
		return 0
	}
	for i := range records {
		if x.putBack(n, &records[i]) {
			came++
		}
	}
	return came
}

func (x *Index) putBack(n uint16, r *Record) bool {
	m, l := &x.members, &x.lanes[n]
	parent := int32(0)
	if r.Parent != 0 {
		if parent = x.find(r.Parent, n); parent == 0 {
			return false
		}
	}
	if r.Key == 0 || l.bytes+int64(r.Size) > l.capacity || m.count >= x.pairsMax || x.find(r.Key, n) != 0 {
		return false
	}
	i := m.take()
	h := x.table.hold(r.Key, n, i)
	m.set(i, member{key: r.Key, lane: n, parent: parent, size: r.Size, stamp: r.Stamp})
	if !h.alone {
		m.file(i)
	}
	if h.ref != 0 {
		m.file(h.ref)
	}
	m.link(&l.list, l.oldest, i, i)
	l.pairs++
	l.bytes += int64(r.Size)
	return true
}
