package forecast

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/sched"
)

// desk is a scheduler over one worker, and a book of forecasts beside it.
type desk struct {
	*Book
	sched *sched.Scheduler
	now   time.Time
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := fleet.New(fleet.DefaultOptions())
	w, err := f.Add("w", "http://w", now)
	if err != nil {
		t.Fatal(err)
	}
	w.SetInfo(fleet.Info{Engine: "vllm", Models: []fleet.Model{{ID: "m"}}, BlockTokens: 16, KVTokensMax: 400_000, SlotsMax: 256, At: now})
	costs, outputs := cost.NewBook(cost.DefaultOptions()), cost.NewOutputs(0)
	return &desk{Book: New(costs, outputs), sched: sched.New(f, nil, costs, outputs, nil, sched.Options{Seed: 1}), now: now}
}

// run places a request and ends it, its first token after the prefill took so long, and so many tokens in all.
func (d *desk) run(t *testing.T, req sched.Request, prefill time.Duration, generated int) Forecast {
	t.Helper()
	req.Model, req.Generates = "m", true
	decision, reservation, err := d.sched.Place(d.now, req)
	if err != nil {
		t.Fatal(err)
	}
	f, course := d.Expect(d.now, &decision, &req, true), sched.Follow(&decision, reservation, d.now)
	d.now = d.now.Add(prefill)
	d.sched.FirstToken(&course, d.now)
	l := sched.Lesson{Model: "m", Tenant: req.Tenant, Streamed: req.Streamed, Whole: true, PromptTokens: req.PromptTokens, Counted: true,
		Generated: generated, FirstToken: d.now, Ended: d.now.Add(time.Second)}
	d.now = l.Ended
	d.sched.Release(&course, req.Chain, d.now, fleet.Succeeded, true)
	d.sched.Learn(&course, l)
	d.Book.Learn(&f, &l, &course)
	return f
}

func TestARequestAloneOnItsWorkerIsExpectedToTakeWhatItsPromptAndAnswerDo(t *testing.T) {
	d, k := newDesk(t), cost.Profiles["h100-8b"].Constants
	d.UsePrices(func(model string) cost.Price { return map[string]cost.Price{"m": {Input: 1e6}}[model] })
	f := d.run(t, sched.Request{PromptTokens: 5000, MaxTokens: 10, Streamed: true}, time.Second, 10)
	if f.PrefillSeconds != k.Prefill(5000, 0) || f.OutputTokens > 10 || f.OutputP90 != 10 || f.KVTokensPeak < 5000 || f.Money != 5000 || !f.Priced {
		t.Errorf("%+v", f)
	}
	d.UsePrices(func(string) cost.Price { return cost.Price{} })
	if f := d.run(t, sched.Request{PromptTokens: 5000}, time.Second, 10); f.Money != 0 || f.Priced {
		t.Errorf("money without a price: %+v", f)
	}
}

func TestWhatIsForetoldIsHeldAgainstWhatCame(t *testing.T) {
	d := newDesk(t)
	first := d.run(t, sched.Request{PromptTokens: 5000, Streamed: true}, 200*time.Millisecond, 100_000)
	d.run(t, sched.Request{PromptTokens: 5000}, 200*time.Millisecond, 1) // not streamed: when its prefill ended was not seen
	all := d.Models()
	if len(all) != 1 || all[0].Name != "m" || all[0].Requests != 2 || all[0].WithinP50 != 1 || all[0].WithinP90 != 1 || all[0].OutputTokens != 100_001 || all[0].Prefills != 1 {
		t.Fatalf("%+v", all)
	}
	if off := (0.2 - first.PrefillSeconds) / 0.2; math.Abs(all[0].PrefillOffP50-off) > 0.01*off || math.Abs(all[0].PrefillError-0.2*off) > 1e-9 {
		t.Errorf("%+v, expected %v", all[0], off)
	}
}

func TestAnswersAreLearnedOneByOneAndByWhatWasAsked(t *testing.T) {
	d := newDesk(t)
	random := rand.New(rand.NewPCG(7, 0))
	tools := sched.Request{PromptTokens: 1000, Needs: llmapi.NeedTools, Tenant: "a"}
	four := sched.Request{PromptTokens: 1000, Answers: 4, Tenant: "b"}
	for range 400 {
		d.run(t, tools, time.Second, 30+random.IntN(20))
		d.run(t, four, time.Second, 4*(180+random.IntN(40)))
	}
	a, b := d.run(t, tools, time.Second, 40), d.run(t, four, time.Second, 800)
	if a.OutputP50 < 30 || a.OutputP50 > 60 || b.OutputTokens < 4*170 || b.OutputTokens > 4*260 {
		t.Errorf("a call has %v tokens, four answers %v", a.OutputP50, b.OutputTokens)
	}
	plain := tools
	plain.Needs = 0
	if got := d.run(t, plain, time.Second, 40).OutputP50; got <= a.OutputP50 {
		t.Errorf("%v tokens without tools, as if with: %v", got, a.OutputP50)
	}
}

func TestModelsBeyondTheBoundAreToldAsOne(t *testing.T) {
	b := New(nil, nil)
	for i := range 3 * modelsMax {
		b.of(string(rune('a'+i))).Requests++
	}
	all := b.Models()
	if len(all) != modelsMax+1 || all[0].Name != "" || all[0].Requests != 2*modelsMax {
		t.Errorf("%d models, the first %+v", len(all), all[0])
	}
}

func TestAPrefillWithoutATimeIsLeftOut(t *testing.T) {
	var e Errors
	for _, real := range []float64{0, -1, math.Inf(1), math.NaN()} {
		e.Prefill(1, real)
	}
	if e.Prefills != 0 || e.PrefillError != 0 {
		t.Errorf("%+v", e)
	}
}
