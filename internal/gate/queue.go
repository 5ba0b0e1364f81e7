package gate

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/sched"
)

// QueueOptions say who waits here for room on a worker, and for how long.
type QueueOptions struct {
	flow.Options
	Heavy flow.HeavyRule
	// Hold is how long a request waits when no worker of its model can take anything, as before the first has come: 0 is not at all.
	Hold time.Duration
}

// Wait is what a request's waiting needs. Its owner sets the exported fields and keeps its memory until Enter returns and, when that went
// well, until the attempt is settled.
type Wait struct {
	Item flow.Item // Tenant, Class, Weight, Bytes, StartBy and WaitMax; the rest is filled in here
	// Again finds anew what is known exactly of the prompt, which may have changed while it waited; nil: nothing is. It is called with the
	// gate's lock held.
	Again func()
	// Waited is how long it took until a worker had room.
	Waited time.Duration

	req  *sched.Request
	a    *Attempt
	err  error
	done chan struct{}
}

// queue is what waits before the gate. All of it is guarded by the gate's mu.
type queue struct {
	*flow.Queue
	o       QueueOptions
	prefill map[string]*flow.Spread // of each line: what is heavy there
	timer   *time.Timer             // for the next whose time is up; nil: none is set
	due     time.Time               // of timer
	expired []*flow.Item
	rough   map[string]float64 // seconds of prefill a prompt token, see heavy
}

// linesKept bounds the lines whose recent prefills are remembered.
const linesKept = 1024

// UseQueue has requests wait here that come by Enter. It is called before the first.
func (g *Gate) UseQueue(o QueueOptions) error {
	q, err := flow.New(o.Options)
	if err == nil {
		err = o.Heavy.Check()
	}
	if err != nil {
		return err
	}
	g.queue = &queue{Queue: q, o: o, prefill: map[string]*flow.Spread{}, rough: map[string]float64{}}
	return nil
}

// Enter is PlaceIn for a request that may wait: it returns once a worker has room, at once when one has. The error is a *flow.Refusal, the
// cause of ctx's end, or one of PlaceIn's.
func (g *Gate) Enter(ctx context.Context, a *Attempt, req *sched.Request, w *Wait) error {
	g.mu.Lock()
	if g.queue == nil || len(req.Tried) > 0 {
		defer g.mu.Unlock()
		req.MayWait, req.Waited, req.Heavy = false, false, false // what waited once does not wait again
		return g.place(a, req)
	}
	now := g.now()
	w.a, w.req, w.Item.Owner, w.Item.Line = a, req, w, req.Model+"\x00"+req.Only
	waits, err := g.placeOrPush(now, w)
	g.mu.Unlock()
	if !waits {
		return err
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		if g.leave(w) {
			return context.Cause(ctx)
		}
		<-w.done // it had its turn at this very moment
	}
	return w.err
}

// placeOrPush places a request that need not wait, and has others wait.
func (g *Gate) placeOrPush(now time.Time, w *Wait) (waits bool, err error) {
	q, it := g.queue, &w.Item
	price, err := g.look(now, w)
	if err == nil && !q.Waits(it) {
		w.req.MayWait, w.req.Heavy = true, it.Heavy
		err = g.place(w.a, w.req)
		if err == nil {
			g.took(w)
			q.Pass(now, it)
			return false, nil
		}
	} else if err == nil {
		if !price.known {
			if price.Cost, err = g.sched.Price(now, *w.req); err != nil {
				return false, err
			}
		}
		err = &sched.ErrNoRoom{Model: w.req.Model, Cost: price.Cost}
	}
	var full *sched.ErrNoRoom
	var nobody *sched.ErrNoWorker
	switch {
	case errors.As(err, &full):
		it.Prefill, it.Seconds = full.Cost.Prefill, full.Cost.Seconds()
	case errors.As(err, &nobody) && q.o.Hold > 0:
		if it.WaitMax == 0 || it.WaitMax > q.o.Hold {
			it.WaitMax = q.o.Hold
		}
	default:
		return false, err
	}
	if err := q.Push(now, it, rand.Float64()); err != nil {
		return false, err
	}
	w.done = make(chan struct{})
	g.arm(now)
	return true, nil
}

