package engine

import "github.com/warmpath/warmpath/internal/prefix"

// block is one fixed run of tokens in the KV cache, or the beginning of one: a sequence's last block holds only as many pages as it
// needs. A block that nobody holds keeps its key, and so stays usable, until it is the least recently used of the free ones and its
// room is needed.
type block struct {
	key        prefix.Key
	keyed      bool
	holders    int32
	pages      int32 // 0: the block is not in use
	child      int32 // the block that followed last in a chain, 0 none: most chains are walked by it, without hashing
	prev, next int32 // the list of those that are kept, while holders is 0; next alone links the unused ones
}

// kvCache is the paged KV cache: a fixed number of pages, given to blocks; an index of full blocks by key; and the blocks that nobody
// holds, in the order in which they will be evicted. A real engine's block is its page. The blocks of a trace that names only whole runs of 512 tokens are larger:
// kept as one block of 32 pages they cost one look-up instead of 32 and take up no more room.
type kvCache struct {
	blockTokens int
	pageTokens  int
	blocks      []block // grows with use; the first one is the sentinel of the list of kept ones
	unused      int32   // list through next, 0 ends it
	index       keyIndex
	total, free int // pages; free counts those of kept blocks
	kept        int // pages of kept blocks
	evictions   uint64
	tier        *tier                             // takes what is evicted; nil when there is none
	changed     func(key prefix.Key, stored bool) // told of every change of index; may be nil
}

func newKVCache(tokensMax, blockTokens, pageTokens int) *kvCache {
	n := tokensMax / pageTokens
	return &kvCache{
		blockTokens: blockTokens, pageTokens: pageTokens, blocks: make([]block, 1), index: newKeyIndex(), total: n, free: n,
	}
}

// pagesFor returns how many pages hold that many tokens.
func (k *kvCache) pagesFor(tokens int) int { return (tokens + k.pageTokens - 1) / k.pageTokens }

func (k *kvCache) pagesInBlock() int { return k.blockTokens / k.pageTokens }

// depth is the number of leading keys that are cached. Keys are chained and the head of a chain leaves last, but not every
// sequence's: it walks.
func (k *kvCache) depth(keys []prefix.Key) int {
	last := int32(0)
	for i, key := range keys {
		if last = k.find(last, key); last == 0 {
			return i
		}
	}
	return len(keys)
}

// find returns the block of a key, the one before which in its chain is last, or 0. A key has one block, so that a child that still has it
// is the one.
func (k *kvCache) find(last int32, key prefix.Key) int32 {
	if last != 0 {
		if child := k.blocks[last].child; child != 0 && k.blocks[child].keyed && k.blocks[child].key == key {
			return child
		}
	}
	id := k.index.find(key)
	if last != 0 && id != 0 {
		k.blocks[last].child = id
	}
	return id
}

// match appends the leading blocks of keys that are cached to into, at most limit of them.
func (k *kvCache) match(keys []prefix.Key, limit int, into []int32) []int32 {
	last := int32(0)
	for _, key := range keys[:min(limit, len(keys))] {
		if last = k.find(last, key); last == 0 {
			break
		}
		into = append(into, last)
	}
	return into
}

// fits says whether a sequence that shares those blocks can grow to that many tokens without anyone giving room up.
func (k *kvCache) fits(shared []int32, tokens int) bool {
	free := k.free
	for _, id := range shared {
		if k.blocks[id].holders == 0 {
			free -= k.pagesInBlock()
		}
	}
	return k.pagesFor(tokens)-len(shared)*k.pagesInBlock() <= free
}

// share makes a sequence one more holder of blocks that match found.
func (k *kvCache) share(ids []int32) {
	for _, id := range ids {
		if k.blocks[id].holders == 0 {
			k.unlink(id)
			k.free -= int(k.blocks[id].pages)
		}
		k.blocks[id].holders++
	}
}

// held is the number of pages that a sequence's blocks have: all but the last are whole.
func (k *kvCache) held(blocks []int32) int {
	n := len(blocks)
	if n == 0 {
		return 0
	}
	return (n-1)*k.pagesInBlock() + int(k.blocks[blocks[n-1]].pages)
}

// grow extends a sequence's blocks so that tokens fit, evicting kept blocks as needed. It returns false, and changes
// nothing, when there are too few pages.
func (k *kvCache) grow(held []int32, tokens int) ([]int32, bool) {
	need := k.pagesFor(tokens) - k.held(held)
	if need > k.free {
		return held, false
	}
	if need <= 0 {
		return held, true
	}
	for k.free-k.kept < need {
		k.evict()
	}
	k.free -= need
	if n := len(held); n > 0 {
		last := &k.blocks[held[n-1]]
		more := min(need, k.pagesInBlock()-int(last.pages))
		last.pages += int32(more)
		need -= more
	}
	for need > 0 {
		pages := min(need, k.pagesInBlock())
		held = append(held, k.take(int32(pages)))
		need -= pages
	}
	return held, true
}

// take makes a block of so many pages with one holder.
func (k *kvCache) take(pages int32) int32 {
	id := k.unused
	if id == 0 {
		k.blocks = append(k.blocks, block{})
		id = int32(len(k.blocks) - 1)
	} else {
		k.unused = k.blocks[id].next
	}
	k.blocks[id] = block{holders: 1, pages: pages}
	return id
}

// evict gives up the block that was kept longest.
func (k *kvCache) evict() {
	id := k.blocks[0].next
	k.unlink(id)
	if b := &k.blocks[id]; b.keyed {
		k.index.remove(b.key)
		k.evictions++
		if k.tier != nil {
			k.keep(b.key)
		} else if k.changed != nil {
			k.changed(b.key, false)
		}
	}
	k.blocks[id] = block{next: k.unused}
	k.unused = id
}

// publish makes a full block findable. A key that is already there keeps its first block: the copy is only held by the
// sequence that computed it and is forgotten with it.
func (k *kvCache) publish(id int32, key prefix.Key) {
	if k.blocks[id].keyed || k.index.find(key) != 0 {
		return
	}
	k.blocks[id].key, k.blocks[id].keyed = key, true
	k.index.put(key, id)
	if k.changed != nil {
		k.changed(key, true)
	}
}

// release gives a sequence's blocks back, the last first, so that the tail of a prompt is evicted before its head.
func (k *kvCache) release(held []int32) {
	for i := len(held) - 1; i >= 0; i-- {
		id := held[i]
		b := &k.blocks[id]
		if b.holders--; b.holders > 0 {
			continue
		}
		k.free += int(b.pages)
		k.kept += int(b.pages)
		b.prev, b.next = k.blocks[0].prev, 0
		k.blocks[b.prev].next = id
		k.blocks[0].prev = id
	}
}

func (k *kvCache) unlink(id int32) {
	b := &k.blocks[id]
	k.blocks[b.prev].next, k.blocks[b.next].prev = b.next, b.prev
	k.kept -= int(b.pages)
}
