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

// board is the metrics page of a worker, written by the test. Everything else a vLLM tells is told as usual.
type board struct {
	mu      sync.Mutex
	page    func(http.ResponseWriter, *http.Request)
	scrapes atomic.Int32
}

// newBoard puts a page up at w: text as it is.
func newBoard(w *worker, text string) *board {
	b := &board{}
	b.shows(text)
	rest := asVLLM("m")
	w.onGet(func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			rest(out, r)
			return
		}
		b.scrapes.Add(1)
		b.mu.Lock()
		page := b.page
		b.mu.Unlock()
		page(out, r)
	})
	return b
}

func (b *board) shows(text string) {
	b.answers(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })
}

func (b *board) answers(page http.HandlerFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.page = page
}

// busy is a page of one engine with so many requests running.
func busy(running int) string {
	return fmt.Sprintf("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\",model_name=\"m\"} %d\nvllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 0\nvllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.1\n", running)
}

func (rt *testRouter) awaitTelemetry(id, want string) workerState {
	rt.t.Helper()
	eventually(rt.t, id+"'s telemetry to be "+want, func() bool { return rt.worker(id).Telemetry == want })
	return rt.worker(id)
}

func TestTEL_02_TheRanksBehindOneAddressAddUp(t *testing.T) {
	w1, w2 := newWorker(t, nil), newWorker(t, nil)
	newBoard(w1, strings.Join([]string{
		`vllm:num_requests_running{engine="0",model_name="m"} 20`, `vllm:num_requests_running{engine="1",model_name="m"} 30`, `vllm:num_requests_running{engine="2",model_name="m"} 0`,
		`vllm:num_requests_waiting{engine="0",model_name="m"} 0`, `vllm:num_requests_waiting{engine="1",model_name="m"} 0`,
		`vllm:num_requests_running{engine="0",model_name="other"} 7`, `vllm:num_requests_running{engine="1",model_name="third"} 9`, ""}, "\n"))
	newBoard(w2, strings.Join([]string{
		`vllm:num_requests_running{engine="0",model_name="other"} 400`, `vllm:num_requests_running{engine="0",model_name="m"} 10`,
		`vllm:num_requests_waiting{engine="0",model_name="other"} 30`, `vllm:num_requests_waiting{engine="0",model_name="m"} 0`, ""}, "\n"))
	rt := start(t, nil, w1, w2)
	for id, want := range map[string]int{"w1": 50, "w2": 10} {
		s := rt.awaitTelemetry(id, "fresh")
		if s.EngineRunning == nil || *s.EngineRunning != want || s.EngineWaiting == nil || *s.EngineWaiting != 0 || s.ForeignRunning != want {
			t.Errorf("%s: %v running and %v waiting there, %d foreign, want %d, 0, %d", id, deref(s.EngineRunning), deref(s.EngineWaiting), s.ForeignRunning, want, want)
		}
	}
	for _, policy := range []string{"warm-cost", "least-requests"} {
		rt.adminCall(http.MethodPost, "/policy", fmt.Sprintf(`{"policy":%q}`, policy), nil)
		before := w1.count()
		for i := range 10 {
			rt.post("/v1/chat/completions", chat(fmt.Sprint(policy, " next ", i), false))
		}
		if n := w1.count() - before; n != 0 {
			t.Errorf("%s: the worker with 50 running got %d of 10 requests", policy, n)
		}
	}
}

func deref(n *int) any {
	if n == nil {
		return "unknown"
	}
	return *n
}

// The ways in which a metrics page fails while its worker serves on.
var failingPages = map[string]http.HandlerFunc{
	"hangs":  func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	"is 500": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
	"is cut short": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "4096")
		fmt.Fprint(w, busy(0)[:150])
	},
	"hangs halfway": func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, busy(0)[:150])
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	},
	"breaks": func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			conn.Close()
		}
	},
	"is empty":     func(http.ResponseWriter, *http.Request) {},
	"says nothing": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "go_goroutines 7\n") },
	"says nonsense": func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, strings.ReplaceAll(busy(0), "} 0", "} NaN"), strings.Repeat("x", 70_000))
	},
}

// underLoad sends n requests 10 ms apart and returns how many each worker got.
func underLoad(rt *testRouter, workers []*worker, n int) []int {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	before := make([]int, len(workers))
	for i, w := range workers {
		before[i] = w.count()
	}
	var all sync.WaitGroup
	for i := range n {
		<-tick.C
		all.Go(func() {
			if r := rt.post("/v1/chat/completions", chat(fmt.Sprint("load ", time.Now().UnixNano(), i), false)); r.status != http.StatusOK {
				rt.t.Errorf("%d %s", r.status, r.body)
			}
		})
	}
	all.Wait()
	for i, w := range workers {
		before[i] = w.count() - before[i]
	}
	return before
}

