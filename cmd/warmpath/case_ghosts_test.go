package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

// ghostsOf waits until so many requests were placed again, and returns the rules by name.
func (rt *testRouter) ghostsOf(requests float64) map[string]ghostFigures {
	rt.t.Helper()
	of := map[string]ghostFigures{}
	eventually(rt.t, "ghosts to place the requests", func() bool {
		for _, s := range rt.state().Ghosts {
			of[s.Rule] = s.Total
		}
		return of["fleet"].Requests >= requests
	})
	return of
}

func TestTheRouterTellsWhatOtherRulesWouldHaveComputed(t *testing.T) {
	t.Parallel()
	answer := func(c *call) {
		c.json(http.StatusOK, `{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":500,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":450}}}`)
	}
	rt := start(t, nil, newWorker(t, answer, "m"), newWorker(t, answer, "m"), newWorker(t, answer, "m"))
	rt.ghosts.setWorkers(rt.ghostWorkers())
	long := strings.Repeat("a beginning that they all share ", 62)
	for i := range 30 {
		if r := rt.post("/v1/chat/completions", chat(fmt.Sprintf("%s%02d", long, i), false)); r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	of := rt.ghostsOf(30)
	fleet, turn, reachable := of["fleet"], of["round-robin"], of["reachable"]
	if fleet.PromptTokens != 30*500 || *fleet.ReportedTokens != 30*450 || *fleet.ReportedPromptTokens != 30*500 || !near(fleet.HitRate, 0.9) || *fleet.PredictedTokens <= 0 {
		t.Errorf("the fleet: %+v", fleet)
	}
	if turn.PrefillTokens < 3*400 || turn.PrefillTokens > 3*500+27*100 {
		t.Errorf("round-robin computes a beginning of nearly 500 tokens on each of three workers: %+v", turn)
	}
	if reachable.PrefillTokens >= turn.PrefillTokens || reachable.HitRate <= of["random"].HitRate || *reachable.SavedTokens >= *turn.SavedTokens {
		t.Errorf("one cache for all: %+v\nround-robin: %+v", reachable, turn)
	}
	if got, want := *turn.SavedTokens, turn.PrefillTokens-fleet.PrefillTokens; got != want || *turn.SavedWorkerHours == 0 {
		t.Errorf("saved %v tokens, %v worker-hours; want %v", got, *turn.SavedWorkerHours, want)
	}
	if about := rt.state().GhostsAbout; about.SampleRate != 1 || about.BytesMax != 32<<20 || len(about.Assumes) < 5 || about.Dropped+about.Unplaced != 0 {
		t.Errorf("%+v", about)
	}
	if got := rt.metric("warmpath_ghost_prefill_tokens_total", `rule="round-robin"`); got != turn.PrefillTokens {
		t.Errorf("the metric says %v, /state %v", got, turn.PrefillTokens)
	}
	if got := rt.metric("warmpath_ghost_requests_total"); got != 30 {
		t.Errorf("%v requests", got)
	}
}

func TestRequestsThatNoWorkerComputedArePlacedByNoGhost(t *testing.T) {
	t.Parallel()
	fails := true
	rt := start(t, nil, newWorker(t, func(c *call) {
		if fails {
			c.json(http.StatusBadRequest, `{"error":{"message":"no"}}`)
			return
		}
		c.json(http.StatusOK, `{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":50,"completion_tokens":3}}`)
	}, "m"))
	rt.ghosts.setWorkers(rt.ghostWorkers())
	for range 3 {
		rt.post("/v1/chat/completions", chat("hello, is anybody there", false))
	}
	rt.post("/v1/chat/completions", `{"model":"nobody's","messages":[{"role":"user","content":"hello"}]}`)
	fails = false
	rt.post("/v1/chat/completions", chat("hello, is anybody there", false))
	if of := rt.ghostsOf(1); of["fleet"].Requests != 1 || of["fleet"].PromptTokens != 50 || *of["fleet"].ReportedPromptTokens != 0 {
		t.Errorf("%+v", of["fleet"])
	}
}

func TestWithoutGhostsNothingIsSaidOfThem(t *testing.T) {
	t.Parallel()
	rt := start(t, func(c *config.Config) { c.Ghosts.Enabled = false }, newWorker(t, nil, "m"))
	rt.post("/v1/chat/completions", chat("hello", false))
	if s := rt.state(); s.Ghosts != nil || s.GhostsAbout != nil {
		t.Errorf("%+v", s.Ghosts)
	}
	if r := read(rt.http.Get(rt.AdminURL() + "/metrics")); strings.Contains(r.body, "warmpath_ghost") {
		t.Error("there are metrics of ghosts")
	}
}

func TestGhostsTakeNoMoreTimeThanTheyMay(t *testing.T) {
	g := newGhosts(config.Default().Ghosts)
	g.judge(0.029e9, 1e9)
	if g.all.Rate() != 1 {
		t.Error("a share that they may have was too much")
	}
	g.judge(0.003e9, 0)
	if g.all.Rate() != 1 {
		t.Error("a router with little to do does not have them at all")
	}
	if g.judge(0.04e9, 1e9); g.all.Rate() != 0.5 {
		t.Errorf("they took a twenty-fifth of the router's time, and look at %v of the blocks", g.all.Rate())
	}
	if g.judge(0.3e9, 1e9); g.all.Rate() != 1.0/32 {
		t.Errorf("they took ten times what they may, and look at %v of the blocks", g.all.Rate())
	}
}