// look says whether a request is heavy. Most are told from that by their length alone; only for those that might be, their price is worked
// out, in which what is cached counts.
func (g *Gate) look(now time.Time, w *Wait) (p price, err error) {
	q, it := g.queue, &w.Item
	spread := q.prefill[it.Line]
	if spread == nil || !q.o.Heavy.Heavy(q.rough[it.Line]*float64(w.req.PromptTokens), spread) {
		return p, nil
	}
	if p.Cost, err = g.sched.Price(now, *w.req); err != nil {
		var nobody *sched.ErrNoWorker
		if errors.As(err, &nobody) {
			err = nil // it may be held
		}
		return p, err
	}
	p.known = true
	it.Heavy = q.o.Heavy.Heavy(p.Prefill, spread)
	return p, nil
}

type price struct {
	sched.Cost
	known bool
}

// took notes what was placed.
func (g *Gate) took(w *Wait) {
	q, cost := g.queue, w.a.Decision.Cost
	w.a.wait = w
	w.Item.Prefill, w.Item.Seconds = cost.Prefill, cost.Seconds()
	spread := q.prefill[w.Item.Line]
	if spread == nil {
		if len(q.prefill) >= linesKept {
			clear(q.prefill)
			clear(q.rough)
		}
		spread = &flow.Spread{}
		q.prefill[w.Item.Line] = spread
	}
	spread.Add(cost.Prefill)
	if uncached := w.req.PromptTokens - w.a.Decision.MatchedTokens; uncached > 0 {
		q.rough[w.Item.Line] = max(q.rough[w.Item.Line]*0.999, cost.Prefill/float64(uncached))
	}
}

// leave takes a request out of the queue whose client left; false: it had its turn.
func (g *Gate) leave(w *Wait) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.queue.Cancel(g.now(), &w.Item) {
		return false
	}
	g.pump()
	return true
}

// pump gives those who wait what room there is. It is called with mu held, after whatever may have made room.
func (g *Gate) pump() {
	if g.queue == nil || g.queue.Waiting() == 0 {
		return
	}
	now := g.now()
	for {
		it := g.queue.Pop(now, func(it *flow.Item) flow.Verdict { return g.try(now, it.Owner.(*Wait)) })
		if it == nil {
			break
		}
		w := it.Owner.(*Wait)
		w.Waited = now.Sub(it.Pushed())
		if w.err != nil {
			g.queue.Settle(it, 0)
		} else {
			g.took(w)
		}
		close(w.done)
	}
	g.expire(now)
	g.arm(now)
}

// try places a request that has waited. One that nobody can take any more has its turn too: it ends.
func (g *Gate) try(now time.Time, w *Wait) flow.Verdict {
	if w.Again != nil {
		w.Again()
	}
	w.req.MayWait, w.req.Waited, w.req.Heavy = true, true, w.Item.Heavy
	var full *sched.ErrNoRoom
	var nobody *sched.ErrNoWorker
	w.err = g.place(w.a, w.req)
	switch {
	case errors.As(w.err, &nobody) && g.queue.o.Hold > 0:
		return flow.LineFull
	case !errors.As(w.err, &full):
		return flow.Placed
	case w.Item.Heavy:
		return flow.KindFull
	}
	return flow.LineFull
}

// expire ends the waits of those whose time is up.
func (g *Gate) expire(now time.Time) {
	q := g.queue
	q.expired = q.Expire(now, q.expired[:0])
	for _, it := range q.expired {
		w := it.Owner.(*Wait)
		w.Waited, w.err = now.Sub(it.Pushed()), q.TimeoutRefusal(now, it)
		close(w.done)
	}
	clear(q.expired)
}

// pumpEvery is how often those who wait are looked at when nothing happens: workers come back from an ejection, or from having said that
// they are busy, by the passing of time.
const pumpEvery = time.Second

// arm sets the timer, as long as somebody waits.
func (g *Gate) arm(now time.Time) {
	q := g.queue
	due, some := q.NextExpiry()
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

// paid settles what a request's tenant was charged by what it took: its prefill as far as it was not cached after all, and its answer's
// length. Without a lesson it is what was expected, and nothing when it was not computed.
func (g *Gate) paid(a *Attempt, computed bool, l *Lesson) {
	w := a.wait
	if w == nil {
		return
	}
	a.wait = nil
	seconds := w.Item.Seconds
	d := &a.Decision
	switch {
	case !computed:
		seconds = 0
	case l != nil:
		if expected := w.req.PromptTokens - d.MatchedTokens; l.Reported && expected > 0 {
			seconds += w.Item.Prefill * (float64(l.PromptTokens-l.CachedTokens)/float64(expected) - 1)
		}
		if decode := w.Item.Seconds - w.Item.Prefill; d.OutputTokens > 0 {
			seconds += decode * (float64(l.Generated)/d.OutputTokens - 1)
		}
	}
	g.queue.Settle(&w.Item, max(0, seconds))
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
