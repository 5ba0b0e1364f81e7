package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

// tokenEvery is the pace of a stream beside a deep prompt.
const tokenEvery = 20 * time.Millisecond

// ice holds a worker up as SIGSTOP does: connections are accepted, and no byte ever comes.
type ice struct {
	frozen atomic.Bool
	thawed chan struct{}
}

// freezable is a vLLM that freezes when told to, requests and telemetry alike.
func freezable(t *testing.T) (*worker, *ice) {
	i := &ice{thawed: make(chan struct{})}
	w := newWorker(t, nil)
	w.on(func(c *call) {
		if i.frozen.Load() {
			select {
			case <-i.thawed:
			case <-c.gone:
				return
			}
		}
		c.good("hello", "world")
	})
	page, rest := busy(0), asVLLM("m")
	w.onGet(func(out http.ResponseWriter, r *http.Request) {
		if i.frozen.Load() {
			select {
			case <-i.thawed:
			case <-r.Context().Done():
				return
			}
		}
		if r.URL.Path == "/metrics" {
			fmt.Fprint(out, page)
			return
		}
		rest(out, r)
	})
	return w, i
}

func (i *ice) freeze() { i.frozen.Store(true) }

func (i *ice) thaw() { i.frozen.Store(false); close(i.thawed) }

func TestAFrozenWorkerGetsNoMoreTrafficUntilItThaws(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprint("stream ", stream), func(t *testing.T) {
			t.Parallel()
			w1, cold := freezable(t)
			w2, _ := freezable(t)
			rt := start(t, func(c *config.Config) { c.Policy = "round-robin" }, w1, w2)
			rt.awaitTelemetry("w1", "fresh")
			rt.awaitTelemetry("w2", "fresh")
			cold.freeze()
			var waiting sync.WaitGroup
			for i := range 4 {
				waiting.Go(func() {
					if r := rt.post("/v1/chat/completions", chat(fmt.Sprint("into the ice ", i), stream)); r.status != http.StatusOK || !strings.Contains(r.body, "hello") {
						t.Errorf("a request that waited for the thaw: %d %s %v", r.status, r.body, r.err)
					}
				})
			}
			eventually(t, "the frozen worker to be put out", func() bool { return rt.worker("w1").State == "ejected" })
			caught := w1.count()
			for i := range 20 {
				if r := rt.post("/v1/chat/completions", chat(fmt.Sprint("beside the ice ", i), stream)); r.status != http.StatusOK {
					t.Errorf("request %d: %d %s", i, r.status, r.body)
				}
			}
			if n := w1.count() - caught; n != 0 {
				t.Errorf("the frozen worker got %d more requests", n)
			}
			if n := rt.metric("warmpath_ejections_total", `worker="w1"`); n != 1 {
				t.Errorf("%v ejections are counted", n)
			}
			cold.thaw()
			waiting.Wait()
			eventually(t, "the thawed worker to be back", func() bool { return rt.worker("w1").State == "ready" })
			for i := range 4 {
				rt.post("/v1/chat/completions", chat(fmt.Sprint("after the ice ", i), stream))
			}
			if w1.count() == caught {
				t.Error("the thawed worker gets no traffic")
			}
		})
	}
}

func TestTheLastWorkerOfAModelKeepsItsTrafficThoughItIsFrozen(t *testing.T) {
	t.Parallel()
	w1, cold := freezable(t)
	rt := start(t, nil, w1, newWorker(t, nil, "other"))
	rt.awaitTelemetry("w1", "fresh")
	cold.freeze()
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if r := rt.post("/v1/chat/completions", chat("into the ice", false)); r.status != http.StatusOK {
			t.Errorf("%d %s", r.status, r.body)
		}
	})
	rt.awaitTelemetry("w1", "stale")
	before := rt.metric("warmpath_telemetry_failures_total", `worker="w1"`)
	rt.awaitTelemetryFailures("w1", before+5)
	if s := rt.worker("w1").State; s != "ready" {
		t.Errorf("the only worker of its model is %s", s)
	}
	cold.thaw()
	waiting.Wait()
}

