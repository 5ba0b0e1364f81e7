package main

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/kvevent"
)

// What tells one prompt's blocks from another's beside its text: adapters, salts, media. And what the knowledge of blocks may cost.

func TestLOR_01_AnAdaptersBlocksAreItsOwn(t *testing.T) {
	w1, w2 := newTeller(t, true, "x", "y"), newTeller(t, true, "x", "y")
	rt := startTold(t, nil, w1, w2)
	// The adapter's name stands among the extra keys too, as engines have it.
	ofX, ofBase := cached(long("P"), kvevent.Event{Adapter: "x", Salt: "x"}), cached(long("P"), kvevent.Event{})
	w1.say(ofX...)
	w2.say(ofBase...)
	rt.heard("w1", w1, kvevent.Exact)
	rt.heard("w2", w2, kvevent.Exact)
	rt.wantCredit("the adapter", asks("x", long("P"), ""), map[string]int{"w1": len(ofX), "w2": 0})
	rt.wantCredit("the base model", asks("m", long("P"), ""), map[string]int{"w1": 0, "w2": len(ofBase)})
	rt.wantCredit("another adapter", asks("y", long("P"), ""), map[string]int{"w1": 0, "w2": 0})
}

func TestLOR_02_AnAdapterThatWasUnloadedHasNoOldCredit(t *testing.T) {
	t.Parallel()
	w1, w2 := newTeller(t, true, "x"), newTeller(t, true)
	rt := startTold(t, nil, w1, w2)
	ofX, ofBase := cached(long("P"), kvevent.Event{Adapter: "x"}), cached(long("Q"), kvevent.Event{})
	w1.say(append(ofX, ofBase...)...)
	rt.heard("w1", w1, kvevent.Exact)
	rt.heard("w2", w2, kvevent.Exact)
	lists := func(adapters1, adapters2 []string) {
		t.Helper()
		for e, list := range map[*teller][]string{w1: adapters1, w2: adapters2} {
			e.mu.Lock()
			e.adapters = list
			e.mu.Unlock()
		}
		eventually(t, "the model lists to be known", func() bool {
			return len(rt.worker("w1").Models) == 1+len(adapters1) && len(rt.worker("w2").Models) == 1+len(adapters2)
		})
	}
	rt.wantCredit("before", asks("x", long("P"), ""), map[string]int{"w1": len(ofX)})
	lists(nil, nil)
	if r := rt.post("/v1/chat/completions", asks("x", long("P"), "")); r.status != http.StatusNotFound {
		t.Errorf("nobody serves the adapter: %d %s", r.status, r.body)
	}
	lists([]string{"x"}, nil)
	if got, _ := rt.credit(asks("x", long("P"), "")); got["w1"] != 0 {
		t.Errorf("loaded again, it is credited with %v", got)
	}
	if matched, _ := rt.matched("/v1/chat/completions", asks("x", long("other"), "")); matched["w1"] != 0 {
		t.Errorf("a prompt that was never seen matches %v", matched)
	}
	rt.wantCredit("the base model's blocks stay", asks("m", long("Q"), ""), map[string]int{"w1": len(ofBase), "w2": 0})
	lists(nil, []string{"x"})
	for range 10 {
		if matched, chosen := rt.matched("/v1/chat/completions", asks("x", long("P"), "")); chosen != "w2" {
			t.Errorf("%s was chosen, the other lists the adapter; matched %v", chosen, matched)
		}
	}
}

func TestSEC_03_ASaltIsPartOfEveryKey(t *testing.T) {
	w1, w2 := newTeller(t, true), newTeller(t, true)
	rt := startTold(t, nil, w1, w2)
	p := cached(long("P"), kvevent.Event{Salt: "s1"})
	w1.say(p...)
	rt.heard("w1", w1, kvevent.Exact)
	rt.heard("w2", w2, kvevent.Exact)
	rt.wantCredit("the same salt", asks("m", long("P"), `,"cache_salt":"s1"`), map[string]int{"w1": len(p), "w2": 0})
	all := w1.calls()
	if last := string(all[len(all)-1].body); !strings.Contains(last, `"cache_salt":"s1"`) {
		t.Errorf("the worker got %s", last)
	}
	rt.wantCredit("another salt", asks("m", long("P"), `,"cache_salt":"s2"`), map[string]int{"w1": 0, "w2": 0})
	rt.wantCredit("no salt", asks("m", long("P"), ""), map[string]int{"w1": 0, "w2": 0})
}

