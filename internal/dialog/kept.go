package dialog

import "sync"

// Conversation is a kept answer of /v1/responses: the conversation up to and including it, and what GET returns.
type Conversation struct {
	Turns []Message
	Whole []byte
}

// Kept holds the newest conversations by their ids. Its methods may be called from any goroutine.
type Kept struct {
	mu    sync.Mutex // guards the fields below
	max   int
	byID  map[string]Conversation
	order []string // of arrival; ids that were deleted are still in it
}

// NewKept keeps at most so many.
func NewKept(max int) *Kept { return &Kept{max: max, byID: make(map[string]Conversation)} }

// Get returns the conversation of that id, if it is still there.
func (k *Kept) Get(id string) (Conversation, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, ok := k.byID[id]
	return c, ok
}

// Len is the number of conversations kept.
func (k *Kept) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.byID)
}

// Put keeps a conversation, at the cost of the oldest.
func (k *Kept) Put(id string, c Conversation) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.byID[id] = c
	k.order = append(k.order, id)
	for len(k.order) > k.max {
		delete(k.byID, k.order[0])
		k.order = k.order[1:]
	}
}

// Remove forgets a conversation, and says whether it was there.
func (k *Kept) Remove(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.byID[id]
	delete(k.byID, id)
	return ok
}
