package gate

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/heavy"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/pools"
	"github.com/warmpath/warmpath/internal/sched"
)

// pooled is a gate whose workers are named after their pool, as short-1; all of one batch slot each.
func pooled(t *testing.T, queue bool, o pools.Options, workers ...string) *Gate {
	t.Helper()
	g := newGate(t)
	if queue {
		if err := g.UseQueue(QueueOptions{Options: flow.DefaultOptions(), Heavy: heavy.Rule{Seconds: 1e-3}}); err != nil {
			t.Fatal(err)
		}
	}
	set, problems := pools.New(o)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	g.UsePools(set)
	for _, id := range workers {
		pool, _, _ := strings.Cut(id, "-")
		if _, err := g.Add(Worker{ID: id, URL: "http://" + id, Models: []string{"m"}, Labels: []string{"pool=" + pool}}); err != nil {
			t.Fatal(err)
		}
	}
	g.View(func(v View) {
		for _, w := range v.Workers {
			w.SetInfo(fleet.Info{Engine: "vllm", Models: []fleet.Model{{ID: "m"}, {ID: "lora", Parent: "m"}}, SlotsMax: 1, KVTokensMax: 20_000, At: time.Now()})
		}
	})
	return g
}

// goes is where a request goes at once: the worker and why, or the error.
func (g *Gate) goes(t *testing.T, change func(*entrant)) (*entrant, string) {
	t.Helper()
	e := &entrant{req: request(chainOf(long('a')))}
	e.req.PromptTokens = 1000
	if change != nil {
		change(e)
	}
	if err := g.Enter(t.Context(), &e.a, &e.req, &e.w); err != nil {
		return e, err.Error()
	}
	return e, e.a.Worker.ID
}

func TestAPoolTakesShortPromptsOnItsIdleWorkersOnly(t *testing.T) {
	g := pooled(t, false, pools.Options{Pools: []pools.Pool{{Name: "long", IdleBelow: 2000}}, Default: "long"}, "long-1")
	first, at := g.goes(t, nil)
	if at != "long-1" || first.a.Pool.Name != "long" {
		t.Fatalf("%s, %+v", at, first.a.Pool)
	}
	if _, at := g.goes(t, nil); !strings.Contains(at, "idle workers only, and none is (setting idle_below)") {
		t.Errorf("the second: %s", at)
	}
	if _, at := g.goes(t, func(e *entrant) { e.req.PromptTokens = 3000 }); at != "long-1" {
		t.Errorf("a long one: %s", at)
	}
}

func TestAPoolIsFullWhenItsKVTokensAreSpokenFor(t *testing.T) {
	g := pooled(t, false, pools.Options{Pools: []pools.Pool{{Name: "a", KVTokensMax: 8000}, {Name: "b"}}, Rules: []pools.Rule{{To: []string{"a", "b"}}}}, "a-1", "a-2", "b-1")
	big := func(e *entrant) { e.req.PromptTokens, e.req.MaxTokens = 6000, 10 }
	if _, at := g.goes(t, big); !strings.HasPrefix(at, "a-") {
		t.Errorf("the first went to %s", at)
	}
	if _, at := g.goes(t, big); at != "b-1" {
		t.Errorf("the second went to %s", at)
	}
	for i, want := range []PoolStats{{Pool: "a", Workers: 2, Requests: 1}, {Pool: "b", Workers: 1, Requests: 1}, {Pool: "any"}} {
		if got := g.PoolStats()[i]; got.Pool != want.Pool || got.Workers != want.Workers || got.Requests != want.Requests {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

func TestRulesKnowAdaptersNeedsAndTheLeastUrgent(t *testing.T) {
	g := pooled(t, true, pools.Options{Pools: []pools.Pool{{Name: "lora"}, {Name: "eyes"}, {Name: "rest"}, {Name: "text"}}, Default: "text", Rules: []pools.Rule{
		{Order: 1, Adapters: []string{"lora"}, Models: []string{"m"}, To: []string{"lora"}},
		{Order: 2, Modalities: []string{"vision"}, To: []string{"eyes"}},
		{Order: 3, BestEffort: "yes", To: []string{"rest"}},
	}}, "lora-1", "eyes-1", "rest-1", "text-1", "text-2")
	for _, c := range []struct {
		want   string
		change func(*entrant)
	}{
		{"lora-1", func(e *entrant) { e.req.Model = "lora" }},
		{"eyes-1", func(e *entrant) { e.w.Needs = llmapi.NeedVision }},
		{"rest-1", func(e *entrant) { e.w.BestEffort = true }},
		{"text-", nil},
		{"rest-1", func(e *entrant) { e.req.Only = "rest-1" }}, // who must go to one worker goes there
	} {
		if _, at := g.goes(t, c.change); !strings.HasPrefix(at, c.want) {
			t.Errorf("it went to %s, want %s", at, c.want)
		}
	}
}

func TestHeavyRequestsAreSentToTheirPoolOnceTheyAreKnownToBe(t *testing.T) {
	g := pooled(t, true, pools.Options{Pools: []pools.Pool{{Name: "short"}, {Name: "long"}}, Default: "short", Heavy: "long"}, "short-1", "short-2", "long-1")
	if e, at := g.goes(t, nil); !strings.HasPrefix(at, "short-") {
		t.Fatalf("the first, of which nothing is known, went to %s", at)
	} else {
		g.over(e)
	}
	e, at := g.goes(t, func(e *entrant) { e.req.PromptTokens, e.req.Chain = 50_000, chainOf(long('q')) })
	if at != "long-1" || !strings.Contains(e.a.Pool.Why, "heavy requests go there") {
		t.Errorf("a heavy one went to %s: %+v", at, e.a.Pool)
	}
}

func TestARestartedWorkerStaysInItsPools(t *testing.T) {
	g := pooled(t, false, pools.Options{Pools: []pools.Pool{{Name: "a"}, {Name: "b"}}, Default: "a"}, "a-1", "b-1")
	var incarnation uint64
	g.View(func(v View) { incarnation = v.Workers[0].Incarnation })
	w, err := g.Restarted("a-1", incarnation)
	if err != nil {
		t.Fatal(err)
	}
	g.Describe("a-1", w.Incarnation, fleet.Info{Models: []fleet.Model{{ID: "m"}}, At: time.Now()})
	if _, at := g.goes(t, nil); at != "a-1" {
		t.Errorf("it went to %s", at)
	}
}

func TestAModelThatNobodyServesIsUnknownWhateverThePools(t *testing.T) {
	g := pooled(t, true, pools.Options{Pools: []pools.Pool{{Name: "a"}}, Default: "a"}, "b-1")
	e := &entrant{req: request(chainOf(long('a')))}
	e.req.Model = "none such"
	var unknown *sched.ErrNoModel
	if err := g.Enter(t.Context(), &e.a, &e.req, &e.w); !errors.As(err, &unknown) {
		t.Error(err)
	}
}