func TestSEC_03_SaltsShareNothingWhereCachesAreAssumedEither(t *testing.T) {
	rt := start(t, func(c *config.Config) { c.ExplainHeaders, c.Policy = true, "affinity-filter" }, newWorker(t, nil), newWorker(t, nil))
	for path, form := range map[string]string{
		"/v1/chat/completions": `{"model":"m","messages":[{"role":"user","content":%q}]%s}`,
		"/v1/messages":         `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":%q}]%s}`,
		"/v1/responses":        `{"model":"m","input":%q%s}`,
	} {
		prompt := long("P of " + path)
		_, first := rt.matched(path, fmt.Sprintf(form, prompt, `,"cache_salt":"s1"`))
		if matched, chosen := rt.matched(path, fmt.Sprintf(form, prompt, `,"cache_salt":"s1"`)); chosen != first || matched[first] == 0 {
			t.Errorf("%s: the same salt is with %s, matched %v, want %s", path, chosen, matched, first)
		}
		for _, salt := range []string{`,"cache_salt":"s2"`, ""} {
			if matched, _ := rt.matched(path, fmt.Sprintf(form, prompt, salt)); matched["w1"]+matched["w2"] != 0 {
				t.Errorf("%s: with %q matched %v", path, salt, matched)
			}
		}
	}
}

func TestMM_01_AnotherImageIsAnotherPrompt(t *testing.T) {
	w1, w2 := newTeller(t, true), newTeller(t, true)
	rt := startTold(t, nil, w1, w2)
	rt.heard("w1", w1, kvevent.Exact)
	rt.heard("w2", w2, kvevent.Exact)
	ask := func(before, image string) string {
		return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":%q},{"type":"image_url","image_url":{"url":%q}},{"type":"text","text":%q}]}]}`, before, image, long("after"))
	}
	inline := func(n int) string { return "data:image/png;base64," + strings.Repeat(fmt.Sprintf("%04d", n), 500) }
	const path = "/v1/chat/completions"
	_, a := rt.matched(path, ask("look: ", inline(0)))
	b, n := a, 0
	for b == a { // until another image happens to go to the other worker
		if n++; n > 100 {
			t.Fatal("a hundred images all went to one worker")
		}
		var matched map[string]int
		if matched, b = rt.matched(path, ask("look: ", inline(n))); matched["w1"]+matched["w2"] > tellerBlock {
			t.Fatalf("a new image matches %v", matched)
		}
	}
	for range 10 {
		if _, chosen := rt.matched(path, ask("look: ", inline(0))); chosen != a {
			t.Errorf("the first image went to %s, want %s", chosen, a)
		}
		if _, chosen := rt.matched(path, ask("look: ", inline(n))); chosen != b {
			t.Errorf("the other image went to %s, want %s", chosen, b)
		}
	}
	for what, body := range map[string]string{"by address": ask("look: ", "http://images/0.png"), "with other text before it": ask("see here: ", inline(0))} {
		if matched, _ := rt.matched(path, body); matched["w1"]+matched["w2"] > tellerBlock {
			t.Errorf("%s: matched %v", what, matched)
		}
	}
	rt.matched(path, ask(long("T"), inline(0)))
	whole, chosen := rt.matched(path, ask(long("T"), inline(0)))
	if shared, _ := rt.matched(path, ask(long("T"), inline(n+1))); shared[chosen] < whole[chosen]/10 || shared[chosen] > whole[chosen]/2 {
		t.Errorf("of the text before a new image %v tokens are shared, of the whole prompt %v", shared, whole)
	}
}

func TestTOK_03_EveryBodyShapeIsRoutedOrRefusedAndTheNextRequestWorks(t *testing.T) {
	w1, w2 := newTeller(t, true), newTeller(t, true)
	rt := startTold(t, nil, w1, w2)
	for _, c := range []struct{ path, body string }{
		{"/v1/embeddings", `{"model":"m","input":"text"}`},
		{"/v1/embeddings", `{"model":"m","input":["a","b"]}`},
		{"/v1/responses", `{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}]}`},
		{"/v1/rerank", `{"model":"m","query":"q","documents":["a","b"]}`},
		{"/v1/completions", `{"model":"m","prompt":[1,2,3]}`},
		{"/v1/completions", `{"model":"m","prompt":[[1,2,3],[4,5]]}`},
		{"/v1/completions", `{"model":"m","prompt":[4294967296,-1]}`},
		{"/v1/completions", `{"model":"m","prompt":["a","b"]}`},
		{"/v1/completions", `{"model":"m","prompt":null}`},
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"odd"}]}]}`},
		{"/v1/chat/completions", `{"model":"m","messages":[]}`},
		{"/v1/chat/completions", `{"model":"m","messages":{"role":"user"}}`},
		{"/v1/chat/completions", `{"model":"m","messages":[17,null,{}]}`},
		{"/v1/chat/completions", `{"model":"m"}`},
		{"/v1/messages", `{"model":"m","max_tokens":5,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":"u"}]}`},
	} {
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		if r := rt.do(ctx, http.MethodPost, c.path, c.body); r.err != nil || r.status < 200 || r.status >= 500 {
			t.Errorf("%s %s: %d %v", c.path, c.body, r.status, r.err)
		}
		stop()
		if r := rt.post("/v1/chat/completions", chat("next", false)); r.status != http.StatusOK {
			t.Errorf("the request after %s %s: %d %s", c.path, c.body, r.status, r.body)
		}
	}
	rt.idle()
}

