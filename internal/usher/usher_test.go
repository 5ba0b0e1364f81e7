package usher

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/line"
	"github.com/warmpath/warmpath/internal/pools"
	"github.com/warmpath/warmpath/internal/sched"
)

var now = time.Unix(1_700_000_000, 0)

// hall is an usher before a scheduler; workers are named after their pool, as short-1.
type hall struct {
	*Usher
	t     *testing.T
	fleet *fleet.Fleet
	sched *sched.Scheduler
	book  *cost.Book
}

func hallOf(t *testing.T, o pools.Options, workers ...string) *hall {
	t.Helper()
	h := &hall{t: t, fleet: fleet.New(fleet.DefaultOptions()), book: cost.NewBook(cost.DefaultOptions())}
	outputs := cost.NewOutputs(0)
	h.sched = sched.New(h.fleet, nil, h.book, outputs, cost.NewRatio(), sched.Options{Seed: 1})
	h.Usher = New(h.fleet, h.sched, outputs)
	if len(o.Pools) > 0 {
		set, wrong := pools.New(o)
		if len(wrong) > 0 {
			t.Fatal(wrong)
		}
		h.Use(set)
	}
	for _, id := range workers {
		w, err := h.fleet.Add(id, "http://"+id, now)
		if err != nil {
			t.Fatal(err)
		}
		w.SetInfo(fleet.Info{Engine: "vllm", Models: []fleet.Model{{ID: "m", ContextMax: 32_768}}, SlotsMax: 8, KVTokensMax: 400_000, At: now})
		pool, _, _ := strings.Cut(id, "-")
		h.Admit(w, []string{"pool=" + pool})
	}
	return h
}

func asking(tokens int) *Guest {
	return &Guest{Entry: line.Entry{Request: &sched.Request{Model: "m", PromptTokens: tokens, Streamed: true, Generates: true}}}
}

// foreseen and placed tell where a request goes: "worker in pool", or the error.
func (h *hall) foreseen(g *Guest) string {
	h.Route(now, g, false)
	o, to, err := h.Foresee(now, g)
	if err != nil {
		return err.Error()
	}
	return o.Decision.Worker.ID + " in " + to.Name
}

func (h *hall) placed(g *Guest) string {
	h.Route(now, g, false)
	at := ""
	to, err := h.Place(now, g, func() error {
		d, _, err := h.sched.Place(now, *g.Request)
		if err == nil {
			at = d.Worker.ID
		}
		return err
	})
	if err != nil {
		return err.Error()
	}
	return at + " in " + to.Name
}

func TestWithoutPoolsEveryWorkerMayTakeEveryRequest(t *testing.T) {
	h := hallOf(t, pools.Options{}, "a-1")
	g := asking(1000)
	if got := h.placed(g); got != "a-1 in " || h.Home(g) != "" || h.LineOf(g) != line.Name("m", "", "") || h.Stats(now) != nil || h.PoolsOf(h.fleet.Lookup("a-1")) != nil {
		t.Errorf("%q, home %q, line %q", got, h.Home(g), h.LineOf(g))
	}
}

func TestWhatIsForeseenIsWhatHappens(t *testing.T) {
	o := pools.Options{
		Pools:   []pools.Pool{{Name: "short", Overflow: pools.Overflow{To: "long", Wait: 100 * time.Millisecond}}, {Name: "long", IdleBelow: 16_384}},
		Rules:   []pools.Rule{{Prompt: pools.Range{Min: 16_384}, To: []string{"long"}}},
		Default: "short",
	}
	h := hallOf(t, o, "short-1", "long-1")
	seen := map[string]int{}
	for i := range 40 {
		tokens := 3000
		if i%7 == 6 {
			tokens = 20_000
		}
		want := h.foreseen(asking(tokens))
		if got := h.placed(asking(tokens)); got != want {
			t.Fatalf("request %d of %d tokens was to go to %s and went to %s", i, tokens, want, got)
		}
		seen[want]++
	}
	stats := h.Stats(now)
	if stats[1].Spilled == 0 || stats[0].Requests+stats[1].Requests != 40 || len(seen) != 2 {
		t.Errorf("%v: %+v", seen, stats)
	}
}

