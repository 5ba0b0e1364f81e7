package engine

// block is one fixed run of tokens in the KV cache. A block that nobody holds keeps its key, and so stays usable, until
// it is the least recently used of the free ones and its room is needed.
type block struct {
	key        uint64
	keyed      bool
	holders    int32
	prev, next int32 // the free list, while holders is 0
}

// kvCache is the paged KV cache: a fixed number of blocks, an index by key, and the free blocks in order of use.
type kvCache struct {
	blockTokens int
	blocks      []block // the last one is the free list's sentinel
	index       map[uint64]int32
	free        int
	evictions   uint64
}

func newKVCache(tokensMax, blockTokens int) *kvCache {
	n := tokensMax / blockTokens
	k := &kvCache{blockTokens: blockTokens, blocks: make([]block, n+1), index: make(map[uint64]int32), free: n}
	for i := range k.blocks {
		k.blocks[i].prev = int32((i + n) % (n + 1))
		k.blocks[i].next = int32((i + 1) % (n + 1))
	}
	return k
}

func (k *kvCache) total() int { return len(k.blocks) - 1 }

// blocksFor returns how many blocks hold that many tokens.
func (k *kvCache) blocksFor(tokens int) int { return (tokens + k.blockTokens - 1) / k.blockTokens }

// match appends the leading blocks of keys that are cached to into, at most limit of them.
func (k *kvCache) match(keys []uint64, limit int, into []int32) []int32 {
	for _, key := range keys[:min(limit, len(keys))] {
		id, ok := k.index[key]
		if !ok {
			break
		}
		into = append(into, id)
	}
	return into
}

// fits says whether a sequence that shares those blocks can grow to that many tokens without anyone giving room up.
func (k *kvCache) fits(shared []int32, tokens int) bool {
	free := k.free
	for _, id := range shared {
		if k.blocks[id].holders == 0 {
			free--
		}
	}
	return k.blocksFor(tokens)-len(shared) <= free
}

// share makes a sequence one more holder of blocks that match found.
func (k *kvCache) share(ids []int32) {
	for _, id := range ids {
		if k.blocks[id].holders == 0 {
			k.unlink(id)
		}
		k.blocks[id].holders++
	}
}

// grow extends a sequence's blocks so that tokens fit, evicting free blocks as needed. It returns false, and changes
// nothing, when there are too few.
func (k *kvCache) grow(held []int32, tokens int) ([]int32, bool) {
	need := k.blocksFor(tokens) - len(held)
	if need > k.free {
		return held, false
	}
	for range need {
		id := k.blocks[k.total()].next
		k.unlink(id)
		b := &k.blocks[id]
		if b.keyed {
			delete(k.index, b.key)
			b.keyed = false
			k.evictions++
		}
		b.holders = 1
		held = append(held, id)
	}
	return held, true
}

// publish makes a full block findable. A key that is already there keeps its first block: the copy is only held by the
// sequence that computed it and is forgotten with it.
func (k *kvCache) publish(id int32, key uint64) {
	if _, taken := k.index[key]; taken || k.blocks[id].keyed {
		return
	}
	k.blocks[id].key, k.blocks[id].keyed = key, true
	k.index[key] = id
}

// release gives a sequence's blocks back, the last first, so that the tail of a prompt is evicted before its head.
func (k *kvCache) release(held []int32) {
	for i := len(held) - 1; i >= 0; i-- {
		b := &k.blocks[held[i]]
		if b.holders--; b.holders > 0 {
			continue
		}
		sentinel := int32(k.total())
		b.prev, b.next = k.blocks[sentinel].prev, sentinel
		k.blocks[b.prev].next = held[i]
		k.blocks[sentinel].prev = held[i]
		k.free++
	}
}

func (k *kvCache) unlink(id int32) {
	b := &k.blocks[id]
	k.blocks[b.prev].next, k.blocks[b.next].prev = b.next, b.prev
	k.free--
}
