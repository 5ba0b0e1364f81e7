package main

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

// telling is a worker whose engine answers GETs as the pages say; a path without a page is 404.
func telling(t *testing.T, pages map[string]string) *worker {
	w := newWorker(t, nil)
	w.onGet(func(out http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(out, r)
			return
		}
		io.WriteString(out, page)
	})
	return w
}

func signedBy(owner string) string {
	return fmt.Sprintf(`{"object":"list","data":[{"id":"m","object":"model","owned_by":%q,"max_model_len":8192}]}`, owner)
}

func TestTEL_01_UsageIsReadUnderEveryNameAndWhatIsMissingIsNamed(t *testing.T) {
	vllm := func(more string) map[string]string {
		return map[string]string{"/v1/models": signedBy("vllm"), "/metrics": "vllm:num_requests_running{model_name=\"m\"} 3\nvllm:num_requests_waiting{model_name=\"m\"} 1\n" + more}
	}
	for i, run := range []struct {
		what    string
		pages   map[string]string
		usage   float64 // below 0: unknown
		running int     // below 0: unknown
	}{
		{"the new name", vllm("vllm:kv_cache_usage_perc{model_name=\"m\"} 0.1\n"), 0.1, 3},
		{"the old name", vllm("vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.2\n"), 0.2, 3},
		{"both", vllm("vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.9\nvllm:kv_cache_usage_perc{model_name=\"m\"} 0.3\n"), 0.3, 3},
		{"neither", vllm(""), -1, 3},
		{"SGLang's", map[string]string{"/v1/models": signedBy("sglang"), "/metrics": "sglang:num_running_reqs{model_name=\"m\"} 5\nsglang:num_queue_reqs{model_name=\"m\"} 0\nsglang:token_usage{model_name=\"m\"} 0.5\n"}, 0.5, 5},
		{"llama.cpp's", map[string]string{"/v1/models": signedBy("llamacpp"), "/metrics": "llamacpp:requests_processing 6\nllamacpp:requests_deferred 0\nllamacpp:kv_cache_usage_ratio 0.6\n"}, 0.6, 6},
		{"TensorRT-LLM's", map[string]string{"/v1/models": signedBy("tensorrt_llm"), "/prometheus/metrics": "trtllm_num_requests_running{model_name=\"m\"} 7\ntrtllm_num_requests_waiting{model_name=\"m\"} 0\ntrtllm_kv_cache_utilization{model_name=\"m\"} 0.7\n"}, 0.7, 7},
		{"TensorRT-LLM's iterations", map[string]string{"/v1/models": signedBy("tensorrt_llm"), "/metrics": `[{"numActiveRequests":8,"numQueuedRequests":0,"kvCacheStats":{"maxNumBlocks":10,"usedNumBlocks":8,"tokensPerBlock":32}}]`}, 0.8, 8},
	} {
		t.Run(run.what, func(t *testing.T) {
			rt := start(t, nil, telling(t, run.pages))
			s := rt.awaitTelemetry("w1", "fresh")
			if s.EngineRunning == nil || *s.EngineRunning != run.running || s.ForeignRunning+s.ForeignWaiting < run.running {
				t.Errorf("%d: %v running, %d+%d foreign, want %d", i, deref(s.EngineRunning), s.ForeignRunning, s.ForeignWaiting, run.running)
			}
			if unknown := s.KVUsage == nil; unknown != (run.usage < 0) || !unknown && *s.KVUsage != run.usage {
				t.Errorf("KV use %v, want %v", s.KVUsage, run.usage)
			}
			if missing := slices.Contains(s.SignalsMissing, "kv_usage"); missing != (run.usage < 0) {
				t.Errorf("missing: %v", s.SignalsMissing)
			}
			if n := rt.metric("warmpath_engine_signals_missing", `worker="w1"`); int(n) != len(s.SignalsMissing) {
				t.Errorf("the metric says %v missing, the state %v", n, s.SignalsMissing)
			}
		})
	}
}

func TestTEL_01_AMissingSignalIsNotScoredAsIdle(t *testing.T) {
	dead := telling(t, map[string]string{"/v1/models": signedBy("vllm"), "/metrics": "vllm:renamed_running{model_name=\"m\"} 50\nvllm:prompt_tokens_total{model_name=\"m\"} 1\n"})
	idle := telling(t, map[string]string{"/v1/models": signedBy("vllm"), "/metrics": busy(0)})
	slow := func(c *call) { c.wait(50 * time.Millisecond); c.good("x") }
	dead.on(slow)
	idle.on(slow)
	rt := start(t, nil, dead, idle)
	if s := rt.awaitTelemetry("w1", "fresh"); len(s.SignalsMissing) != 3 {
		t.Errorf("missing: %v", s.SignalsMissing)
	}
	if got := underLoad(rt, []*worker{dead, idle}, 60); got[0] > 40 {
		t.Errorf("the worker whose signals are gone got %d of 60", got[0])
	}
}

