package gate

import (
	"errors"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/line"
)

// ErrGaveWay is the cause of an attempt's end whose work gave way to a more urgent request: its own is to Enter again.
var ErrGaveWay = errors.New("the work gave way to a more urgent request")

// sight is what the queue asks before work gives way. It is called with mu held.
func (g *Gate) sight() line.Sight {
	return line.Sight{
		Serves: func(e *line.Entry, on *fleet.Worker) bool {
			return g.usher.Serves(g.now(), &e.Owner.(*Wait).Guest, on)
		},
		Room: func(e *line.Entry) bool {
			w, now := e.Owner.(*Wait), g.now()
			g.lookAgain(now, w)
			o, _, err := g.usher.Foresee(now, &w.Guest)
			return err == nil && o.Room
		},
	}
}

// preemptsAtOnce is for how many work gives way while the lock is held once: to choose among 2,000 requests takes half a millisecond. Those
// who are left have their turn at once, behind whoever waits for the lock.
const preemptsAtOnce = 4

// preempt has running work give way to those who have waited for too long. Each of these is placed and ends what gave way to it, outside of
// the lock and before it goes to the worker itself. It is called with mu held.
func (g *Gate) preempt(now time.Time) {
	for range preemptsAtOnce {
		e, back := g.queue.Preempt(now)
		if e == nil {
			return
		}
		w := e.Owner.(*Wait)
		for _, b := range back {
			gone := b.Owner.(*Wait)
			gone.a.wait = nil // nothing is left to be settled
			w.frees = append(w.frees, gone.End)
		}
		w.placed()
		close(w.done)
	}
}

// free ends what gave way to a request.
func (w *Wait) free() {
	for _, end := range w.frees {
		end(ErrGaveWay)
	}
	w.frees = nil
}

// Keep says that the first byte of an answer goes out, or that the attempt is over: its work does not give way from here on. false: it did
// before, and the request is to Enter again.
func (g *Gate) Keep(w *Wait) bool {
	if w.recallable {
		w.recallable = false
		g.mu.Lock()
		defer g.mu.Unlock()
		g.queue.Keep(&w.Entry)
	}
	return !w.GaveWay()
}

// MayGiveWay says whether a placed request's work may have to give way, until Keep.
func (w *Wait) MayGiveWay() bool { return w.recallable }
