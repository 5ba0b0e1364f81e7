package kvindex

// Stats are exported as metrics.
type Stats struct {
	Bytes, BytesMax int64 // memory held, and its bound
	Nodes           int   // distinct blocks
	Pairs           int   // (block, worker) pairs, those of closed handles included until they are swept
	Dying           int   // closed handles that still hold something
	Counts
	PerSlot []SlotStats // open slots in ascending order
}

// SlotStats is what one worker holds.
type SlotStats struct {
	Slot     int
	Blocks   int
	Slow     int // of Blocks, those that are not in GPU memory
	Holes    int // blocks it does not hold, though it holds some behind them
	Complete bool
}

// Stats counts what the index holds.
func (x *Index) Stats() Stats {
	x.reading()
	defer x.mu.Unlock()
	s := Stats{
		Bytes:    x.nodes.bytes() + x.lists.bytes + x.byKey.bytes + x.byName.bytes + fixedBytes/2,
		BytesMax: x.costMax + fixedBytes,
		Nodes:    x.nodes.count,
		Pairs:    x.byName.used,
		Dying:    x.dying,
		Counts:   x.counts,
	}
	for slot, n := range x.slots {
		if n != 0 {
			l := &x.lanes[n-1]
			s.PerSlot = append(s.PerSlot, SlotStats{Slot: slot, Blocks: l.pairs, Slow: l.lower, Holes: len(l.holes), Complete: l.complete})
		}
	}
	return s
}
