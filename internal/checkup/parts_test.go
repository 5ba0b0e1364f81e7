package checkup

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRanksBehindAnAddressAreHeldAgainstTheConfiguration(t *testing.T) {
	page := func(ranks int) func(*fake) string {
		return func(f *fake) string {
			var b strings.Builder
			for rank := range ranks {
				fmt.Fprintf(&b, "vllm:num_requests_running{engine=\"%d\",model_name=\"m\"} %d\nvllm:num_requests_waiting{engine=\"%d\",model_name=\"m\"} 0\n", rank, f.running*rank, rank)
			}
			if ranks == 0 {
				b.WriteString("vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n")
			}
			return b.String()
		}
	}
	f := func(configured, there int, want string) {
		t.Helper()
		_, parts := look(t, (&fake{owner: "vllm", metrics: page(there)}).listen(t), func(w *Worker, o *Options) { w.Ranks, o.Requests = configured, false })
		got := ""
		if c, ok := parts["ranks"]; ok {
			got = told(c)
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%d configured, %d there: %q instead of %q", configured, there, got, want)
		}
	}
	f(0, 1, "")
	f(0, 0, "")
	f(0, 4, "partly: 4 data-parallel ranks, summed | each has a cache of its own, and which of them holds a prompt is left to chance | set this worker's ranks: 4")
	f(4, 4, "full: 4 data-parallel ranks, told apart")
	f(8, 4, "broken: 8 are configured, the engine has 4 |  | set this worker's ranks: 4")
	f(2, 0, "partly: 2 are configured, the engine's counts name none")
}

func TestTheGPUsThatAnExporterTellsOfAreShown(t *testing.T) {
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the worker's key went to the exporter")
		}
		io.WriteString(w, "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 40\nDCGM_FI_DEV_FB_USED{gpu=\"0\"} 60000\nDCGM_FI_DEV_FB_FREE{gpu=\"0\"} 20000\n")
	}))
	defer exporter.Close()
	f := func(page string, gpus []string, want string) {
		t.Helper()
		_, parts := look(t, (&fake{owner: "vllm", metrics: vllmPage(true)}).listen(t), func(w *Worker, o *Options) { w.GPUMetrics, w.GPUs, w.Key, o.Requests = page, gpus, "k", false })
		if got := told(parts["gpus"]); !strings.HasPrefix(got, want) {
			t.Errorf("%s %v: %q instead of %q", page, gpus, got, want)
		}
	}
	f(exporter.URL, nil, "full: 40 % busy, 75 % of their memory in use")
	f(exporter.URL+"/metrics", []string{"0"}, "full: 40 % busy")
	f(exporter.URL, []string{"7"}, "none: the page shows no GPU that is this worker's (settings gpu_metrics, gpus) | the load that others put on the GPUs is not seen | correct")
	f("http://127.0.0.1:1/metrics", nil, "none: GET /metrics: ")
}

func TestWhatClientsRequestsShowNeedsNoneOfOurs(t *testing.T) {
	f := func(seen Traffic, inject bool, part, want string) {
		t.Helper()
		r, _ := look(t, (&fake{owner: "vllm", metrics: vllmPage(true)}).listen(t), func(_ *Worker, o *Options) { o.Requests = false })
		r.Use(seen, inject)
		for _, c := range r.Checks {
			if c.Part == part && !strings.HasPrefix(told(c), want) {
				t.Errorf("%s of %+v: %q instead of %q", part, seen, told(c), want)
			}
			if c.Part == part && (c.Gain != "") != (r.Verdict == VerdictImprovable) {
				t.Errorf("%s of %+v: %s, %q", part, seen, r.Verdict, told(c))
			}
		}
	}
	f(Traffic{}, true, "stream", "unseen: no request was to be sent")
	f(Traffic{Streams: 7}, true, "stream", "full: 7 streams of clients")
	f(Traffic{Streams: 7, Unterminated: 2}, true, "stream", "partly: 2 of 7 streams of clients had no [DONE] at the end | a stream that broke off")
	f(Traffic{Streams: 7, Counted: 6}, true, "usage", "full: told in 6 of 7")
	f(Traffic{Streams: 7}, true, "usage", "none: asked for, and not told")
	f(Traffic{Streams: 7}, false, "usage", "none: streams tell none unless their client asks | the tokens of streams are estimated, and what was cached is not learned from them | set inject_usage: true")
	f(Traffic{Told: 5, PromptTokens: 100, CachedTokens: 40}, true, "cached tokens", "full: told in 5 answers: 40 of 100 tokens")
	f(Traffic{Told: 5, PromptTokens: 100}, true, "cached tokens", "unseen: told, and 0 so far")
	f(Traffic{Untold: 5, Expected: 2}, true, "cached tokens", "unseen: not told so far")
	f(Traffic{Untold: 5, Expected: 3}, true, "cached tokens", "none: not told, also where some were expected | what is cached is assumed from what was sent there, and never corrected | start vllm serve with --enable-prompt-tokens-details")
	f(Traffic{Left: 1}, true, "cancellation", "unseen: clients have left; ")
}
