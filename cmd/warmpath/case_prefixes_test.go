package main

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/kvevent"
	"github.com/warmpath/warmpath/internal/kvindex"
)

// share has n requests begin alike, and returns their system prompt.
func (rt *testRouter) share(n int) string {
	rt.t.Helper()
	system := strings.Repeat("You help with letters, and know where they belong. ", 40)
	for i := range n {
		body := fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":%q},{"role":"user","content":"Question %d: %s"}]}`, system, i, strings.Repeat(fmt.Sprint(i), 200))
		if r := rt.post("/v1/chat/completions", body); r.status != http.StatusOK {
			rt.t.Fatalf("%d %s", r.status, r.body)
		}
	}
	rt.idle()
	return system
}

func TestWhatManyRequestsBeginWithIsShownWithWhereItIsCached(t *testing.T) {
	t.Parallel()
	answer := func(c *call) {
		c.json(http.StatusOK, `{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":600,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":500}}}`)
	}
	rt := start(t, nil, newWorker(t, answer, "m"), newWorker(t, answer, "m"))
	rt.share(20)
	var found prefixesFound
	if status := rt.adminCall(http.MethodGet, "/prefixes?limit=5", "", &found); status != http.StatusOK || len(found.Prefixes) == 0 {
		t.Fatalf("%d, %+v", status, found)
	}
	p := found.Prefixes[0]
	if p.Model != "m" || p.Bytes < 1900 || p.Bytes > 2100 || p.Tokens < 400 || p.Tokens > 600 || p.Requests < 18 || p.Requests > 20 || p.RequestsPerMinute <= 0 || p.SecondsSaved <= 0 || p.EvictionSeconds <= 0 {
		t.Errorf("%+v", p)
	}
	if p.Copies == 0 || len(p.Holders) != p.Copies || !strings.HasPrefix(p.Holders[0], "w") || p.CopyTokens != p.Copies*p.Tokens || len(p.Key) != 16 {
		t.Errorf("%+v", p)
	}
	if found.ShowText || p.Text != "" {
		t.Errorf("its text is shown, and nobody asked for that: %q", p.Text)
	}
	if n := rt.metric("warmpath_prefixes_tracked"); n < 1 || found.TrackedMax != 1024 {
		t.Errorf("%v are tracked of %d", n, found.TrackedMax)
	}
	for query, want := range map[string]string{"limit=0": "from 1 to 1000", "sort=request": "did you mean requests?", "sorted=1": "did you mean sort?"} {
		if r := read(rt.http.Get(rt.AdminURL() + "/prefixes?" + query)); r.status != http.StatusBadRequest || !strings.Contains(r.body, want) {
			t.Errorf("%s: %d %s", query, r.status, r.body)
		}
	}
	var out, errs bytes.Buffer
	if code := run([]string{"prefixes", "--admin", rt.AdminURL()}, &out, &errs); code != exitOK || !strings.Contains(out.String(), p.Key) || !strings.Contains(out.String(), "requests/min") {
		t.Errorf("%d\n%s%s", code, out.String(), errs.String())
	}
}

func TestTheTextOfPrefixesIsKeptWhereThatIsSetAlone(t *testing.T) {
	t.Parallel()
	rt := start(t, func(c *config.Config) { c.Dash.ShowText = true }, newWorker(t, nil, "m"))
	rt.share(1)
	rt.share(1)
	if _, out, _ := rt.cli("prefixes"); !strings.Contains(out, "shared by three requests so far; by two: 1 (") {
		t.Errorf("after two that are alike: %s", out)
	}
	system := rt.share(4)
	var found prefixesFound
	rt.adminCall(http.MethodGet, "/prefixes", "", &found)
	if !found.ShowText || len(found.Prefixes) == 0 || found.Prefixes[0].Text != system[:config.ShownTextBytes] {
		t.Errorf("%+v", found)
	}
}

