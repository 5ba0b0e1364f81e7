package gate

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/line"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/usher"
)

// QueueOptions say who waits here for room on a worker, and for how long.
type QueueOptions = line.Options

// Wait is what a request's waiting needs. Its owner sets Again and of Item the Tenant, Class, Weight, Bytes, StartBy and WaitMax; the rest
// is filled in here. It keeps its memory until Enter returns and, when that went well, until the attempt is settled; and when it gave way,
// until it has entered again.
type Wait struct {
	usher.Guest
	// Again finds anew what is known exactly of the prompt, which may have changed while it waited; nil: nothing is. It is called with the
	// gate's lock held.
	Again func()
	// End ends the attempt for a cause, when its work has to give way; nil: it never does. It is called without a lock, by another request.
	End func(cause error)
	// Tell hears every TellEvery how the request stands, as long as it waits; nil: nobody wants to know. It is called without a lock.
	Tell      func(Standing)
	TellEvery time.Duration

	a          *Attempt
	done       chan struct{} // nil: it did not wait yet
	recallable bool          // its work may have to give way, until Keep
	frees      []func(cause error)
}

// queue is what waits before the gate. All of it is guarded by the gate's mu.
type queue struct {
	*line.Line
	timer *time.Timer // for the next whose time is up; nil: none is set
	due   time.Time   // of timer
}

// UseQueue has requests wait here that come by Enter. It is called before the first.
func (g *Gate) UseQueue(o QueueOptions) error {
	l, err := line.New(o, g.sched, func(e *line.Entry) (*sched.Decision, error) {
		w, now := e.Owner.(*Wait), g.now()
		if w.done != nil {
			g.lookAgain(now, w)
		}
		err := g.placeIn(now, w)
		return &w.a.Decision, err
	})
	if err == nil {
		l.Sight = g.sight()
		g.queue = &queue{Line: l}
		g.usher.Behind(l)
	}
	return err
}

// lookAgain works out anew what may have changed while a request waited.
func (g *Gate) lookAgain(now time.Time, w *Wait) {
	if w.Again != nil {
		w.Again()
	}
	g.usher.Route(now, &w.Guest, true)
}

// Enter is PlaceIn for a request that may wait: it returns once a worker has room, at once when one has. One whose work gave way waits again
// in its old place. The error is a *flow.Refusal, the cause of ctx's end, or one of PlaceIn's.
func (g *Gate) Enter(ctx context.Context, a *Attempt, req *sched.Request, w *Wait) error {
	g.mu.Lock()
	w.Waited, w.Err, w.recallable = 0, nil, false
	w.a, w.Request, w.Owner, w.done, w.Course = a, req, w, nil, nil
	if w.End != nil {
		w.Course = &a.course
	}
	if w.GaveWay() {
		w.done = make(chan struct{})
		g.queue.Return(g.now(), &w.Entry)
		g.pump()
		g.mu.Unlock()
		return g.await(ctx, w)
	}
	if g.queue == nil || len(req.Tried) > 0 {
		defer g.mu.Unlock()
		req.MayWait, req.Waited, req.Heavy = false, false, false // what waited once does not wait again
		now := g.now()
		g.usher.Route(now, &w.Guest, false)
		return g.placeIn(now, w)
	}
	now := g.now()
	w.Among = g.usher.Home(&w.Guest)
	waits, err := g.queue.Enter(now, &w.Entry, rand.Float64())
	switch {
	case waits:
		w.done = make(chan struct{})
		g.arm(now)
	case err == nil:
		w.placed()
	}
	g.mu.Unlock()
	if !waits {
		return err
	}
	return g.await(ctx, w)
}

// await returns when a request that waits has had its turn, or its client left.
func (g *Gate) await(ctx context.Context, w *Wait) error {
	if !g.turn(ctx, w) {
		if g.leave(w) {
			return context.Cause(ctx)
		}
		<-w.done // it had its turn at this very moment
	}
	w.free()
	return w.Err
}

// placed ties an attempt to its place in the queue.
func (w *Wait) placed() { w.a.wait, w.recallable = w, w.Recallable() }

// leave takes a request out of the queue whose client left; false: it had its turn.
func (g *Gate) leave(w *Wait) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if !g.queue.Cancel(now, &w.Item) {
		return false
	}
	w.Left(now)
	g.pump()
	return true
}

// pump gives those who wait what room there is. It is called with mu held, after whatever may have made room.
func (g *Gate) pump() {
	if g.queue == nil || g.queue.Waiting() == 0 {
		return
	}
	now := g.now()
	for e := g.queue.Next(now); e != nil; e = g.queue.Next(now) {
		w := e.Owner.(*Wait)
		if e.Err == nil {
			w.placed()
		}
		close(w.done)
	}
	g.preempt(now)
	for e := g.queue.Late(now); e != nil; e = g.queue.Late(now) {
		close(e.Owner.(*Wait).done)
	}
	g.arm(now)
}

// pumpEvery is how often those who wait are looked at when nothing happens: workers come back from an ejection, or from having said that
// they are busy, by the passing of time.
const pumpEvery = time.Second

// arm sets the timer, as long as somebody waits.
func (g *Gate) arm(now time.Time) {
	q := g.queue
	due, some := q.Due()
	if !some {
		return
	}
	if next := now.Add(pumpEvery); next.Before(due) {
		due = next
	}
	if !q.due.IsZero() && !due.Before(q.due) {
		return
	}
	q.due = due
	if q.timer == nil {
		q.timer = time.AfterFunc(due.Sub(now), g.ring)
		return
	}
	q.timer.Reset(due.Sub(now))
}

func (g *Gate) ring() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue.due = time.Time{}
	g.pump()
}

// paid settles what a request's tenant was charged, see line.Settle.
func (g *Gate) paid(a *Attempt, computed bool, l *Lesson) {
	if w := a.wait; w != nil {
		a.wait = nil
		g.queue.Settle(&w.Entry, computed, l)
	}
}

// QueueStats is the queue as it stands; false: there is none.
func (g *Gate) QueueStats() (flow.Stats, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.queue == nil {
		return flow.Stats{}, false
	}
	return g.queue.Stats(g.now()), true
}

// closeQueue ends all waits.
func (g *Gate) closeQueue() {
	if g.queue != nil && g.queue.timer != nil {
		g.queue.timer.Stop()
	}
}
