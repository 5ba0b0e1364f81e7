// Package line is how requests come to a worker where they may have to wait: the queue of flow before the room rule of sched. The gate
// runs it under its lock, and a replay in virtual time. It is pure: the time and chance are arguments.
//
//	l, err := line.New(options, scheduler, place)
//	waits, err := l.Enter(now, e, chance)            // placed at once, waiting, or refused
//	for e := l.Next(now); e != nil; e = l.Next(now)  // whenever there may be room: those who had their turn
//	for e := l.Late(now); e != nil; e = l.Late(now)  // and those whose time is up
//	l.Settle(e, true, &lesson)                       // what it took
package line

import (
	"errors"
	"time"

	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/sched"
)

// Options say who waits for room on a worker, and for how long.
type Options struct {
	flow.Options
	Heavy flow.HeavyRule
	// Hold is how long a request waits when no worker of its model can take anything, as before the first has come: 0 is not at all.
	Hold time.Duration
}

// Entry is one request on its way through. Its owner sets Owner, Request and of Item the Tenant, Class, Weight, Bytes, StartBy and WaitMax,
// and keeps it until it is settled.
type Entry struct {
	Item    flow.Item
	Request *sched.Request
	Owner   any
	// Among is the pool whose prefills tell whether its own is heavy; "" all that could take the same room.
	Among string
	// Waited is how long it took until it had its turn, and Err why it was not placed then.
	Waited time.Duration
	Err    error

	spread           string  // whose prefills its own is held against
	uncached, output float64 // tokens expected where it was placed
}

// Place places an entry's request where the scheduler says, and reserves there. It may not call the Line.
type Place func(e *Entry) (*sched.Decision, error)

// Line is all that waits before one scheduler.
type Line struct {
	*flow.Queue
	// Route names the line of an entry, once it is known to be heavy or not; nil: all that could be served alike are one line.
	Route func(now time.Time, e *Entry) string

	o       Options
	sched   *sched.Scheduler
	place   Place
	prefill map[string]*flow.Spread // of each of flow's lines: what is heavy there
	rough   map[string]float64      // seconds of prefill a prompt token, see look
	expired []*flow.Item
}

// linesKept bounds the lines whose recent prefills are remembered.
const linesKept = 1024

// New makes an empty line.
func New(o Options, s *sched.Scheduler, place Place) (*Line, error) {
	q, err := flow.New(o.Options)
	if err == nil {
		err = o.Heavy.Check()
	}
	if err != nil {
		return nil, err
	}
	return &Line{Queue: q, o: o, sched: s, place: place, prefill: map[string]*flow.Spread{}, rough: map[string]float64{}}, nil
}

// Enter places a request that need not wait, and has others wait. chance in [0, 1) decides whether it is shed. The error is a *flow.Refusal or
// one of Place's.
func (l *Line) Enter(now time.Time, e *Entry, chance float64) (waits bool, err error) {
	it := &e.Item
	it.Owner = e
	cost, known, err := l.look(now, e)
	if err == nil && !l.Waits(it) {
		var d *sched.Decision
		e.Request.MayWait, e.Request.Heavy = true, it.Heavy
		if d, err = l.place(e); err == nil {
			l.took(e, d)
			l.Pass(now, it)
			return false, nil
		}
	} else if err == nil {
		if !known {
			cost, err = l.sched.Price(now, *e.Request)
		}
		if err == nil {
			err = &sched.ErrNoRoom{Model: e.Request.Model, Cost: cost}
		}
	}
	if !l.worthIt(it, err) {
		return false, err
	}
	if err := l.Push(now, it, chance); err != nil {
		return false, err
	}
	return true, nil
}

// worthIt says whether waiting may mend why a request was not placed, and tells the item what it then needs to know.
func (l *Line) worthIt(it *flow.Item, err error) bool {
	var full *sched.ErrNoRoom
	var nobody *sched.ErrNoWorker
	switch {
	case errors.As(err, &full):
		it.Prefill, it.Seconds = full.Cost.Prefill, full.Cost.Seconds()
		return true
	case errors.As(err, &nobody) && l.o.Hold > 0:
		if it.WaitMax == 0 || it.WaitMax > l.o.Hold {
			it.WaitMax = l.o.Hold
		}
		return true
	}
	return false
}

