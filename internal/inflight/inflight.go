// Package inflight knows the requests that are inside: which they are, how far each has come, and how to end one.
//
//	b := inflight.New(stands)
//	ctx := b.Enter(&entry, r.Context(), id, path, now)   // ctx ends with the client, and when somebody cancels the request
//	entry.Know(inflight.About{Model: "m", Tenant: "t"})
//	entry.Place(inflight.Placement{Worker: "gpu-1", ...}, now)
//	reuse := entry.Leave()
//
//	for _, r := range b.List(inflight.Filter{Worker: "gpu-1", Limit: 100}).Requests { ... }
//	n := b.Cancel("4f2c", "ops")
//
// An entry's memory is its owner's: nothing is allocated for a request. Entries are kept in shards, each with a lock of its own that is held for
// a few words at a time.
package inflight

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/life"
)

// State is how far a request has come.
type State uint8

// The states, in their order.
const (
	Body      State = iota // its body is read, and looked at
	Waiting                // for room on a worker
	Prefill                // a stream that was sent to a worker, and has no token yet
	Running                // the same of an answer that comes in one piece
	Streaming              // its answer is under way
)

// States are their names.
var States = []string{"body", "waiting", "prefill", "running", "streaming"}

func (s State) String() string { return States[s] }

// Cancelled is the cause of the end of a request that somebody cancelled.
type Cancelled struct{ By string } // who did, for logs

func (c *Cancelled) Error() string { return "the request was cancelled by an operator" }

// IsCancelled says whether somebody's cancelling is the cause of an end.
func IsCancelled(cause error) bool {
	var c *Cancelled
	return errors.As(cause, &c)
}

// Standing is how a request stands that waits.
type Standing struct {
	Before int // that go before it
	Wait   time.Duration
	Known  bool // Wait is
}

// shards bounds how many requests wait for each other's few words.
const shards = 64

// Book is who is inside. Only New makes a usable one; any number of goroutines may use it. A nil Book knows nobody and cancels nothing.
type Book struct {
	stands func(waiter any) (Standing, bool)
	seed   maphash.Seed
	shards [shards]shard
}

// shard is a list of entries, in no order.
type shard struct {
	mu    sync.Mutex // taken before that which stands takes
	first *Entry
}

// New makes an empty book. stands tells of what was given to Entry.Wait how it stands; false: it waits no more. It is called with a shard's lock
// held, and must not come back here.
func New(stands func(waiter any) (Standing, bool)) *Book {
	return &Book{stands: stands, seed: maphash.MakeSeed()}
}

// About is what is known of a request once its body was read.
type About struct {
	API, Model, Tenant, Class string
	Stream                    bool
	PromptTokens              int
}

// Placement is where it was placed, and what is expected of it there.
type Placement struct {
	Worker, Pool   string
	CachedTokens   int
	OutputTokens   float64
	PrefillSeconds float64
	DecodeSeconds  float64
}

// Entry is one request. It may be used for another one when Leave said so.
type Entry struct {
	life   life.Context
	end    func(error) // life.End, made once
	client life.Watch
	shard  *shard // nil: no book knows it
	tokens atomic.Int64
	state  atomic.Uint32 // a State

	// The rest is guarded by the shard's lock.
	prev, next      *Entry
	id, path        string
	started, placed time.Time
	tries           int
	about           About
	placement       Placement
	waiter          any
	ending          bool // somebody cancels it at this moment
}

// Enter makes an entry that of a request. The context that it returns ends with the client's, or with a *Cancelled.
func (b *Book) Enter(e *Entry, client context.Context, id, path string, now time.Time) context.Context {
	if b == nil {
		return client
	}
	if e.end == nil {
		e.end = e.life.End
	}
	s := b.shardOf(id)
	e.life.Renew()
	e.tokens.Store(0)
	s.mu.Lock()
	e.shard, e.prev, e.next, e.id, e.path, e.started, e.placed = s, nil, s.first, id, path, now, time.Time{}
	e.tries, e.about, e.placement, e.waiter, e.ending = 0, About{}, Placement{}, nil, false
	e.state.Store(uint32(Body))
	if s.first != nil {
		s.first.prev = e
	}
	s.first = e
	s.mu.Unlock()
	e.client.Follow(client, e.end)
	return &e.life
}

func (b *Book) shardOf(id string) *shard { return &b.shards[maphash.String(b.seed, id)%shards] }

// Know notes what the body said.
func (e *Entry) Know(a About) {
	if s := e.shard; s != nil {
		s.mu.Lock()
		e.about = a
		s.mu.Unlock()
	}
}

// Wait says that the request may have to wait, as that; nil: it does not any more, and what it was is about to change.
func (e *Entry) Wait(as any) {
	if s := e.shard; s != nil {
		s.mu.Lock()
		e.waiter = as
		e.state.Store(uint32(Waiting))
		s.mu.Unlock()
	}
}

// Place notes where it was placed.
func (e *Entry) Place(p Placement, now time.Time) {
	if s := e.shard; s != nil {
		s.mu.Lock()
		e.waiter, e.placement, e.placed = nil, p, now
		e.tries++
		state := Running
		if e.about.Stream {
			state = Prefill
		}
		e.state.Store(uint32(state))
		s.mu.Unlock()
	}
}

// Begin says that its answer is under way.
func (e *Entry) Begin() {
	if e.shard != nil {
		e.state.Store(uint32(Streaming))
	}
}

// Generated counts tokens of its answer.
func (e *Entry) Generated(n int) {
	if e.shard != nil {
		e.tokens.Add(int64(n))
	}
}

// Leave takes the request out. false: its context has ended, and somebody may still be about to look at it: the memory serves no other request.
func (e *Entry) Leave() (reusable bool) {
	s := e.shard
	if s == nil {
		return true
	}
	stopped := e.client.Stop()
	s.mu.Lock()
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		s.first = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	}
	e.prev, e.next, e.waiter, e.shard = nil, nil, nil, nil
	ending := e.ending
	s.mu.Unlock()
	return stopped && !ending && e.life.Err() == nil
}

// Cancel ends every request of that id, of which clients may make several alike, and returns how many there were. by says for whom.
func (b *Book) Cancel(id, by string) int {
	if b == nil {
		return 0
	}
	var ends []func(error)
	s := b.shardOf(id)
	s.mu.Lock()
	for e := s.first; e != nil; e = e.next {
		if e.id == id && !e.ending {
			e.ending = true
			ends = append(ends, e.end)
		}
	}
	s.mu.Unlock()
	for _, end := range ends { // without the lock: whoever watches the request acts at once
		end(&Cancelled{By: by})
	}
	return len(ends)
}
