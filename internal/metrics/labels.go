package metrics

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Other is the label value of everything that is not known by name.
const Other = "other"

// Bounds on label values that are not closed lists.
const (
	modelsMax  = 256
	workersMax = 1024
	classesMax = 64
)

// handles resolves names to handles: a read is one atomic load and one map look-up. Names are added rarely, under mu, by
// swapping the whole map.
type handles[T any] struct {
	mu     sync.Mutex
	byName atomic.Pointer[map[string]*T]
	other  *T
	max    int
	make   func(name string) *T
}

func newHandles[T any](most int, mk func(name string) *T) *handles[T] {
	h := &handles[T]{max: most, make: mk, other: mk(Other)}
	h.byName.Store(&map[string]*T{})
	return h
}

// get returns the handle of a known name, or else that of "other".
func (h *handles[T]) get(name string) (t *T, known bool) {
	if t, ok := (*h.byName.Load())[name]; ok {
		return t, true
	}
	return h.other, false
}

// add makes a name known. Past the bound it stays "other".
func (h *handles[T]) add(name string) *T {
	h.mu.Lock()
	defer h.mu.Unlock()
	old := *h.byName.Load()
	if t, ok := old[name]; ok {
		return t
	}
	if len(old) >= h.max || name == Other {
		return h.other
	}
	next := make(map[string]*T, len(old)+1)
	for k, v := range old {
		next[k] = v
	}
	t := h.make(name)
	next[name] = t
	h.byName.Store(&next)
	return t
}

// remove forgets a name and returns its handle, nil when it was not known.
func (h *handles[T]) remove(name string) *T {
	h.mu.Lock()
	defer h.mu.Unlock()
	old := *h.byName.Load()
	next := make(map[string]*T, len(old))
	for k, v := range old {
		if k != name {
			next[k] = v
		}
	}
	h.byName.Store(&next)
	return old[name]
}

// place finds a value in a closed list; len(list) stands for "other".
func place(list []string, value string) int {
	if i := slices.Index(list, value); i >= 0 {
		return i
	}
	return len(list)
}

// nameOf is the inverse of place.
func nameOf(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return Other
}