func TestIDX_01_BothIndexesKeepTheirBounds(t *testing.T) {
	w1, w2 := newTeller(t, true), newTeller(t, true)
	rt := startTold(t, func(c *config.Config) { c.IndexBytesMax, c.Exact.IndexBytesMax = 1<<20, 4<<20 }, w1, w2)
	for i := range 80 {
		rt.post("/v1/chat/completions", chat(fmt.Sprint(i, strings.Repeat(fmt.Sprint(" unique ", i), 3000)), false))
		var many []kvevent.Event
		for j := range 24 {
			many = append(many, cached(long(fmt.Sprint("chain ", i, " ", j)), kvevent.Event{})...)
		}
		w1.say(many...)
		for _, name := range []string{"warmpath_index_bytes", "warmpath_events_index_bytes"} {
			if i%10 == 0 && rt.metric(name) > rt.metric(name+"_max") {
				t.Fatalf("%s is %v, more than %v", name, rt.metric(name), rt.metric(name+"_max"))
			}
		}
	}
	rt.heard("w1", w1, kvevent.Exact)
	for _, name := range []string{"warmpath_index", "warmpath_events_index"} {
		if rt.metric(name+"_evictions_total") == 0 || rt.metric(name+"_bytes") > rt.metric(name+"_bytes_max") {
			t.Errorf("%s: %v evictions, %v bytes", name, rt.metric(name+"_evictions_total"), rt.metric(name+"_bytes"))
		}
	}
	last := cached(long("chain 79 23"), kvevent.Event{})
	rt.wantCredit("the newest", chat(long("chain 79 23"), false), map[string]int{"w1": len(last), "w2": 0})
}

func TestIDX_02_WorkersThatComeAndGoLeaveNothingBehind(t *testing.T) {
	stays := newTeller(t, true)
	rt := startTold(t, nil, stays)
	rt.heard("w1", stays, kvevent.Exact)
	cycle := func(i int) {
		e := newTeller(t, true)
		id := fmt.Sprint("g", i)
		if status := rt.adminCall(http.MethodPost, "/workers", fmt.Sprintf(`{"id":%q,"url":%q}`, id, e.url), nil); status != http.StatusCreated {
			t.Fatalf("status %d", status)
		}
		e.awaitSubscriber()
		for j := range 5 {
			e.say(cached(long(fmt.Sprint("chain ", i, " ", j)), kvevent.Event{})...)
		}
		rt.heard(id, e, kvevent.Exact)
		rt.post("/v1/chat/completions", chat(fmt.Sprint("request ", i), false))
		rt.adminCall(http.MethodDelete, "/workers/"+id, "", nil)
		e.pub.Close()
		e.replay.Close()
		e.stop()
	}
	size := func() (lines, goroutines int, bytes float64) {
		page := read(rt.http.Get(rt.AdminURL() + "/metrics")).body
		return strings.Count(page, "\n"), runtime.NumGoroutine(), rt.metric("warmpath_events_index_bytes")
	}
	for i := range 5 {
		cycle(i)
	}
	lines, goroutines, bytes := size()
	for i := 5; i < 30; i++ {
		cycle(i)
	}
	// Memory that was given back serves those that come next; two workers' blocks may be there for a moment while one is swept out.
	eventually(t, "all that belonged to workers to be gone", func() bool {
		l, g, b := size()
		return l <= lines && g <= goroutines+5 && b <= 2*bytes && rt.metric("warmpath_events_index_blocks")+rt.metric("warmpath_events_index_memberships") == 0
	})
	if n := len(rt.exact.feeds.Statuses()); n != 1 {
		t.Errorf("%d workers are listened to", n)
	}
}

func TestFilesOfAModelThatNobodyServesAreAWarningOnce(t *testing.T) {
	rt := start(t, func(c *config.Config) {
		c.Exact.Tokenizers = []config.ModelFiles{{Model: "unheard", Path: "/models/unheard"}, {Model: "m", Path: t.TempDir()}}
	}, newWorker(t, nil), newWorker(t, nil, "n"))
	const want = `no worker serves the model \"unheard\", whose files are named (flag --tokenizer unheard=/models/unheard); served are: m, n`
	eventually(t, "the warning", func() bool { return strings.Contains(rt.log.String(), want) })
	if code := rt.adminCall(http.MethodPost, "/workers", fmt.Sprintf(`{"url":%q,"id":"late"}`, newWorker(t, nil).url), nil); code != http.StatusCreated {
		t.Fatal(code)
	}
	eventually(t, "another worker to be known", func() bool { return len(rt.worker("late").Models) > 0 })
	if n := strings.Count(rt.log.String(), "no worker serves the model"); n != 1 {
		t.Errorf("%d warnings", n)
	}
}
