package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/engine"
	"github.com/warmpath/warmpath/internal/kvevent"
	"github.com/warmpath/warmpath/internal/kvpublish"
	"github.com/warmpath/warmpath/internal/render"
	"github.com/warmpath/warmpath/internal/truth"
)

// What was predicted against what engines report, in the whole product: before simulated engines that really cache, evict, publish and
// replay, and before tellers that do not tell the truth.

// embedded is one life of `warmpath worker --kv-events --replay` in this process.
type embedded struct {
	*worker   // its url alone
	published *kvpublish.Publisher
	stop      func()
}

// startSimulated starts one with a small cache at addresses that may be those of a life before.
func startSimulated(t *testing.T, at, events, replay string) *embedded {
	t.Helper()
	p := cost.Profiles["h100-8b"]
	p.KVTokensMax = 8192
	pub, err := kvpublish.New(kvpublish.Options{Events: events, Replay: replay, BlockTokens: p.BlockTokens})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	s := engine.New(engine.Options{Profile: p, Model: "m", TimeScale: 500, OutputMean: 20, ContextMax: 8192,
		Events: &engine.Events{Begin: pub.Begin, Block: pub.Block, Step: pub.Step, Sources: pub}})
	ctx, cancel := context.WithCancel(context.Background())
	web := &http.Server{Handler: s.Handler()}
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	running.Go(func() { _ = web.Serve(l) })
	e := &embedded{worker: &worker{url: "http://" + l.Addr().String(), detectable: true}, published: pub}
	e.stop = sync.OnceFunc(func() {
		cancel()
		web.Close()
		running.Wait()
		pub.Close()
	})
	t.Cleanup(e.stop)
	return e
}

// again ends a life and begins the next one at the same addresses, with an empty cache.
func (e *embedded) again(t *testing.T) *embedded {
	t.Helper()
	e.stop()
	events, replay := e.published.Endpoints()
	return startSimulated(t, strings.TrimPrefix(e.url, "http://"), events, replay)
}

// startSimulatedFleet runs a router before simulated engines and returns when it knows what they hold, and how to ask for tokens.
func startSimulatedFleet(t *testing.T, engines ...*embedded) *testRouter {
	t.Helper()
	var workers []*worker
	for _, e := range engines {
		workers = append(workers, e.worker)
	}
	rt := start(t, func(c *config.Config) { c.Exact.TokensTimeout, c.ExplainHeaders = 30e9, true }, workers...)
	eventually(t, "the engines to be asked for tokens", func() bool {
		states := rt.exact.render.States()
		return len(states) == 1 && states[0].Mode == render.EngineSide
	})
	rt.caughtUp(engines)
	return rt
}

// caughtUp waits until the router has taken in all that the engines published.
func (rt *testRouter) caughtUp(engines []*embedded) {
	rt.t.Helper()
	eventually(rt.t, "the router to have caught up with the engines' events", func() bool {
		exact := 0
		for _, s := range rt.exact.feeds.Statuses() {
			var n int
			if _, err := fmt.Sscanf(s.ID, "w%d", &n); err == nil && s.State == kvevent.Exact && s.Next == engines[n-1].published.Sent() {
				exact++
			}
		}
		return exact == len(engines)
	})
}

// chats holds conversations that share a system prompt, in turn, and returns how many requests that took.
func (rt *testRouter) chats(t *testing.T, engines []*embedded, seed, conversations, turns int) (requests int) {
	t.Helper()
	histories := make([]string, conversations)
	for turn := range turns {
		for i := range histories {
			histories[i] += fmt.Sprintf(`,{"role":"user","content":%q}`, long(fmt.Sprint("question ", seed, " ", i, " ", turn)))
			body := `{"model":"m","max_tokens":8,"messages":[{"role":"system","content":"` + long("system") + `"}` + histories[i] + `]}`
			if r := rt.post("/v1/chat/completions", body); r.status != http.StatusOK {
				t.Fatalf("%d %s", r.status, r.body)
			}
			histories[i] += `,{"role":"assistant","content":"answer"}`
			requests++
			rt.caughtUp(engines)
		}
	}
	return requests
}

// compared sums up what the router's book says.
func (rt *testRouter) compared() (sum truth.Stats) {
	rt.exact.mu.Lock()
	defer rt.exact.mu.Unlock()
	for _, s := range rt.exact.book.All() {
		sum.Requests, sum.Right, sum.StepDowns = sum.Requests+s.Requests, sum.Right+s.Right, sum.StepDowns+s.StepDowns
		sum.PredictedTokens, sum.ReportedTokens, sum.PromptsDiffer = sum.PredictedTokens+s.PredictedTokens, sum.ReportedTokens+s.ReportedTokens, sum.PromptsDiffer+s.PromptsDiffer
	}
	return sum
}