// TEL-05: pages of 2 MB, mostly histograms, from 64 workers, at the default interval; one page never ends.
func TestTEL_05_LargeAndEndlessPagesAreReadInPassing(t *testing.T) {
	const workers = 64
	var page strings.Builder
	page.WriteString(busy(2))
	for i := 0; page.Len() < 2<<20; i++ {
		fmt.Fprintf(&page, "vllm:request_latency_bucket{engine=\"0\",le=\"%d.0\",model_name=\"m\"} %d.0\n", i%97, i)
	}
	var scrapes, endless, inside, most atomic.Int32
	text := []byte(page.String())
	var all []*worker
	for i := range workers {
		w := newWorker(t, nil)
		rest := asVLLM("m")
		w.onGet(func(out http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path != "/metrics":
				rest(out, r)
			case i > 0:
				out.Write(text)
				scrapes.Add(1)
			default:
				most.Store(max(most.Load(), inside.Add(1)))
				for { // until the router has had enough
					if _, err := out.Write(text); err != nil {
						break
					}
				}
				inside.Add(-1)
				endless.Add(1)
			}
		})
		all = append(all, w)
	}
	rt := start(t, func(c *config.Config) { c.Telemetry = config.Default().Telemetry }, all...)
	for i := 1; i < workers; i++ {
		rt.awaitTelemetry(fmt.Sprintf("w%d", i+1), "fresh")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	from := scrapes.Load()
	eventually(t, "every page to be read three times more, and the endless one to be cut twice", func() bool {
		return scrapes.Load() >= from+3*(workers-1) && endless.Load() >= 2
	})
	runtime.ReadMemStats(&after)
	pages := int64(scrapes.Load() - from)
	if perPage := int64(after.TotalAlloc-before.TotalAlloc) / pages; perPage > 256<<10 {
		t.Errorf("%d bytes are allocated for each page of %d bytes", perPage, len(text))
	}
	if after.HeapAlloc > before.HeapAlloc+64<<20 {
		t.Errorf("the heap grew from %d to %d bytes over %d pages", before.HeapAlloc, after.HeapAlloc, pages)
	}
	if most.Load() != 1 {
		t.Errorf("%d scrapes of the endless page ran at once", most.Load())
	}
	if s := rt.worker("w1"); s.Telemetry == "fresh" {
		t.Error("a page that never ends was taken for counts")
	}
	if rt.metric("warmpath_telemetry_failures_total", `worker="w1"`) == 0 {
		t.Error("the endless page is not counted as a failure")
	}
}

func TestTEL_05_ASlowPageIsNotAskedForTwiceAtOnce(t *testing.T) {
	var inside, most, asked atomic.Int32
	w := newWorker(t, nil)
	b := newBoard(w, "")
	b.answers(func(out http.ResponseWriter, r *http.Request) {
		most.Store(max(most.Load(), inside.Add(1)))
		defer inside.Add(-1)
		asked.Add(1)
		timer := time.NewTimer(180 * time.Millisecond) // the interval is 100 ms
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		}
		io.WriteString(out, busy(1))
	})
	rt := start(t, nil, w)
	rt.awaitTelemetry("w1", "fresh")
	eventually(t, "six scrapes", func() bool { return asked.Load() >= 6 })
	if most.Load() != 1 {
		t.Errorf("%d scrapes ran at once", most.Load())
	}
}

func TestHLT_07_EveryCallCarriesTheWorkersKeyAndNothingShowsIt(t *testing.T) {
	const key = "sk-worker-7f3a9"
	var mu sync.Mutex
	refused, carried := map[string]int{}, map[string]int{}
	w := newWorker(t, nil)
	rest := asVLLM("m")
	guard := func(out http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer "+key {
			refused[r.URL.Path]++
			http.Error(out, "no", http.StatusUnauthorized)
			return false
		}
		carried[r.URL.Path]++
		return true
	}
	w.onGet(func(out http.ResponseWriter, r *http.Request) {
		if guard(out, r) {
			rest(out, r)
		}
	})
	w.on(func(c *call) {
		if guard(c.w, c.r) {
			c.good("x")
		}
	})
	rt := start(t, func(c *config.Config) { c.Workers[0].Key = key; c.AccessLog = true }, w)
	rt.awaitTelemetry("w1", "fresh")
	if r := rt.post("/v1/chat/completions", chat("keyed", false), "Authorization", "Bearer client"); r.status != http.StatusOK || strings.Contains(fmt.Sprint(r.header, r.body), key) {
		t.Errorf("%d %s %v", r.status, r.body, r.header)
	}
	mu.Lock()
	if len(refused) != 0 {
		t.Errorf("without the key: %v", refused)
	}
	for _, path := range []string{"/v1/models", "/version", "/metrics", "/v1/chat/completions"} {
		if carried[path] == 0 {
			t.Errorf("%s was not asked with the key: %v", path, carried)
		}
	}
	mu.Unlock()
	w.on(func(c *call) { c.raw().Close() }) // errors are where secrets leak
	failed := rt.post("/v1/chat/completions", chat("broken", false))
	for _, path := range []string{"/state", "/workers", "/metrics"} {
		page := read(rt.http.Get(rt.AdminURL() + path))
		if strings.Contains(page.body, key) {
			t.Errorf("%s shows the key", path)
		}
	}
	if strings.Contains(rt.log.String(), key) || strings.Contains(failed.body, key) {
		t.Error("the key is in the log or an error")
	}
}