// hottest is what most requests begin with.
func (rt *testRouter) hottest() prefixRow {
	rt.t.Helper()
	var found prefixesFound
	if status := rt.adminCall(http.MethodGet, "/prefixes?limit=1", "", &found); status != http.StatusOK || len(found.Prefixes) != 1 {
		rt.t.Fatalf("%d, %+v", status, found)
	}
	return found.Prefixes[0]
}

func TestWhoHoldsAPrefixIsSaidByWorkersWhoseWordComesTrue(t *testing.T) {
	t.Parallel()
	w1, w2 := newTeller(t, true), newTeller(t, true)
	rt := startTold(t, nil, w1, w2)
	common := long("P")[:1886] // and the 6 bytes before it: 39 blocks and a half
	told := cached(common, kvevent.Event{})
	w1.say(told...)
	rt.heard("w1", w1, kvevent.Exact)
	rt.heard("w2", w2, kvevent.Exact)
	ask := func(i int) {
		t.Helper()
		if r := rt.post("/v1/chat/completions", asks("m", common+strings.Repeat(string(rune('a'+i)), 400), "")); r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	for i := range 10 {
		ask(i)
	}
	if status := rt.adminCall(http.MethodPost, "/workers/w1/drain", "", nil); status != http.StatusOK {
		t.Fatal(status)
	}
	ask(10) // w2 is assumed to have it from now on, and does not say so
	rt.idle()
	want := func(why string, told int, holders ...string) {
		t.Helper()
		if p := rt.hottest(); !slices.Equal(p.Holders, holders) || p.Copies != len(holders) || p.HoldersTold != told || p.CopyTokens != p.Copies*p.Tokens {
			t.Errorf("%s: %+v, want %v, %d by their own word", why, p, holders, told)
		}
	}
	want("w1 says it holds it", 1, "w1")
	w1.say(gone(told[36:], kvindex.GPU)...)
	rt.heard("w1", w1, kvevent.Exact)
	want("its end was put out", 0)
	w2.say(told...)
	rt.heard("w2", w2, kvevent.Exact)
	want("w2 says it holds it", 1, "w2")
	var all []*fleet.Worker
	rt.gate.View(func(v gate.View) { all = slices.Clone(v.Workers) })
	for _, w := range all {
		rt.gate.Doubt(w, true)
	}
	want("neither is gone by, and both were sent it", 0, "w1", "w2")
}

func TestWhoHoldsAPrefixIsWhatEnginesThatReallyCachePublish(t *testing.T) {
	t.Parallel()
	engines := []*embedded{startSimulated(t, "127.0.0.1:0", "tcp://127.0.0.1:0", "tcp://127.0.0.1:0"), startSimulated(t, "127.0.0.1:0", "tcp://127.0.0.1:0", "tcp://127.0.0.1:0")}
	rt := startSimulatedFleet(t, engines...)
	system := rt.share(12)
	rt.caughtUp(engines)
	p := rt.hottest()
	rows, _ := rt.decided("/v1/chat/completions", fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":%q},{"role":"user","content":"Anything else?"}]}`, system))
	for _, row := range rows {
		if holds := slices.Contains(p.Holders, row.Worker); !row.ByEvents || holds != (row.Matched >= p.Tokens*15/16) {
			t.Errorf("%s holds the prefix of %d tokens: %v; of it and more it has %d cached", row.Worker, p.Tokens, holds, row.Matched)
		}
	}
	if p.Copies == 0 || p.HoldersTold != p.Copies {
		t.Errorf("%+v", p)
	}
	for i := 0; ; i++ { // until other prompts have put it out everywhere
		if rt.post("/v1/chat/completions", asks("m", long(fmt.Sprint("other ", i)), `,"max_tokens":1`)); i%10 == 9 {
			rt.idle()
			rt.caughtUp(engines)
			if p = rt.hottest(); p.Copies == 0 {
				break
			}
		}
		if i > 400 {
			t.Fatalf("400 other prompts later: %+v", p)
		}
	}
}
