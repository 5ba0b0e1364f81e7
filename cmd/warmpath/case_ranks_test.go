package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

func TestRanksBehindOneAddressAreToldApartWhenAsked(t *testing.T) {
	pages := map[string]string{"/v1/models": signedBy("vllm"), "/metrics": "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 20\nvllm:num_requests_running{engine=\"1\",model_name=\"m\"} 2\n" +
		"vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 0\nvllm:num_requests_waiting{engine=\"1\",model_name=\"m\"} 0\n"}
	w := telling(t, pages)
	rt := start(t, nil)
	if err := rt.addWorkers(config.Worker{URL: w.url, ID: "g", Ranks: 2}); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]int{"g-dp0": 20, "g-dp1": 2} {
		if s := rt.awaitTelemetry(id, "fresh"); s.EngineRunning == nil || *s.EngineRunning != want {
			t.Errorf("%s: %v running, want %d", id, deref(s.EngineRunning), want)
		}
	}
	for i := range 4 {
		r := rt.post("/v1/chat/completions", chat(fmt.Sprint("ranks ", i), false), "X-Data-Parallel-Rank", "7")
		if r.status != http.StatusOK || r.header.Get("X-Warmpath-Worker") != "g-dp1" {
			t.Errorf("%d from %s, want the rank with less to do", r.status, r.header.Get("X-Warmpath-Worker"))
		}
	}
	for _, c := range w.calls() {
		if got := c.r.Header.Values("X-Data-Parallel-Rank"); len(got) != 1 || got[0] != "1" {
			t.Errorf("the engine is told rank %v", got)
		}
	}
	if err := rt.addWorkers(config.Worker{URL: w.url, ID: "g", Ranks: 3}); err == nil {
		t.Error("the same ranks were added twice")
	}
	if n := len(rt.state().Workers); n != 2 {
		t.Errorf("%d workers after a failed addition", n)
	}
}

// exporter is a DCGM exporter whose first GPU is as busy as it is set to be.
func exporter(t *testing.T, percent *atomic.Int32) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the worker's key went to the exporter")
		}
		fmt.Fprintf(w, "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-a\"} %d\nDCGM_FI_DEV_GPU_UTIL{gpu=\"1\",UUID=\"GPU-b\"} 77\n", percent.Load())
		io.WriteString(w, "DCGM_FI_DEV_FB_USED{gpu=\"0\"} 60000\nDCGM_FI_DEV_FB_FREE{gpu=\"0\"} 20000\nDCGM_FI_DEV_FB_USED{gpu=\"1\"} 1\nDCGM_FI_DEV_FB_FREE{gpu=\"1\"} 1\n")
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestTheGPUsOfAWorkerAreShown(t *testing.T) {
	var percent atomic.Int32
	percent.Store(40)
	url := exporter(t, &percent)
	for name, pages := range map[string]map[string]string{
		"of an engine that is scraped":     {"/v1/models": signedBy("vllm"), "/metrics": busy(1)},
		"of one that tells nothing itself": {"/v1/models": signedBy("somebody")},
	} {
		t.Run(name, func(t *testing.T) {
			rt := start(t, func(c *config.Config) {
				c.Workers[0].Key, c.Workers[0].GPUMetrics, c.Workers[0].GPUs = "k", url, "0"
			}, telling(t, pages))
			s := rt.awaitTelemetry("w1", "fresh")
			if s.GPUUsage == nil || *s.GPUUsage != 0.4 || s.GPUMemory == nil || *s.GPUMemory != 0.75 {
				t.Errorf("GPU %v, memory %v, want 0.4 and 0.75", s.GPUUsage, s.GPUMemory)
			}
			if n := rt.metric("warmpath_gpu_usage_ratio", `worker="w1"`); n != 0.4 {
				t.Errorf("the metric says %v", n)
			}
		})
	}
}

func TestAnExporterThatFailsTakesNothingElseWithIt(t *testing.T) {
	for name, page := range map[string]http.HandlerFunc{
		"404": http.NotFound, "another's GPUs": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "DCGM_FI_DEV_GPU_UTIL{gpu=\"5\"} 1\n") },
		"hangs": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(page)
			t.Cleanup(s.Close)
			rt := start(t, func(c *config.Config) { c.Workers[0].GPUMetrics, c.Workers[0].GPUs = s.URL+"/metrics", "0" }, telling(t, map[string]string{"/v1/models": signedBy("vllm"), "/metrics": busy(3)}))
			got := rt.awaitTelemetry("w1", "fresh")
			if got.EngineRunning == nil || *got.EngineRunning != 3 || got.GPUUsage != nil {
				t.Errorf("%v running, GPU %v", deref(got.EngineRunning), got.GPUUsage)
			}
			if !strings.Contains(rt.log.String(), "no word of the worker's GPUs") {
				t.Error("the log does not say so")
			}
		})
	}
}

// PRF-05, the part that does not depend on the machine: long prompts in flight together, each passes whole, and what is held for them is
// a small multiple of their bytes. The short ones among them are answered while the long ones are held up at the worker.
func TestPRF_05_LongPromptsPassWholeBesideShortOnes(t *testing.T) {
	const long, together = 220 << 10, 50
	release := make(chan struct{})
	w := newWorker(t, func(c *call) {
		if len(c.body) > long {
			<-release
		}
		c.good("x")
	})
	w.forgets = true
	rt := start(t, func(c *config.Config) { c.Queue.Enabled = false }, w) // engines take the long ones in turn, this one none
	var all sync.WaitGroup
	for i := range together {
		all.Go(func() {
			body := chat(fmt.Sprint("long ", i, strings.Repeat(" word", long/5)), false)
			if r := rt.post("/v1/chat/completions", body); r.status != http.StatusOK {
				t.Errorf("%d %s", r.status, r.body)
			}
		})
	}
	eventually(t, "the long ones to be with the worker", func() bool { return rt.worker("w1").InFlight == together })
	for i := range 20 {
		if r := rt.post("/v1/chat/completions", chat(fmt.Sprint("short ", i), false)); r.status != http.StatusOK {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	close(release)
	all.Wait()
	rt.idle()
}

func TestABusyGPUWithoutARequestOfOursIsForeignLoad(t *testing.T) {
	var percent atomic.Int32
	percent.Store(95)
	rt := start(t, func(c *config.Config) { c.Workers[0].GPUMetrics, c.Workers[0].GPUs = exporter(t, &percent), "0" }, telling(t, map[string]string{"/v1/models": signedBy("somebody")}))
	s := rt.awaitTelemetry("w1", "fresh")
	if s.ForeignRunning != 0 {
		t.Errorf("%d foreign at once: what shows may be our own last request, the exporter is slow", s.ForeignRunning)
	}
	if s.GPUUsage == nil || *s.GPUUsage < 0.9 || s.TelemetryAge > float64(time.Minute) {
		t.Errorf("GPU %v", s.GPUUsage)
	}
}