// look says whether a request is heavy, and which line is its own. Most are told from that by their length alone; only for those that might be, their price is worked
// out, in which what is cached counts.
func (l *Line) look(now time.Time, e *Entry) (cost sched.Cost, known bool, err error) {
	it := &e.Item
	defer func() {
		if it.Line = e.spread; l.Route != nil {
			it.Line = l.Route(now, e)
		}
	}()
	e.spread = Name(e.Request.Model, e.Request.Only, e.Among)
	spread := l.prefill[e.spread]
	if spread == nil || !l.o.Heavy.Heavy(l.rough[e.spread]*float64(e.Request.PromptTokens), spread) {
		return cost, false, nil
	}
	if cost, err = l.sched.Price(now, *e.Request); err != nil {
		var nobody *sched.ErrNoWorker
		if errors.As(err, &nobody) {
			err = nil // it may be held
		}
		return cost, false, err
	}
	it.Heavy = l.o.Heavy.Heavy(cost.Prefill, spread)
	return cost, true, nil
}

// took notes what was placed.
func (l *Line) took(e *Entry, d *sched.Decision) {
	it := &e.Item
	it.Prefill, it.Seconds = d.Cost.Prefill, d.Cost.Seconds()
	e.uncached, e.output = float64(e.Request.PromptTokens-d.MatchedTokens), d.OutputTokens
	spread := l.prefill[e.spread]
	if spread == nil {
		if len(l.prefill) >= linesKept {
			clear(l.prefill)
			clear(l.rough)
		}
		spread = &flow.Spread{}
		l.prefill[e.spread] = spread
	}
	spread.Add(d.Cost.Prefill)
	if e.uncached > 0 {
		l.rough[e.spread] = max(l.rough[e.spread]*0.999, d.Cost.Prefill/e.uncached)
	}
}

// Next is who had their turn: placed, or with an Err because nobody can take it any more; nil when there is no room for anybody.
func (l *Line) Next(now time.Time) *Entry {
	it := l.Pop(now, func(it *flow.Item) flow.Verdict { return l.try(it.Owner.(*Entry)) })
	if it == nil {
		return nil
	}
	e := it.Owner.(*Entry)
	e.Waited = now.Sub(it.Pushed())
	if e.Err != nil {
		l.Queue.Settle(it, 0)
	}
	return e
}

// try places a request that has waited. One that nobody can take any more has its turn too: it ends.
func (l *Line) try(e *Entry) flow.Verdict {
	e.Request.MayWait, e.Request.Waited, e.Request.Heavy = true, true, e.Item.Heavy
	var full *sched.ErrNoRoom
	var nobody *sched.ErrNoWorker
	d, err := l.place(e)
	e.Err = err
	switch {
	case err == nil:
		l.took(e, d)
		return flow.Placed
	case errors.As(err, &nobody) && l.o.Hold > 0:
		return flow.LineFull
	case !errors.As(err, &full):
		return flow.Placed
	case e.Item.Heavy:
		return flow.KindFull
	}
	return flow.LineFull
}

// Late is who has waited for as long as it may, with why in Err; nil: nobody.
func (l *Line) Late(now time.Time) *Entry {
	if len(l.expired) == 0 {
		if l.expired = l.Expire(now, l.expired[:0]); len(l.expired) == 0 {
			return nil
		}
	}
	it := l.expired[0]
	l.expired[0] = nil
	l.expired = l.expired[1:]
	e := it.Owner.(*Entry)
	e.Waited, e.Err = now.Sub(it.Pushed()), l.TimeoutRefusal(now, it)
	return e
}

// Settle corrects what a placed request's tenant was charged by what it took: its prefill as far as it was not cached after all, and its
// answer's length. Without a lesson it is what was expected, and nothing when it was not computed.
func (l *Line) Settle(e *Entry, computed bool, lesson *sched.Lesson) {
	seconds := e.Item.Seconds
	switch {
	case !computed:
		seconds = 0
	case lesson != nil:
		if lesson.Reported && e.uncached > 0 {
			seconds += e.Item.Prefill * (float64(lesson.PromptTokens-lesson.CachedTokens)/e.uncached - 1)
		}
		if e.output > 0 {
			seconds += (e.Item.Seconds - e.Item.Prefill) * (float64(lesson.Generated)/e.output - 1)
		}
	}
	l.Queue.Settle(&e.Item, max(0, seconds))
}
