package gate

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/heavy"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/sched"
)

// queued is a gate with a queue before workers of one batch slot each.
func queued(t *testing.T, change func(*QueueOptions), workers ...string) *Gate {
	t.Helper()
	g := newGate(t, workers...)
	o := QueueOptions{Options: flow.DefaultOptions(), Heavy: heavy.DefaultRule()}
	if change != nil {
		change(&o)
	}
	if err := g.UseQueue(o); err != nil {
		t.Fatal(err)
	}
	g.View(func(v View) {
		for _, w := range v.Workers {
			one(w)
		}
	})
	return g
}

// one has a worker run one request at a time; one more may wait in it.
func one(w *fleet.Worker) {
	w.SetInfo(fleet.Info{Engine: "vllm", Models: []fleet.Model{{ID: "m"}}, SlotsMax: 1, At: time.Now()})
}

// entrant is a request on its way through Enter.
type entrant struct {
	a    Attempt
	req  sched.Request
	w    Wait
	done chan error
}

func (g *Gate) enter(ctx context.Context, class int) *entrant {
	e := &entrant{req: request(chainOf(long('a'))), done: make(chan error, 1)}
	e.w.Item.Class = class
	go func() { e.done <- g.Enter(ctx, &e.a, &e.req, &e.w) }()
	return e
}

// inside waits until an entrant was placed or waits in the queue.
func (g *Gate) inside(t *testing.T, waiting int) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); ; {
		if s, _ := g.QueueStats(); s.Waiting == waiting {
			return
		}
		if time.Now().After(limit) {
			s, _ := g.QueueStats()
			t.Fatalf("%d wait, want %d", s.Waiting, waiting)
		}
	}
}

func (e *entrant) placed(t *testing.T) {
	t.Helper()
	select {
	case err := <-e.done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it still waits")
	}
}

// full has all that there is room for enter: one runs on the worker, one is next in its engine.
func (g *Gate) full(t *testing.T) (inside []*entrant) {
	t.Helper()
	for range 2 {
		e := g.enter(t.Context(), 1)
		e.placed(t)
		inside = append(inside, e)
	}
	return inside
}

func (g *Gate) over(e *entrant) { g.Release(&e.a, prefix.Chain{}, fleet.Succeeded, true) }

func TestWhoFindsNoRoomWaitsAndGoesWhenThereIsSome(t *testing.T) {
	g := queued(t, nil, "a")
	first := g.full(t)
	for _, e := range first {
		g.FirstToken(&e.a, time.Now())
	}
	late := g.enter(t.Context(), 1)
	g.inside(t, 1)
	urgent := g.enter(t.Context(), 0)
	g.inside(t, 2)
	g.over(first[0])
	urgent.placed(t)
	g.inside(t, 1)
	if urgent.w.Waited <= 0 {
		t.Errorf("it waited %v", urgent.w.Waited)
	}
	g.over(first[1])
	g.inside(t, 1) // what is next in the engine is left to urgent ones
	g.over(urgent)
	late.placed(t)
	g.over(late)
	if s, _ := g.QueueStats(); s.Waiting != 0 || s.Bytes != 0 || s.Seconds != 0 || s.Tenants != 0 {
		t.Errorf("left behind: %+v", s)
	}
}

func TestWhoLeavesTheQueueIsNeverPlaced(t *testing.T) {
	g := queued(t, nil, "a")
	inside := g.full(t)
	ctx, leave := context.WithCancelCause(t.Context())
	e := g.enter(ctx, 1)
	g.inside(t, 1)
	gone := errors.New("gone")
	leave(gone)
	if err := <-e.done; err != gone {
		t.Errorf("%v", err)
	}
	for _, e := range inside {
		g.over(e)
	}
	if n := g.InFlight("a"); n != 0 {
		t.Errorf("%d in flight", n)
	}
}

func TestARequestWaitsNoLongerThanItMay(t *testing.T) {
	g := queued(t, func(o *QueueOptions) { o.Classes[1].WaitMax = 30 * time.Millisecond }, "a")
	g.full(t)
	var r *flow.Refusal
	if err := <-g.enter(t.Context(), 1).done; !errors.As(err, &r) || r.Reason != flow.TimedOut {
		t.Errorf("%v", err)
	}
}

func TestAWorkerThatComesServesThoseWhoWait(t *testing.T) {
	g := queued(t, func(o *QueueOptions) { o.Hold = 10 * time.Second })
	e := g.enter(t.Context(), 1)
	g.inside(t, 1)
	if _, err := g.Add(Worker{ID: "a", URL: "http://a", Models: []string{"m"}}); err != nil {
		t.Fatal(err)
	}
	e.placed(t)
	if e.a.Decision.Worker.ID != "a" {
		t.Errorf("%+v", e.a.Decision)
	}
}

func TestWithoutHoldNobodyWaitsForAWorkerThatIsNotThere(t *testing.T) {
	g := queued(t, nil)
	var nobody *sched.ErrNoWorker
	if err := <-g.enter(t.Context(), 1).done; !errors.As(err, &nobody) {
		t.Errorf("%v", err)
	}
}

func TestWhatIsKnownOfAPromptIsFoundAgainWhenItHasWaited(t *testing.T) {
	g := queued(t, nil, "a")
	inside := g.full(t)
	e := &entrant{req: request(chainOf(long('b'))), done: make(chan error, 1)}
	again := 0
	e.w.Again = func() { again++ }
	go func() { e.done <- g.Enter(t.Context(), &e.a, &e.req, &e.w) }()
	g.inside(t, 1)
	for _, e := range inside {
		g.over(e)
	}
	e.placed(t)
	if again == 0 {
		t.Error("it was placed by what was known when it came")
	}
}
