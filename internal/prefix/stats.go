package prefix

// Stats are exported as metrics.
type Stats struct {
	Bytes, BytesMax int64       // memory held, and its bound
	Blocks          int         // distinct blocks
	Pairs           int         // (block, worker) pairs, those of forgotten workers included until they are swept
	Evictions       Evictions   // pairs that gave way to others
	PerSlot         []SlotStats // slots in use, in ascending order
}

// Evictions are pairs that gave way, by what they made room for. Those of Capacity are no sign that the index is too small: the workers' own caches are.
type Evictions struct {
	Capacity uint64 // what a worker's cache is assumed to hold was full
	Bound    uint64 // Options.BytesMax was reached
	Shed     uint64 // memory was short: Shed, and what came until Restore
}

// All is all of them.
func (e Evictions) All() uint64 { return e.Capacity + e.Bound + e.Shed }

// SlotStats is one worker's assumed cache; bytes are prompt bytes.
type SlotStats struct {
	Slot          int
	Blocks        int
	CachedBytes   int64
	CapacityBytes int64
}

// Stats counts what the index holds.
func (x *Index) Stats() Stats {
	s := Stats{
		Bytes:     x.memory(),
		BytesMax:  x.o.BytesMax,
		Blocks:    x.table.blocks,
		Pairs:     x.members.count,
		Evictions: x.evicted,
	}
	for slot, n := range x.slots {
		if n != 0 {
			l := &x.lanes[n-1]
			s.PerSlot = append(s.PerSlot, SlotStats{Slot: slot, Blocks: l.pairs, CachedBytes: l.bytes, CapacityBytes: l.capacity})
		}
	}
	return s
}
