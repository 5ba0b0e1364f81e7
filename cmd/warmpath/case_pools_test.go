package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/pools"
)

// longText is a prompt of some thousands of tokens, which estimates put far above 2,000 and no short one near it.
func longText(unique string) string { return unique + strings.Repeat(" a long story", 2000) }

// shortAndLong makes the last worker the long pool and the others the short one; prompts of 2,000 tokens are long.
func shortAndLong(change func(*config.Config)) func(*config.Config) {
	return func(c *config.Config) {
		for i := range c.Workers {
			c.Workers[i].Pool = "short"
		}
		c.Workers[len(c.Workers)-1].Pool, c.Workers[len(c.Workers)-1].Labels = "", []string{"role=long"}
		c.Pools = []pools.Pool{{Name: "short"}, {Name: "long", Labels: []string{"role=long"}, IdleBelow: 2000}}
		c.PoolRules = []pools.Rule{{Name: "long prompts", Prompt: pools.Range{Min: 2000}, To: []string{"long"}}}
		c.DefaultPool = "short"
		if change != nil {
			change(c)
		}
	}
}

func TestMUL01LongPromptsGoToTheirPoolAndShortOnesStayOutOfItHoweverBusyTheirs(t *testing.T) {
	w1, w2, long := newWorker(t, nil), newWorker(t, nil), newWorker(t, nil)
	log := t.TempDir() + "/decisions.jsonl"
	rt := start(t, shortAndLong(func(c *config.Config) { c.DecisionLog.File = log }), w1, w2, long)
	for i := range 20 {
		text, want := fmt.Sprintf("question %d", i), ""
		if i%4 == 0 {
			text, want = longText(text), "w3"
		}
		r := rt.post("/v1/chat/completions", chat(text, i%2 == 0))
		if r.status != http.StatusOK {
			t.Fatalf("%d: %d %s", i, r.status, r.body)
		}
		if got := r.header.Get("X-Warmpath-Worker"); want != "" && got != "" && got != want {
			t.Errorf("a long prompt went to %s", got)
		}
	}
	if long.count() != 5 || w1.count() == 0 || w2.count() == 0 || w1.count()+w2.count() != 15 {
		t.Errorf("long %d, short %d and %d", long.count(), w1.count(), w2.count())
	}
	for _, c := range []struct {
		pool string
		want float64
	}{{"long", 5}, {"short", 15}, {"any", 0}} {
		if got := rt.metric("warmpath_pool_requests_total", `pool="`+c.pool+`"`, `way="sent"`); got != c.want {
			t.Errorf("%v requests of pool %s, want %v", got, c.pool, c.want)
		}
	}
	if s := rt.state(); len(s.Pools) != 3 || s.Pools[1].Pool != "long" || s.Pools[1].Workers != 1 || s.Pools[0].Workers != 2 || fmt.Sprint(s.Workers[2].Pools) != "[long]" {
		t.Errorf("%+v", s.Pools)
	}
}

func TestMUL01ARequestThatWaitsTooLongSpillsToTheOtherPoolAndTheNextIsBackAtHome(t *testing.T) {
	release := make(chan struct{})
	hold := func(c *call) {
		select {
		case <-release:
		case <-c.gone:
		}
		c.good("done")
	}
	short, long := newWorker(t, hold), newWorker(t, nil)
	rt := start(t, shortAndLong(func(c *config.Config) {
		c.Workers[0].InFlightMax = 1
		c.Pools[0].Overflow = pools.Overflow{To: "long", Wait: 10 * time.Millisecond}
	}), short, long)
	first := make(chan reply, 1)
	go func() { first <- rt.post("/v1/chat/completions", chat("the first", false)) }()
	eventually(t, "the first at its worker", func() bool { return short.count() == 1 })
	if r := rt.post("/v1/chat/completions", chat("the second", false)); r.header.Get("X-Warmpath-Worker") != "w2" {
		t.Errorf("it went to %q: %d %s", r.header.Get("X-Warmpath-Worker"), r.status, r.body)
	}
	if got := rt.metric("warmpath_pool_requests_total", `pool="long"`, `way="spilled"`); got != 1 {
		t.Errorf("%v are counted as spilled", got)
	}
	close(release)
	if r := <-first; r.status != http.StatusOK {
		t.Error(r)
	}
	rt.idle()
	if r := rt.post("/v1/chat/completions", chat("the third", false)); r.header.Get("X-Warmpath-Worker") != "w1" {
		t.Errorf("the third went to %q", r.header.Get("X-Warmpath-Worker"))
	}
}

func TestMUL01APoolWithoutWorkersPassesItsRequestsToTheNextInTheListAndElseSaysSo(t *testing.T) {
	w := newWorker(t, nil)
	rt := start(t, func(c *config.Config) {
		c.Workers[0].Pool = "b"
		c.Pools = []pools.Pool{{Name: "a"}, {Name: "b"}}
		c.PoolRules = []pools.Rule{{To: []string{"a", "b"}, Prompt: pools.Range{Max: 2000}}, {To: []string{"a"}, Prompt: pools.Range{Min: 2000}}}
	}, w)
	if r := rt.post("/v1/chat/completions", chat("short", false)); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	r := rt.post("/v1/chat/completions", chat(longText("long"), false))
	if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" || !strings.Contains(r.body, "pool a") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := rt.post("/v1/chat/completions", `{"model":"nobody's","messages":[]}`); r.status != http.StatusNotFound {
		t.Errorf("%d %s", r.status, r.body)
	}
	if w.count() != 1 {
		t.Errorf("%d requests", w.count())
	}
}

func TestMUL01ARetryStaysInThePoolsOfItsRule(t *testing.T) {
	bad := func(c *call) { c.json(http.StatusInternalServerError, `{"error":{}}`) }
	w1, w2, outside := newWorker(t, bad), newWorker(t, bad), newWorker(t, nil)
	rt := start(t, shortAndLong(nil), w1, w2, outside)
	if r := rt.post("/v1/chat/completions", chat("hello", false)); r.status != http.StatusInternalServerError {
		t.Errorf("%d %s", r.status, r.body)
	}
	if w1.count() != 1 || w2.count() != 1 || outside.count() != 0 {
		t.Errorf("%d, %d and %d outside", w1.count(), w2.count(), outside.count())
	}
}

func TestMUL01AWorkerThatIsAddedWhileTheRouterRunsBringsItsLabels(t *testing.T) {
	rt := start(t, func(c *config.Config) {
		c.Pools = []pools.Pool{{Name: "a"}, {Name: "b", Labels: []string{"role=b"}}}
		c.DefaultPool = "b"
	})
	w := newWorker(t, nil)
	if status := rt.adminCall("POST", "/workers", fmt.Sprintf(`{"url":%q,"id":"new","pool":"a","labels":["role=b"]}`, w.url), nil); status != http.StatusCreated {
		t.Fatal(status)
	}
	rt.awaitModels(w)
	if got := fmt.Sprint(rt.state().Workers[0].Pools); got != "[a b]" {
		t.Errorf("it is in %s", got)
	}
	if r := rt.post("/v1/chat/completions", chat("hello", false)); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	if status := rt.adminCall("POST", "/workers", `{"url":"http://127.0.0.1:1","pool":"none"}`, nil); status != http.StatusBadRequest {
		t.Errorf("%d for a pool that is none", status)
	}
}
