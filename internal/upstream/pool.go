package upstream

import (
	"sync"
	"time"
)

// pool keeps idle connections, last in first out: the warmest is used again, the rest may run out of time.
type pool struct {
	max int

	mu     sync.Mutex
	idle   []*conn // by time of return, so expiry is nearly in order
	reaper *time.Timer
	closed bool
}

// get returns an idle connection that still looks alive, or nil.
func (p *pool) get(now time.Time) *conn {
	for {
		p.mu.Lock()
		n := len(p.idle)
		if n == 0 {
			p.mu.Unlock()
			return nil
		}
		c := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		if c.expires.After(now) && !c.Ended() && c.Quiet() {
			return c
		}
		c.Close()
	}
}

// put takes a connection back, or closes it when there is no room, in the pool or in the process.
func (p *pool) put(c *conn) {
	now := time.Now()
	p.mu.Lock()
	if p.closed || len(p.idle) >= p.max || c.Crowded() {
		p.mu.Unlock()
		c.Close()
		return
	}
	c.expires = now.Add(c.lifetime)
	p.idle = append(p.idle, c)
	if len(p.idle) == 1 {
		// One timer for all: without it, connections that the worker closes after a burst would hold descriptors for ever.
		if p.reaper == nil {
			p.reaper = time.AfterFunc(c.lifetime, p.reap)
		} else {
			p.reaper.Reset(c.lifetime)
		}
	}
	p.mu.Unlock()
}

// reap closes what is too old, and comes back for the rest.
func (p *pool) reap() {
	now := time.Now()
	var old []*conn
	p.mu.Lock()
	kept, next := p.idle[:0], time.Duration(0)
	for _, c := range p.idle {
		left := c.expires.Sub(now)
		if left <= 0 {
			old = append(old, c)
			continue
		}
		kept = append(kept, c)
		if next == 0 || left < next {
			next = left
		}
	}
	clear(p.idle[len(kept):])
	p.idle = kept
	if len(kept) > 0 && !p.closed {
		p.reaper.Reset(next)
	}
	p.mu.Unlock()
	for _, c := range old {
		c.Close()
	}
}

// close closes all idle connections, and from now on every one that comes back.
func (p *pool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	if p.reaper != nil {
		p.reaper.Stop()
	}
	p.mu.Unlock()
	for _, c := range idle {
		c.Close()
	}
}