// wantAllRight checks that every prediction since before was right to the block, and that there were hits and misses among them.
func (rt *testRouter) wantAllRight(what string, before truth.Stats, requests int) {
	rt.t.Helper()
	eventually(rt.t, "all requests to be compared", func() bool { return rt.compared().Requests-before.Requests >= uint64(requests) })
	s := rt.compared()
	if s.Right-before.Right != uint64(requests) || s.PromptsDiffer > 0 || s.StepDowns > 0 || s.ReportedTokens == before.ReportedTokens {
		rt.t.Errorf("%s: of %d predictions %d were right; %+v", what, requests, s.Right-before.Right, s)
	}
}

func TestPredictionsAreRightToTheBlockThroughEvictionsRestartsAndANewRouter(t *testing.T) {
	var engines []*embedded
	for range 2 {
		engines = append(engines, startSimulated(t, "127.0.0.1:0", "tcp://127.0.0.1:0", "tcp://127.0.0.1:0"))
	}
	rt := startSimulatedFleet(t, engines...)
	rt.wantAllRight("with evictions", truth.Stats{}, rt.chats(t, engines, 1, 8, 5))
	if n := rt.metric("warmpath_events_blocks_total", `kind="removed"`); n == 0 {
		t.Error("nothing was evicted")
	}
	if right, all := rt.metric("warmpath_truth_right_total"), rt.metric("warmpath_truth_requests_total"); right != all || all != 40 {
		t.Errorf("the metrics have %v of %v right", right, all)
	}

	incarnation := rt.worker("w1").Incarnation
	engines[0] = engines[0].again(t)
	eventually(t, "the restart to be known", func() bool { return rt.worker("w1").Incarnation > incarnation })
	rt.caughtUp(engines)
	before := rt.compared()
	rt.wantAllRight("after an engine's restart", before, rt.chats(t, engines, 1, 8, 3))

	rt.Close()
	rt = startSimulatedFleet(t, engines...)
	rt.wantAllRight("by a new router", truth.Stats{}, rt.chats(t, engines, 1, 8, 3))
}

func TestAWorkerWhoseWordDoesNotComeTrueStepsDownAndClimbsBack(t *testing.T) {
	w1 := newTeller(t, true)
	rt := startTold(t, nil, w1)
	p := cached(long("P"), kvevent.Event{})
	w1.say(p...)
	rt.heard("w1", w1, kvevent.Exact)
	reports := func(tokens int) {
		w1.mu.Lock()
		defer w1.mu.Unlock()
		w1.hits = &tokens
	}
	trusted := func() bool { return rt.metric("warmpath_truth_trusted", `worker="w1"`) == 1 }
	ask := func(n int) {
		for range n {
			rt.credit(chat(long("P"), false))
		}
		rt.idle()
	}
	reports(0)
	ask(5)
	if !trusted() {
		t.Error("five failures are enough to step down")
	}
	ask(20)
	if trusted() || !strings.Contains(rt.log.String(), "does not come true") {
		t.Error("a worker whose word fails is still gone by")
	}
	if s := rt.worker("w1").Cache; s.Mode != modeAssumed || !strings.Contains(s.Why, "did not come true") {
		t.Errorf("the state is %+v", s)
	}
	if got := rt.worker("w1").Cache.Truth; got.StepDowns != 1 || got.Lost.MisKeyed == 0 || got.Trust > 0.5 {
		t.Errorf("the state is %+v", got)
	}
	if got, _ := rt.credit(chat(long("P"), false)); len(got) != 0 {
		t.Errorf("the credit is %v", got)
	}
	if lost := rt.metric("warmpath_truth_lost_tokens_total", `cause="mis_keyed"`); lost == 0 {
		t.Error("no token counts as mis-keyed, though the engine never has what it says")
	}
	reports(len(p) * tellerBlock)
	ask(60)
	if !trusted() || !strings.Contains(rt.log.String(), "comes true again") {
		t.Errorf("right again sixty times, and not gone by; trust %v", rt.metric("warmpath_truth_trust_ratio"))
	}
	rt.wantCredit("trusted again", chat(long("P"), false), map[string]int{"w1": len(p)})
}
