package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/sched"
)

// shares runs n requests built by body at once and returns how many each worker got.
func shares(rt *testRouter, workers []*worker, n int, send func(i int) reply) []int {
	before := make([]int, len(workers))
	for i, w := range workers {
		before[i] = w.count()
	}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { send(i) })
	}
	all.Wait()
	out := make([]int, len(workers))
	for i, w := range workers {
		out[i] = w.count() - before[i]
	}
	return out
}

func TestLOD_01_AbortsLeaveNoLoadBehind(t *testing.T) {
	slow := func(c *call) {
		if !c.wait(time.Duration(rand.IntN(40)) * time.Millisecond) {
			return
		}
		if !c.wantsStream() {
			c.wait(30 * time.Millisecond)
			c.good("x")
			return
		}
		c.events()
		for range 20 {
			c.send(deltaOf("x"))
			if !c.wait(2 * time.Millisecond) {
				return
			}
		}
		c.send("data: [DONE]\n\n")
	}
	refusing := func(c *call) { c.json(http.StatusServiceUnavailable, `{}`) } // so that some are aborted while they back off
	workers := []*worker{newWorker(t, slow), newWorker(t, slow), newWorker(t, refusing)}
	rt := start(t, nil, workers...)
	var all sync.WaitGroup
	for i := range 300 {
		all.Go(func() {
			ctx, leave := context.WithTimeout(t.Context(), time.Duration(rand.IntN(80))*time.Millisecond)
			defer leave()
			rt.do(ctx, http.MethodPost, "/v1/chat/completions", chat(fmt.Sprint("abort ", i), i%2 == 0))
		})
	}
	all.Wait()
	rt.idle()
	for _, w := range workers {
		w.on(func(c *call) { c.wait(20 * time.Millisecond); c.good("x") })
	}
	w3 := workers[2]
	address := strings.TrimPrefix(w3.url, "http://")
	w3.stop()
	workers[2] = newWorkerAt(t, address, func(c *call) { c.wait(20 * time.Millisecond); c.good("x") })
	eventually(t, "the restarted worker to serve again", func() bool {
		rt.post("/v1/chat/completions", chat(fmt.Sprint("knock ", rand.Uint64()), false))
		return workers[2].count() > 0 && rt.state().Workers[2].State == "ready"
	})
	got := shares(rt, workers, 300, func(i int) reply { return rt.post("/v1/chat/completions", chat(fmt.Sprint("even ", i), false)) })
	for i, n := range got {
		if n < 75 || n > 123 {
			t.Errorf("worker %d got %d of 300: %v, want a third each, 8 points more or less", i+1, n, got)
		}
	}
	rt.idle()
}

