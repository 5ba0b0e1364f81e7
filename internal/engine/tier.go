package engine

import "github.com/warmpath/warmpath/internal/prefix"

// tier is slower memory, the host's or a disk, that takes what the KV cache evicts: full blocks by key, least recently used out first.
// A block that is loaded back stays there too.
type tier struct {
	most  int // blocks
	index map[prefix.Key]int32
	slots []tierSlot // the first one is the list's sentinel: next is the oldest
}

type tierSlot struct {
	key        prefix.Key
	prev, next int32
}

func newTier(blocks int) *tier {
	return &tier{most: blocks, index: make(map[prefix.Key]int32), slots: make([]tierSlot, 1)}
}

// depth is the number of leading keys that are there.
func (t *tier) depth(keys []prefix.Key) int {
	for i, key := range keys {
		if _, ok := t.index[key]; !ok {
			return i
		}
	}
	return len(keys)
}

// use puts a block in, or makes it the newest. It returns the key that had to go for it.
func (t *tier) use(key prefix.Key) (gone prefix.Key, full bool) {
	i, ok := t.index[key]
	switch {
	case ok:
		t.unlink(i)
	case len(t.index) < t.most:
		t.slots = append(t.slots, tierSlot{})
		i = int32(len(t.slots) - 1)
	default:
		i = t.slots[0].next
		t.unlink(i)
		gone, full = t.slots[i].key, true
		delete(t.index, gone)
	}
	t.index[key] = i
	t.slots[i] = tierSlot{key: key, prev: t.slots[0].prev}
	t.slots[t.slots[0].prev].next = i
	t.slots[0].prev = i
	return gone, full
}

func (t *tier) unlink(i int32) {
	s := &t.slots[i]
	t.slots[s.prev].next, t.slots[s.next].prev = s.next, s.prev
}

// keep puts a block in slower memory.
func (k *kvCache) keep(key prefix.Key) {
	gone, full := k.tier.use(key)
	if full && k.changed != nil && k.index.find(gone) == 0 {
		k.changed(gone, false)
	}
}

// load brings what the slower memory holds of a prompt behind its matched blocks into the room of an admitted sequence, which waits for
// it in this step.
func (c *Core) load(s *Sequence, limit int) {
	t := c.cache.tier
	if t == nil || s.published >= min(limit, len(s.Keys)) {
		return
	}
	keys := s.Keys[s.published:min(limit, len(s.Keys))]
	n := t.depth(keys)
	if n == 0 || !c.occupy(s, n*c.cache.blockTokens) { // there is room: the whole prompt fits
		return
	}
	for i := n - 1; i >= 0; i-- { // the head last, so that it leaves last
		c.cache.keep(keys[i])
	}
	tokens := n * c.cache.blockTokens
	s.computed += tokens
	c.loading += float64(tokens) * c.profile.TierSeconds
	c.counts.LoadedTokens += uint64(tokens)
}