func TestTheNextInstanceOfAWorkerIsInThePoolsOfTheOneBefore(t *testing.T) {
	h := hallOf(t, pools.Options{Pools: []pools.Pool{{Name: "a"}, {Name: "b"}}, Default: "a"}, "a-1", "b-1")
	old := h.fleet.Lookup("a-1")
	next, err := h.fleet.Restart("a-1", now)
	if err != nil {
		t.Fatal(err)
	}
	h.Follow(old, next)
	h.Forget(old)
	if got := fmt.Sprint(h.PoolsOf(next), h.PoolsOf(old)); got != "[a] []" {
		t.Error(got)
	}
}

func TestAProspectIsOfTheWorkersThatAreUpAndServeTheModel(t *testing.T) {
	h := hallOf(t, pools.Options{}, "a-1", "a-2")
	constants := func(w *fleet.Worker) cost.Constants { return h.book.Of(w).Constants() }
	p := h.Prospect(now, asking(1000), constants)
	if !p.Up || p.Overloaded || p.ContextMax != 32_768 || p.WaitSeconds != 0 || p.There.Batch != 0 {
		t.Errorf("%+v", p)
	}
	h.placed(asking(30_000))
	h.placed(asking(30_000))
	late := asking(1000)
	late.Item.StartBy = now.Add(time.Millisecond)
	if p := h.Prospect(now, late, constants); !p.Overloaded || p.WaitSeconds < 0.1 || p.There.Batch != 1 {
		t.Errorf("behind a prompt of 30,000 tokens on each: %+v", p)
	}
	other := asking(1000)
	other.Request.Model = "none such"
	if p := h.Prospect(now, other, constants); p.Up {
		t.Errorf("%+v", p)
	}
}

func TestAProspectKnowsTheQueueAlsoWithoutPools(t *testing.T) {
	h := hallOf(t, pools.Options{}, "a-1")
	o := line.Options{Options: flow.DefaultOptions()}
	o.Heavy.Seconds = 10
	room := 0
	l, err := line.New(o, h.sched, func(e *line.Entry) (*sched.Decision, error) {
		if room == 0 {
			return nil, &sched.ErrNoRoom{Model: "m"}
		}
		room--
		d, _, err := h.sched.Place(now, *e.Request)
		return &d, err
	})
	if err != nil {
		t.Fatal(err)
	}
	h.Behind(l)
	wait := func() float64 {
		return h.Prospect(now.Add(11*time.Second), asking(1000), func(w *fleet.Worker) cost.Constants { return h.book.Of(w).Constants() }).WaitSeconds
	}
	for range 200 {
		g := asking(1000)
		if waits, err := l.Enter(now, &g.Entry, 0.999); err != nil || !waits {
			t.Fatal(waits, err)
		}
	}
	for i := range 10 { // one a second has its turn
		room = 1
		l.Next(now.Add(time.Duration(i+1) * time.Second))
	}
	if got := wait(); got < 100 || got > 400 { // 190 are before it
		t.Errorf("a wait of %v s behind 190 requests of which one a second has its turn", got)
	}
}

func TestAPoolWithoutAWorkerThatIsUpIsClosedAndSaysSo(t *testing.T) {
	h := hallOf(t, pools.Options{Pools: []pools.Pool{{Name: "a"}, {Name: "b"}}, Default: "a"}, "a-1", "b-1")
	if err := h.fleet.Drain("a-1"); err != nil {
		t.Fatal(err)
	}
	g := asking(1000)
	h.Route(now, g, false)
	_, err := h.Place(now, g, func() error { return errors.New("nobody should be asked") })
	var shut *sched.ErrNoWorker
	if !errors.As(err, &shut) || !strings.Contains(err.Error(), "pool a: no rule matched, closed: no worker there is up and serves the model") {
		t.Error(err)
	}
}
