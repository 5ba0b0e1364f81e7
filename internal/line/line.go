// Package line is how requests come to a worker where they may have to wait: the queue of flow before the room rule of sched. The gate
// runs it under its lock, and a replay in virtual time. It is pure: the time and chance are arguments.
//
//	l, err := line.New(options, scheduler, place)
//	waits, err := l.Enter(now, e, chance)            // placed at once, waiting, or refused
//	for e := l.Next(now); e != nil; e = l.Next(now)  // whenever there may be room: those who had their turn
//	for e := l.Late(now); e != nil; e = l.Late(now)  // and those whose time is up
//	for e, back := l.Preempt(now); e != nil; ...     // and those for whom running work gives way
//	l.Settle(e, true, &lesson)                       // what it took
package line

import (
	"errors"
	"time"

	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/heavy"
	"github.com/warmpath/warmpath/internal/sched"
)

// Options say who waits for room on a worker, and for how long.
type Options struct {
	flow.Options
	Heavy heavy.Rule
	// Hold is how long a request waits when no worker of its model can take anything, as before the first has come: 0 is not at all.
	Hold time.Duration
}

// Entry is one request on its way through. Its owner sets Owner, Request and of Item the Tenant, Class, Weight, Bytes, StartBy and WaitMax,
// and keeps it until it is settled.
type Entry struct {
	Item    flow.Item
	Request *sched.Request
	Owner   any
	// Course is where Place follows what it placed; nil: the work is not taken back, see Preempt.
	Course *sched.Course
	// Among is the pool whose prefills tell whether its own is heavy; "" all that could take the same room.
	Among string
	// Waited is how long it took until it had its turn, since it came or returned, and Err why it was not placed then.
	Waited time.Duration
	Err    error

	spread           string  // whose prefills its own is held against
	uncached, output float64 // tokens expected where it was placed
	since            time.Time
	at               int     // in Line.running, from 1 on; 0: its work is not taken back
	nth              uint64  // of those that were there
	spent            float64 // seconds of engine time, as it was judged last
	back             bool    // it was, and has not returned
}

// Place places an entry's request where the scheduler says, and reserves there. It may not call the Line.
type Place func(e *Entry) (*sched.Decision, error)

// Line is all that waits before one scheduler.
type Line struct {
	*flow.Queue
	// Route names the line of an entry, once it is known to be heavy or not; nil: all that could be served alike are one line.
	Route func(now time.Time, e *Entry) string
	// Sight lets work be taken back; without it none is.
	Sight Sight

	o       Options
	sched   *sched.Scheduler
	place   Place
	prefill map[string]*heavy.Spread // of each of flow's lines: what is heavy there
	rough   map[string]float64       // seconds of prefill a prompt token, see look
	expired []*flow.Item

	running []*Entry // whose work may be taken back
	nth     uint64   // of the latest
	runs    []flow.Run
	calm    time.Time // nobody is looked for to give way until then
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
	return &Line{Queue: q, o: o, sched: s, place: place, prefill: map[string]*heavy.Spread{}, rough: map[string]float64{}}, nil
}

// Reload takes other options from now on, see flow.Queue.Reload; on an error the old ones stay.
func (l *Line) Reload(o Options) error {
	if err := o.Heavy.Check(); err != nil {
		return err
	}
	if err := l.Queue.Reload(o.Options); err != nil {
		return err
	}
	l.o = o
	return nil
}

// Enter places a request that need not wait, and has others wait. chance in [0, 1) decides whether it is shed. The error is a *flow.Refusal or
// one of Place's.
func (l *Line) Enter(now time.Time, e *Entry, chance float64) (waits bool, err error) {
	it := &e.Item
	it.Owner, e.since, e.at, e.back = e, now, 0, false
	cost, known, err := l.look(now, e)
	l.Came(now, it)
	if err == nil && !l.Waits(it) {
		var d *sched.Decision
		l.stand(now, e, false)
		if d, err = l.place(e); err == nil {
			l.took(e, d)
			l.Pass(now, it)
			l.run(e)
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
		spread = &heavy.Spread{}
		l.prefill[e.spread] = spread
	}
	spread.Add(d.Cost.Prefill)
	if e.uncached > 0 {
		l.rough[e.spread] = max(l.rough[e.spread]*0.999, d.Cost.Prefill/e.uncached)
	}
}

// Next is who had their turn: placed, or with an Err because nobody can take it any more; nil when there is no room for anybody.
func (l *Line) Next(now time.Time) *Entry {
	it := l.Pop(now, func(it *flow.Item) flow.Verdict { return l.try(now, it.Owner.(*Entry)) })
	if it == nil {
		return nil
	}
	e := it.Owner.(*Entry)
	e.Waited = now.Sub(e.since)
	if e.Err != nil {
		l.Queue.Settle(it, 0)
		return e
	}
	l.run(e)
	return e
}

// stand tells a request's scheduler how it stands to others.
func (l *Line) stand(now time.Time, e *Entry, waited bool) {
	it, r := &e.Item, e.Request
	r.MayWait, r.Waited, r.Heavy, r.Yields, r.AtOnce = true, waited, it.Heavy, l.Yields(now, it), len(l.running) > 0 && l.Preempts(it)
	r.Overdue = waited && now.Sub(it.Pushed()).Seconds() > it.Prefill
}

// try places a request that has waited. One that nobody can take any more has its turn too: it ends.
func (l *Line) try(now time.Time, e *Entry) flow.Verdict {
	l.stand(now, e, true)
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
	case e.Request.Yields:
		return flow.ClassFull
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
	e.Waited, e.Err = now.Sub(e.since), l.TimeoutRefusal(now, it)
	return e
}

// Settle corrects what a placed request's tenant was charged by what it took: its prefill as far as it was not cached after all, and its
// answer's length. Without a lesson it is what was expected, and nothing when it was not computed.
func (l *Line) Settle(e *Entry, computed bool, lesson *sched.Lesson) {
	l.still(e)
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
