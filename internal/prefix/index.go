package prefix

// Options bound the index. The zero value means DefaultOptions.
type Options struct {
	BytesMax        int64 // memory of the whole index
	CapacityDefault int64 // assumed cache of a worker whose size nobody told, in prompt bytes
}

// DefaultOptions are what New uses where a field is 0.
func DefaultOptions() Options {
	return Options{BytesMax: 256 << 20, CapacityDefault: 1_600_000}
}

// SlotsMax is the number of workers one index can hold. Higher slots are never matched.
const SlotsMax = 1024

// Index is the assumed caches of all workers.
type Index struct {
	o Options
}

// New makes an empty index.
func New(o Options) *Index { return &Index{o: o} }

// SetCapacity sets the assumed cache size of a worker in prompt bytes; 0 means CapacityDefault.
func (x *Index) SetCapacity(slot int, bytes int64) {}

// Match answers how many leading blocks of c each worker holds, replies included.
func (x *Index) Match(c Chain, depth []int32) []int32 { return depth }

// Enter notes that a worker was sent c. now is in nanoseconds and does not run backwards.
func (x *Index) Enter(slot int, c Chain, now int64) {}

// Trim corrects the assumption by the engine's report that only depth blocks of c were cached.
func (x *Index) Trim(slot int, c Chain, depth int32) {}

// Forget empties a slot: its worker is gone or restarted.
func (x *Index) Forget(slot int) {}

// Stats are exported as metrics.
type Stats struct {
	Bytes, BytesMax int64 // memory held, and its bound
	Blocks          int   // distinct blocks
	Members         int   // (block, worker) pairs
	Evictions       uint64
	PerSlot         []SlotStats
}

// SlotStats is one worker's assumed cache.
type SlotStats struct {
	Blocks                    int
	CachedBytes, CapacityBytes int64
}

// Stats counts what the index holds.
func (x *Index) Stats() Stats { return Stats{} }
