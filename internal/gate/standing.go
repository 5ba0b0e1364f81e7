package gate

import (
	"context"
	"fmt"
	"time"
)

// Standing is how a request stands that waits.
type Standing struct {
	Before int // that go before it, as things are
	Wait   time.Duration
	Known  bool // Wait is
}

// String is for the one who waits: "queue position 3, about 2.1 s".
func (s Standing) String() string {
	if !s.Known {
		return fmt.Sprintf("queue position %d", s.Before+1)
	}
	return fmt.Sprintf("queue position %d, about %.1f s", s.Before+1, s.Wait.Seconds())
}

// turn returns when a request that waits has had its turn; false: its client left. Until then the client is told how it stands, where it wants
// to know, by the goroutine that waits, without a lock.
func (g *Gate) turn(ctx context.Context, w *Wait) bool {
	var tick <-chan time.Time
	if w.Tell != nil {
		t := time.NewTicker(w.TellEvery)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-w.done:
			return true
		case <-ctx.Done():
			return false
		case <-tick:
			if s, waits := g.Standing(w); waits {
				w.Tell(s)
			}
		}
	}
}

// Standing is how a request stands; false: it does not wait. The Wait is one that was given to Enter, or is about to be, and does not change meanwhile.
func (g *Gate) Standing(w *Wait) (s Standing, waits bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.queue == nil {
		return s, false
	}
	s.Before = g.queue.Position(g.now(), &w.Item)
	s.Wait, s.Known = g.queue.ExpectedWait(g.now(), &w.Item)
	return s, s.Before >= 0
}
