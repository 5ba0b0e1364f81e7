package gate

import (
	"hash/maphash"
	"sync"
)

// Owners remembers which worker instance made a response (or holds a conversation), so that what refers to it later goes there.
// It keeps two generations of at most half the bound each: when the young one is full, the old one is dropped. That is an
// approximate LRU without a list, and a lookup renews.
type Owners struct {
	mu         sync.Mutex
	seed       maphash.Seed
	young, old map[uint64]Owner
	half       int
}

// Owner names an instance, not just an address: an engine that restarted has forgotten its responses.
type Owner struct {
	ID          string
	Incarnation uint64
}

// NewOwners makes an empty memory of so many entries at most.
func NewOwners(entriesMax int) *Owners {
	return &Owners{seed: maphash.MakeSeed(), young: map[uint64]Owner{}, half: max(1, entriesMax/2)}
}

// Put notes who made id; an empty one is none.
func (o *Owners) Put(id string, w Owner) {
	if id == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.store(maphash.String(o.seed, id), w)
}

// Get tells who made id, when that is still known.
func (o *Owners) Get(id string) (Owner, bool) {
	if id == "" {
		return Owner{}, false
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

func (o *Owners) store(key uint64, w Owner) {
	if len(o.young) >= o.half {
		o.old, o.young = o.young, make(map[uint64]Owner, 1024)
	}
	o.young[key] = w
}