func TestTEL_03_AFrozenIdleValueAttractsNobody(t *testing.T) {
	for name, fail := range failingPages {
		t.Run("the page "+name, func(t *testing.T) {
			t.Parallel()
			serve := func(c *call) { c.wait(100 * time.Millisecond); c.good("x") }
			workers := []*worker{newWorker(t, serve), newWorker(t, serve), newWorker(t, serve)}
			page := newBoard(workers[0], busy(0))
			for _, w := range workers[1:] {
				newBoard(w, busy(16))
			}
			rt := start(t, func(c *config.Config) {
				c.Telemetry = config.Telemetry{Interval: 100 * time.Millisecond, Timeout: 150 * time.Millisecond, StaleAfter: 500 * time.Millisecond}
			}, workers...)
			for _, id := range []string{"w1", "w2", "w3"} {
				rt.awaitTelemetry(id, "fresh")
			}
			if got := underLoad(rt, workers, 30); got[0] < 16 {
				t.Errorf("while it says that it is idle it gets %d of 30: the test shows nothing", got[0])
			}
			page.answers(fail)
			stale := rt.awaitTelemetry("w1", "stale")
			if stale.EngineRunning != nil || stale.TelemetryAge < 0.4 {
				t.Errorf("a stale worker shows %v running, age %v s", deref(stale.EngineRunning), stale.TelemetryAge)
			}
			if age := rt.metric("warmpath_telemetry_age_seconds", `worker="w1"`); age < 0.4 {
				t.Errorf("its telemetry age is %v s in the metrics", age)
			}
			if n := rt.metric("warmpath_telemetry_failures_total", `worker="w1"`); n == 0 {
				t.Error("no failure is counted")
			}
			if got := underLoad(rt, workers, 100); got[0] > 45 {
				t.Errorf("the worker that stopped reporting got %d of 100: %v", got[0], got)
			}
			page.shows(busy(0))
			healed := page.scrapes.Load()
			rt.awaitTelemetry("w1", "fresh")
			if n := page.scrapes.Load() - healed; n > 3 { // one more than the two intervals, for a busy machine
				t.Errorf("it took %d scrapes to be known again", n)
			}
			if got := underLoad(rt, workers, 30); got[0] < 11 { // more than its share
				t.Errorf("back, and idle, it got %d of 30", got[0])
			}
		})
	}
}

func TestTEL_03_AMetricsPortThatRefusesIsStaleToo(t *testing.T) {
	// The worker's own port closes for newcomers, while connections under way go on: what is left is the last scrape.
	w1, w2 := newWorker(t, nil), newWorker(t, nil)
	newBoard(w1, busy(0))
	newBoard(w2, busy(4))
	rt := start(t, nil, w1, w2)
	rt.awaitTelemetry("w1", "fresh")
	rt.awaitTelemetry("w2", "fresh")
	address := strings.TrimPrefix(w1.url, "http://")
	w1.stop()
	s := rt.awaitTelemetry("w1", "stale")
	if s.EngineRunning != nil {
		t.Errorf("it shows %d running", *s.EngineRunning)
	}
	for i := range 20 {
		if r := rt.post("/v1/chat/completions", chat(fmt.Sprint("beside a refusing one ", i), false)); r.status != http.StatusOK {
			t.Errorf("request %d: %d %s", i, r.status, r.body)
		}
	}
	back := newWorkerAt(t, address, nil)
	page := newBoard(back, busy(0))
	s = rt.awaitTelemetry("w1", "fresh")
	if n := page.scrapes.Load(); n > 3 {
		t.Errorf("it took %d scrapes to be known again", n)
	}
	if s.Incarnation == 1 || s.State != "ready" {
		t.Errorf("an engine that came back at its address is incarnation %d, %s", s.Incarnation, s.State)
	}
}

func TestTEL_03_AHungScrapeDelaysNobodyElses(t *testing.T) {
	var workers []*worker
	var pages []*board
	for range 4 {
		w := newWorker(t, nil)
		workers, pages = append(workers, w), append(pages, newBoard(w, busy(1)))
	}
	rt := start(t, func(c *config.Config) { c.Telemetry.Timeout = time.Minute }, workers...)
	for i := range workers {
		rt.awaitTelemetry(fmt.Sprintf("w%d", i+1), "fresh")
	}
	hung, ended := make(chan struct{}), make(chan struct{})
	var once sync.Once
	pages[0].answers(func(_ http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(hung) })
		<-r.Context().Done()
		close(ended)
	})
	<-hung
	counts := []int32{0, pages[1].scrapes.Load(), pages[2].scrapes.Load(), pages[3].scrapes.Load()}
	eventually(t, "eight more scrapes of each of the others", func() bool {
		for i := 1; i < 4; i++ {
			if pages[i].scrapes.Load() < counts[i]+8 {
				return false
			}
		}
		return true
	})
	select {
	case <-ended:
		t.Error("the hung scrape ended: the test shows nothing")
	default:
	}
	if s := rt.worker("w1").Telemetry; s != "stale" {
		t.Errorf("the hung one's telemetry is %s", s)
	}
	for i := 2; i < 5; i++ {
		if s := rt.worker(fmt.Sprintf("w%d", i)).Telemetry; s != "fresh" {
			t.Errorf("w%d's telemetry is %s", i, s)
		}
	}
}
