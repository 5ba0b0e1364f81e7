package line

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/heavy"
	"github.com/warmpath/warmpath/internal/sched"
)

// rig is a line before workers that each take so many requests at one time.
type rig struct {
	t       *testing.T
	now     time.Time
	f       *fleet.Fleet
	s       *sched.Scheduler
	l       *Line
	workers []*fleet.Worker
	entries map[*Entry]*trip
}

// trip is one request of a rig.
type trip struct {
	name   string
	entry  Entry
	req    sched.Request
	course sched.Course
	on     *fleet.Worker
	placed int
}

func newRig(t *testing.T, workers, slots int, change func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, now: time.Unix(1e9, 0), f: fleet.New(fleet.Options{}), entries: map[*Entry]*trip{}}
	o := Options{Options: flow.DefaultOptions(), Heavy: heavy.DefaultRule()}
	if change != nil {
		change(&o)
	}
	r.s = sched.New(r.f, nil, cost.NewBook(cost.DefaultOptions()), nil, nil, sched.Options{Seed: 1})
	for range workers {
		r.worker(slots)
	}
	var err error
	if r.l, err = New(o, r.s, r.place); err != nil {
		t.Fatal(err)
	}
	r.l.Sight = Sight{
		Serves: func(e *Entry, w *fleet.Worker) bool { return e.Request.Only == "" || e.Request.Only == w.ID },
		Room: func(e *Entry) bool {
			o, err := r.s.Outlook(r.now, *e.Request)
			return err == nil && o.Room
		},
	}
	return r
}

func (r *rig) worker(slots int) *fleet.Worker {
	w, err := r.f.Add(fmt.Sprintf("w%d", len(r.workers)), fmt.Sprintf("http://w%d", len(r.workers)), r.now)
	if err != nil {
		r.t.Fatal(err)
	}
	w.SetInfo(fleet.Info{Engine: "vllm", Models: []fleet.Model{{ID: "m"}}, KVTokensMax: 100_000, At: r.now})
	w.SetInFlightMax(slots)
	r.workers = append(r.workers, w)
	return w
}

func (r *rig) place(e *Entry) (*sched.Decision, error) {
	t := r.entries[e]
	d, res, err := r.s.Place(r.now, *e.Request)
	if err != nil {
		return nil, err
	}
	t.course, t.on = sched.Follow(&d, res, r.now), d.Worker
	t.placed++
	return &d, nil
}

// trip makes a request of so many tokens, in a class; its answer is not streamed.
func (r *rig) trip(name string, class, tokens int) *trip {
	t := &trip{name: name, req: sched.Request{Model: "m", PromptTokens: tokens, Generates: true}}
	t.entry.Request, t.entry.Course, t.entry.Item.Class = &t.req, &t.course, class
	r.entries[&t.entry] = t
	return t
}

func (r *rig) enter(t *trip) (waits bool) {
	r.t.Helper()
	waits, err := r.l.Enter(r.now, &t.entry, 0.5)
	if err != nil {
		r.t.Fatalf("%s: %v", t.name, err)
	}
	return waits
}

// come has a request enter, which is to wait or not.
func (r *rig) come(name string, class, tokens int, waits bool) *trip {
	r.t.Helper()
	t := r.trip(name, class, tokens)
	if got := r.enter(t); got != waits {
		r.t.Fatalf("%s waits: %v, want %v", name, got, waits)
	}
	return t
}

func (r *rig) after(d time.Duration) { r.now = r.now.Add(d) }

// over ends a request that took what was expected of it.
func (r *rig) over(t *trip) {
	r.s.Release(&t.course, t.req.Chain, r.now, fleet.Succeeded, true)
	r.l.Settle(&t.entry, true, nil)
}

// next are the names of those who have a turn now.
func (r *rig) next() (names string) {
	for e := r.l.Next(r.now); e != nil; e = r.l.Next(r.now) {
		if names += r.entries[e].name + " "; e.Err != nil {
			names += "(" + e.Err.Error() + ") "
		}
	}
	return names
}

func (r *rig) late() (names string) {
	for e := r.l.Late(r.now); e != nil; e = r.l.Late(r.now) {
		var why *flow.Refusal
		if !errors.As(e.Err, &why) || why.Reason != flow.TimedOut {
			r.t.Errorf("%s is late for %v", r.entries[e].name, e.Err)
		}
		names += r.entries[e].name + " "
	}
	return names
}

// empty checks that nothing is left of all that was.
func (r *rig) empty() {
	r.t.Helper()
	if s := r.l.Stats(r.now); s.Waiting != 0 || s.Bytes != 0 || s.Seconds != 0 || len(r.l.running) != 0 {
		r.t.Errorf("left behind: %+v, %d running", s, len(r.l.running))
	}
	for _, w := range r.workers {
		if l := w.Load(r.now); l.InFlight != 0 || l.KVHeldTokens != 0 || l.HeavyPrefills != 0 {
			r.t.Errorf("%s still owes %+v", w.ID, l)
		}
	}
}

