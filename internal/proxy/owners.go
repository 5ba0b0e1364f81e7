package proxy

import (
	"hash/maphash"
	"sync"
)

// owners remembers which worker instance made a response (or holds a conversation), so that what refers to it later goes there.
// It keeps two generations of at most half the bound each: when the young one is full, the old one is dropped. That is an
// approximate LRU without a list, and a lookup renews.
type owners struct {
	mu         sync.Mutex
	seed       maphash.Seed
	young, old map[uint64]owner
	half       int
}

// owner names an instance, not just an address: an engine that restarted has forgotten its responses.
type owner struct {
	id          string
	incarnation uint64
}

func newOwners(entriesMax int) *owners {
	return &owners{seed: maphash.MakeSeed(), young: map[uint64]owner{}, half: max(1, entriesMax/2)}
}

func (o *owners) put(id string, w owner) {
	if id == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.store(maphash.String(o.seed, id), w)
}

func (o *owners) get(id string) (owner, bool) {
	if id == "" {
		return owner{}, false
	}
	key := maphash.String(o.seed, id)
	o.mu.Lock()
	defer o.mu.Unlock()
	if w, ok := o.young[key]; ok {
		return w, true
	}
	w, ok := o.old[key]
	if ok {
		o.store(key, w)
	}
	return w, ok
}

func (o *owners) store(key uint64, w owner) {
	if len(o.young) >= o.half {
		o.old, o.young = o.young, make(map[uint64]owner, 1024)
	}
	o.young[key] = w
}