func TestLOD_02_AWorkerThatFlapsWhileRequestsRunKeepsRightCounts(t *testing.T) {
	release := make(chan struct{})
	hold := func(c *call) {
		c.events()
		c.send(deltaOf("x"))
		select {
		case <-release:
		case <-c.gone:
		}
		c.send("data: [DONE]\n\n")
	}
	w1, w2 := newWorker(t, hold), newWorker(t, hold)
	rt := start(t, nil, w1, w2)
	stop := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			for _, w := range rt.state().Workers {
				if w.InFlight < 0 || w.InFlightTokens < 0 || w.QueuedSeconds < 0 {
					t.Errorf("worker %s: %d requests, %d tokens, %v s", w.ID, w.InFlight, w.InFlightTokens, w.QueuedSeconds)
					return
				}
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	var all sync.WaitGroup
	for round := range 20 {
		open := func(n int) {
			for i := range n {
				resp, err := rt.open(t.Context(), "/v1/chat/completions", chat(fmt.Sprint("flap ", round, i), true))
				if err != nil {
					t.Fatal(err)
				}
				all.Go(func() { read(resp, nil) })
			}
		}
		open(6)
		rt.adminCall(http.MethodDelete, "/workers/w1", "", nil)
		if code := rt.adminCall(http.MethodPost, "/workers", fmt.Sprintf(`{"id":"w1","url":%q,"model":"m"}`, w1.url), nil); code != http.StatusCreated {
			t.Fatalf("adding the worker again: %d", code)
		}
		open(2)
	}
	close(release)
	all.Wait()
	rt.idle()
	close(stop)
	watch.Wait()
	for _, w := range []*worker{w1, w2} {
		w.on(func(c *call) { c.wait(10 * time.Millisecond); c.good("x") })
	}
	got := shares(rt, []*worker{w1, w2}, 100, func(i int) reply { return rt.post("/v1/chat/completions", chat(fmt.Sprint("after ", i), false)) })
	if got[0] < 35 || got[0] > 65 {
		t.Errorf("after the flapping the workers got %v of 100", got)
	}
}

func TestLOD_03_EveryPathCountsAsLoad(t *testing.T) {
	const many = 100
	var goOn atomic.Pointer[chan struct{}]
	held := func(c *call) { // until all are inside: nothing is as fast as to be over before the next is chosen
		select {
		case <-*goOn.Load():
		case <-c.gone:
		}
		c.json(http.StatusOK, `{}`)
	}
	workers := []*worker{newWorker(t, held), newWorker(t, held), newWorker(t, held), newWorker(t, held)}
	rt := start(t, func(c *config.Config) { c.Queue.Enabled = false }, workers...) // so that all are placed before any is done
	prefix := strings.Repeat("shared words ", 200)
	body := fmt.Sprintf(`{"model":"m","max_tokens":50,"messages":[{"role":"user","content":%q}],"prompt":%q,"input":%q,"query":%q}`, prefix, prefix, prefix, prefix)
	for _, path := range append([]string{"/v1/rerank", "/v1/tokenize", "/v1/audio/transcriptions", "/v1/anything/else"}, postPaths...) {
		release := make(chan struct{})
		goOn.Store(&release)
		spread := make(chan []int, 1)
		go func() {
			spread <- shares(rt, workers, many, func(i int) reply {
				if path == "/v1/audio/transcriptions" {
					return rt.post(path, "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b--\r\n", "Content-Type", "multipart/form-data; boundary=b")
				}
				return rt.post(path, body)
			})
		}()
		eventually(t, path+": all requests to be counted at their workers", func() bool {
			counted := 0
			for _, w := range rt.state().Workers {
				counted += w.InFlight
			}
			return counted == many
		})
		close(release)
		got := <-spread
		for i, n := range got {
			if n > many*45/100 {
				t.Errorf("%s: worker %d got %d of %d: %v", path, i+1, n, many, got)
			}
		}
		rt.idle()
	}
}

func TestLOD_04_ABurstIsSpreadAsItIsChosen(t *testing.T) {
	hold := func(c *call) { c.wait(300 * time.Millisecond); c.good("x") }
	var workers []*worker
	for range 8 {
		workers = append(workers, newWorker(t, hold))
	}
	for _, policy := range []string{"warm-cost", "least-requests", "least-tokens"} {
		rt := start(t, func(c *config.Config) { c.Policy = policy }, workers...)
		for round := range 5 {
			got := shares(rt, workers, 64, func(i int) reply {
				return rt.post("/v1/chat/completions", chat(fmt.Sprint(policy, " burst ", round, i, rand.Uint64()), false))
			})
			for _, n := range got {
				if n < 5 || n > 11 {
					t.Errorf("%s, round %d: %v, want 8 each, 3 more or less", policy, round, got)
					break
				}
			}
		}
	}
}

func TestPRF_01_EqualWorkersShareUnderEveryPolicy(t *testing.T) {
	var workers []*worker
	for range 10 {
		workers = append(workers, newWorker(t, nil))
	}
	for _, policy := range sched.PolicyNames() {
		rt := start(t, func(c *config.Config) { c.Policy = policy }, workers...)
		before := make([]int, 10)
		for i, w := range workers {
			before[i] = w.count()
		}
		const n = 1000
		for i := range n {
			if r := rt.post("/v1/chat/completions", chat(fmt.Sprint(policy, " unique ", i, rand.Uint64()), false)); r.status != http.StatusOK {
				t.Fatalf("%s: %d %s", policy, r.status, r.body)
			}
		}
		for i, w := range workers {
			if got := w.count() - before[i]; got < n*6/100 || got > n*14/100 {
				t.Errorf("%s: worker %d got %d of %d, want a tenth, 4 points more or less", policy, i+1, got, n)
			}
		}
	}
}

func TestPRF_01_FreshRoutersDoNotAllBeginWithTheSameWorker(t *testing.T) {
	var workers []*worker
	for range 10 {
		workers = append(workers, newWorker(t, nil))
	}
	for i := range 20 {
		rt := start(t, nil, workers...)
		rt.post("/v1/chat/completions", chat(fmt.Sprint("first ", i), false))
		rt.Close()
	}
	hit := 0
	for _, w := range workers {
		if w.count() > 0 {
			hit++
		}
	}
	if hit < 6 {
		t.Errorf("twenty fresh routers sent their first request to %d of 10 workers", hit)
	}
}

// slotted is an engine with a number of slots and a service time; requests beyond the slots wait in its own queue.
type slotted struct {
	slots   chan struct{}
	service time.Duration
	mu      sync.Mutex
	queue   int
	longest int
}

func (s *slotted) serve(c *call) {
	s.mu.Lock()
	s.queue++
	s.mu.Unlock()
	s.slots <- struct{}{}
	s.mu.Lock()
	s.queue--
	s.longest = max(s.longest, s.queue)
	s.mu.Unlock()
	c.wait(s.service)
	<-s.slots
	c.good("x")
}

func (s *slotted) metrics(model string) http.HandlerFunc {
	base := asVLLM(model)
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			base(w, r)
			return
		}
		s.mu.Lock()
		waiting := s.queue
		s.mu.Unlock()
		fmt.Fprintf(w, "vllm:num_requests_running{engine=\"0\",model_name=%q} %d\nvllm:num_requests_waiting{engine=\"0\",model_name=%q} %d\n", model, len(s.slots), model, waiting)
	}
}