func TestWhoeverFindsRoomIsPlacedAtOnceAndTheOthersInTheirOrder(t *testing.T) {
	r := newRig(t, 1, 2, nil)
	a, b := r.come("a", 1, 100, false), r.come("b", 1, 100, false)
	r.come("late", 2, 100, true)
	r.after(time.Second)
	c := r.come("early", 0, 100, true)
	if got := r.next(); got != "" {
		t.Errorf("%shad a turn where there is no room", got)
	}
	r.after(time.Second)
	r.over(a)
	if got := r.next(); got != "early " || c.entry.Waited != time.Second {
		t.Errorf("%shad a turn after %v", got, c.entry.Waited)
	}
	r.over(b)
	r.over(c)
	if got := r.next(); got != "late " {
		t.Errorf("%shad a turn", got)
	}
	for _, e := range r.entries {
		r.over(e)
	}
	r.empty()
}

func TestWhoWaitsForTooLongIsLateAndHasNoTurnAnyMore(t *testing.T) {
	r := newRig(t, 1, 1, func(o *Options) { o.Classes[1].WaitMax = 5 * time.Second })
	a := r.come("a", 1, 100, false)
	b := r.come("b", 1, 100, true)
	r.after(4 * time.Second)
	r.come("c", 1, 100, true)
	if due, some := r.l.Due(); !some || due.Sub(r.now) != time.Second {
		t.Errorf("due in %v, %v; want 1 s", due.Sub(r.now), some)
	}
	r.after(time.Second)
	if got := r.late(); got != "b " || b.entry.Waited != 5*time.Second {
		t.Errorf("late: %safter %v", got, b.entry.Waited)
	}
	r.over(a)
	if got := r.next(); got != "c " {
		t.Errorf("%shad a turn", got)
	}
}

func TestARequestThatNobodyCanTakeIsRefusedOrHeld(t *testing.T) {
	r := newRig(t, 0, 0, nil)
	var nobody *sched.ErrNoWorker
	if waits, err := r.l.Enter(r.now, &r.trip("a", 1, 100).entry, 0); waits || !errors.As(err, &nobody) {
		t.Errorf("%v, %v", waits, err)
	}
	r = newRig(t, 0, 0, func(o *Options) { o.Hold = 3 * time.Second })
	r.come("held", 1, 100, true)
	r.come("gives up", 1, 100, true)
	r.after(2 * time.Second)
	r.worker(1)
	if got := r.next(); got != "held " {
		t.Errorf("%shad a turn", got)
	}
	r.after(time.Second)
	if got := r.late(); got != "gives up " {
		t.Errorf("%swas late", got)
	}
}

func TestARequestThatFitsNowhereAnyMoreHasItsTurnAndEnds(t *testing.T) {
	r := newRig(t, 1, 1, nil)
	r.come("a", 1, 100, false)
	b := r.come("b", 1, 100, true)
	r.workers[0].SetInfo(fleet.Info{Engine: "vllm", Models: []fleet.Model{{ID: "other"}}, At: r.now})
	var gone *sched.ErrNoModel
	if e := r.l.Next(r.now); e != &b.entry || !errors.As(e.Err, &gone) || r.l.Waiting() != 0 {
		t.Errorf("%v, %d wait", b.entry.Err, r.l.Waiting())
	}
}

func TestAHeavyPrefillWaitsForALaneAndLightOnesPassIt(t *testing.T) {
	r := newRig(t, 2, 50, func(o *Options) { o.Heavy = heavy.Rule{Seconds: 0.5} })
	for i := range 5 { // what a token takes is known then
		r.over(r.come(fmt.Sprint("known ", i), 1, 1000, false))
		r.after(time.Second)
	}
	first := r.come("heavy 1", 1, 60_000, false)
	second := r.come("heavy 2", 1, 60_000, true)
	if !first.entry.Item.Heavy || !second.entry.Item.Heavy {
		t.Fatal("60,000 tokens are not heavy")
	}
	light := r.come("light", 1, 100, false)
	if light.entry.Item.Heavy || light.on == first.on {
		t.Error("a light request is heavy, or went behind the heavy one")
	}
	r.s.FirstToken(&first.course, r.now)
	if got := r.next(); got != "heavy 2 " {
		t.Errorf("%shad a turn when the lane was free", got)
	}
	for _, e := range r.entries {
		r.over(e)
	}
	r.empty()
}

func TestATenantPaysForWhatItsRequestTook(t *testing.T) {
	// Of two tenants that wait, the one goes first whose last request turned out to be cheap.
	for _, c := range []struct {
		computed bool
		lesson   *sched.Lesson
		want     string
	}{
		{true, nil, "b a "}, // as expected: a has had something, b nothing
		{false, nil, "a b "},
		{true, &sched.Lesson{PromptTokens: 1000, CachedTokens: 999, Reported: true, Generated: 1}, "b a "},
	} {
		r := newRig(t, 1, 1, nil)
		run := func(name, tenant string) *trip {
			x := r.trip(name, 1, 1000)
			x.entry.Item.Tenant = tenant
			r.enter(x)
			return x
		}
		first := run("first", "z")
		mine := run("mine", "a")
		a, b := run("a", "a"), run("b", "b")
		r.over(first)
		if got := r.next(); got != "mine " {
			t.Fatalf("%shad the first turn", got)
		}
		r.s.Release(&mine.course, mine.req.Chain, r.now, fleet.Succeeded, true)
		r.l.Settle(&mine.entry, c.computed, c.lesson)
		got := r.next()
		for _, x := range []*trip{a, b} {
			if x.placed > 0 {
				r.over(x)
			}
		}
		if got += r.next(); got != c.want {
			t.Errorf("computed %v, %+v: %s, want %s", c.computed, c.lesson, got, c.want)
		}
	}
}
