// Package life is a context.Context that costs little to watch: whoever watches it brings the memory, and nothing is allocated, hashed
// or started. A request has several of them (its connection's, its attempt's, its worker's), and with package context they were a
// twentieth of all that a request cost.
//
//	var client, attempt life.Context
//	var w life.Watch
//	client.Watch(&w, func(cause error) { attempt.End(cause) })
//	...
//	if !w.Stop() { ... } // it was called, or is about to be
//
// Err is the cause: there is no word between an end and its reason.
package life

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Context ends once, for a cause. The zero value is one that has not ended. It must not be copied, and be used again only after Renew.
type Context struct {
	cause atomic.Pointer[error]

	mu      sync.Mutex // guards the rest, and the fields of the watches
	first   *Watch
	channel chan struct{} // made when somebody asks for it
}

// Watch is somebody who wants to know of an end. Its memory may be used again after Stop returned true, or its function was called.
type Watch struct {
	of         *Context    // nil while it watches nothing, or
	foreign    func() bool // watches a context of another kind, which this stops
	prev, next *Watch
	ended      func(cause error)
}

// Watch has ended called once when c ends, by whoever ends it, and at once when it has ended already. It must not block. No lock is held
// while it is called.
func (c *Context) Watch(w *Watch, ended func(cause error)) {
	c.mu.Lock()
	if cause := c.cause.Load(); cause != nil {
		c.mu.Unlock()
		ended(*cause)
		return
	}
	*w = Watch{of: c, next: c.first, ended: ended}
	if c.first != nil {
		c.first.prev = w
	}
	c.first = w
	c.mu.Unlock()
}

// Stop ends the watch. It reports false when the function was called, or is about to be, or nothing was watched.
func (w *Watch) Stop() bool {
	if stop := w.foreign; stop != nil {
		w.foreign = nil
		return stop()
	}
	c := w.of
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.ended == nil {
		return false
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		c.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	*w = Watch{}
	return true
}

// End ends c; only the first cause counts. A nil cause is context.Canceled.
func (c *Context) End(cause error) {
	if cause == nil {
		cause = context.Canceled
	}
	c.mu.Lock()
	if c.cause.Load() != nil {
		c.mu.Unlock()
		return
	}
	c.cause.Store(&cause)
	if c.channel != nil {
		close(c.channel)
	}
	for w := c.first; w != nil; w = c.first {
		c.first = w.next
		if w.next != nil {
			w.next.prev = nil
		}
		ended := w.ended
		w.ended, w.prev, w.next = nil, nil, nil
		c.mu.Unlock()
		ended(cause)
		c.mu.Lock()
	}
	c.mu.Unlock()
}

// Renew makes a context that nobody watches any more, or asks, as good as new.
func (c *Context) Renew() {
	c.cause.Store(nil)
	c.channel = nil
}

// Err implements context.Context: it returns the cause.
func (c *Context) Err() error {
	if cause := c.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.channel == nil {
		c.channel = make(chan struct{})
		if c.cause.Load() != nil {
			close(c.channel)
		}
	}
	return c.channel
}

// Deadline implements context.Context; there is none.
func (c *Context) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements context.Context; there is none.
func (c *Context) Value(any) any { return nil }

// AfterFunc is what package context asks of contexts that are not its own.
func (c *Context) AfterFunc(f func()) (stop func() bool) {
	w := new(Watch)
	c.Watch(w, func(error) { go f() })
	return w.Stop
}

// Follow is Watch of any context. One of another kind has ended called in a goroutine of its own.
func (w *Watch) Follow(ctx context.Context, ended func(cause error)) {
	if c, ok := ctx.(*Context); ok {
		c.Watch(w, ended)
		return
	}
	*w = Watch{foreign: endless}
	if ctx.Done() != nil {
		w.foreign = context.AfterFunc(ctx, func() { ended(context.Cause(ctx)) })
	}
}

// Apart makes a child of base that ends with ctx, for those who may look at a context after the work is done for which it was made: package
// context and net/http look at a parent from goroutines of their own, whenever they come to it, and by then the memory of ctx may be that of
// another's. cancel ends it for a cause; end, which has to be called before ctx is used again, ends it and lets go of ctx.
func Apart(ctx, base context.Context) (child context.Context, cancel context.CancelCauseFunc, end func()) {
	child, cancel = context.WithCancelCause(base)
	w := new(Watch)
	w.Follow(ctx, cancel)
	return child, cancel, func() {
		w.Stop()
		cancel(nil)
	}
}

func endless() bool { return true }