func TestPRF_02_WavesDoNotPileUpOnTheWorkerThatLookedBest(t *testing.T) {
	var workers []*worker
	var engines []*slotted
	for range 8 {
		e := &slotted{slots: make(chan struct{}, 8), service: 100 * time.Millisecond}
		w := newWorker(t, e.serve)
		w.onGet(e.metrics("m"))
		workers, engines = append(workers, w), append(engines, e)
	}
	rt := start(t, nil, workers...)
	for wave := range 5 {
		shares(rt, workers, 64, func(i int) reply { return rt.post("/v1/chat/completions", chat(fmt.Sprint("wave ", wave, i), false)) })
	}
	for i, e := range engines {
		if e.longest > 4 {
			t.Errorf("worker %d had %d requests waiting, want 4 at most", i+1, e.longest)
		}
	}
}

func TestPRF_03_AJammedWorkerIsNotChosenForAMiss(t *testing.T) {
	release := make(chan struct{})
	jam := func(c *call) {
		select {
		case <-release:
		case <-c.gone:
		}
		c.good("x")
	}
	w1, w2, w3 := newWorker(t, jam), newWorker(t, nil), newWorker(t, nil)
	rt := start(t, func(c *config.Config) { c.Queue.Enabled = false }, w1, w2, w3) // what is jammed is the engine
	rt.adminCall(http.MethodPost, "/workers/w2/drain", "", nil)
	rt.adminCall(http.MethodPost, "/workers/w3/drain", "", nil)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			rt.post("/v1/chat/completions", chat(strings.Repeat(fmt.Sprint("long and unlike any other ", i, " "), 500), true))
		})
	}
	eventually(t, "the first worker to be jammed", func() bool { return w1.count() == 40 })
	for id, w := range map[string]*worker{"w2": w2, "w3": w3} { // draining ends: they are back
		if code := rt.adminCall(http.MethodPost, "/workers", fmt.Sprintf(`{"id":%q,"url":%q,"model":"m"}`, id, w.url), nil); code != http.StatusCreated {
			t.Fatalf("ending the drain of %s: %d", id, code)
		}
	}
	for i := range 50 {
		rt.post("/v1/chat/completions", chat(strings.Repeat(fmt.Sprint("known ", i%5, " "), 800), false))
	}
	before := w1.count()
	for i := range 100 {
		rt.post("/v1/chat/completions", chat(fmt.Sprint(i, " never seen before"), false))
	}
	if got := w1.count() - before; got > 10 {
		t.Errorf("the jammed worker got %d of 100", got)
	}
	close(release)
	all.Wait()
	rt.idle()
}