func TestHLT_05_AWorkerDeepInAPromptIsNotPutOutWhileItsStreamsGiveTokens(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 2} {
		t.Run(fmt.Sprint(workers, " workers"), func(t *testing.T) {
			t.Parallel()
			over := make(chan struct{})
			w1 := newWorker(t, func(c *call) {
				switch {
				case strings.Contains(string(c.body), "deep"): // a prefill of many seconds
					select {
					case <-over:
					case <-c.gone:
						return
					}
					c.good("done")
				default:
					c.events()
					for c.wait(tokenEvery) {
						select {
						case <-over:
							c.send("data: [DONE]\n\n")
							return
						default:
							c.send(deltaOf("x"))
						}
					}
				}
			})
			page := newBoard(w1, busy(0))
			all := []*worker{w1}
			if workers == 2 {
				all = append(all, newWorker(t, nil))
			}
			rt := start(t, func(c *config.Config) { c.Policy = "round-robin" }, all...)
			rt.awaitTelemetry("w1", "fresh")
			var running sync.WaitGroup
			for _, prompt := range []string{"a stream", "deep"} {
				before := w1.count()
				for i := 0; w1.count() == before; i++ { // the other worker answers at once
					seen := w1.count() + all[len(all)-1].count()
					running.Go(func() {
						if r := rt.post("/v1/chat/completions", chat(fmt.Sprint(prompt, i), true)); r.status != http.StatusOK || !strings.Contains(r.body, "[DONE]") {
							t.Errorf("%s: %d %v", prompt, r.status, r.err)
						}
					})
					eventually(t, "a request to arrive", func() bool { return w1.count()+all[len(all)-1].count() > seen || w1.count() > before })
				}
			}
			page.answers(failingPages["hangs"])
			rt.awaitTelemetry("w1", "stale")
			before := rt.metric("warmpath_telemetry_failures_total", `worker="w1"`)
			rt.awaitTelemetryFailures("w1", before+6) // well beyond the time after which silence would count
			if s := rt.worker("w1"); s.State != "ready" || s.InFlight < 2 {
				t.Errorf("deep in a prompt, with a stream under way, it is %s with %d in flight", s.State, s.InFlight)
			}
			if n := rt.metric("warmpath_ejections_total"); n != 0 {
				t.Errorf("%v ejections", n)
			}
			close(over)
			running.Wait()
		})
	}
}

func TestAWorkerThatDiesWhileIdleIsDownInEveryView(t *testing.T) {
	w1, w2 := newWorker(t, nil), newWorker(t, nil)
	rt := start(t, nil, w1, w2)
	views := func() (state, metric, model string) {
		metric = "none or several"
		for _, s := range []string{"ready", "ejected", "probing", "draining", "down", "unknown"} {
			if rt.metric("warmpath_worker_state", `worker="w1"`, fmt.Sprintf("state=%q", s)) == 1 {
				metric = s
			}
		}
		for _, w := range rt.gate.Models()[0].Workers {
			if w.ID == "w1" {
				model = w.State
			}
		}
		return rt.worker("w1").State, metric, model
	}
	in := func(want string) func() bool {
		return func() bool {
			state, metric, model := views()
			return state == want && metric == want && model == want
		}
	}
	eventually(t, "w1 to be ready in every view", in("ready"))
	w1.stop()
	eventually(t, "w1 to be down in every view", in("down"))
	if r := rt.get("/readyz"); r.status != http.StatusOK {
		t.Errorf("with w2 up: %d", r.status)
	}
	w2.stop()
	eventually(t, "readiness to turn red", func() bool { return rt.get("/readyz").status == http.StatusServiceUnavailable })
	newWorkerAt(t, strings.TrimPrefix(w1.url, "http://"), nil)
	eventually(t, "w1 to be ready in every view again", in("ready"))
	if r := rt.get("/readyz"); r.status != http.StatusOK {
		t.Errorf("with w1 back: %d", r.status)
	}
}

func TestWhenAllAreDownTheAnswerCountsThemAndNamesNoAddress(t *testing.T) {
	w1, w2, other := newWorker(t, nil), newWorker(t, nil), newWorker(t, nil, "other")
	rt := start(t, func(c *config.Config) {
		c.Workers = append(c.Workers, config.Worker{ID: "never", URL: "http://" + freeAddress(t), Model: "gone"})
	}, w1, w2, other)
	counts := func(model, want string) {
		t.Helper()
		for i := range 6 { // the first ones meet refused connections, later ones workers that are put out
			r := rt.post("/v1/chat/completions", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"%d"}]}`, model, i))
			if r.status != http.StatusServiceUnavailable || !strings.Contains(r.body, want) || strings.Contains(r.body, "127.0.0.1") {
				t.Errorf("%s %d: %d %s, want %s", model, i, r.status, r.body, want)
			}
		}
	}
	eventually(t, "the router to know who is there", func() bool { return rt.worker("never").State == "down" })
	counts("gone", "1 of 1 down")
	w1.stop()
	w2.stop()
	counts("m", "2 of 2 are down")
	if r := rt.post("/v1/chat/completions", `{"model":"other","messages":[{"role":"user","content":"x"}]}`); r.status != http.StatusOK {
		t.Errorf("another model's worker: %d %s", r.status, r.body)
	}
}
