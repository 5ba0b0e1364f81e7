package metrics

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write docs/METRICS.md")

const page = "../../docs/METRICS.md"

// scrape reads a set's page as a Prometheus server would.
func scrape(t *testing.T, s *Set) string {
	t.Helper()
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("scrape: status %d, %v", resp.StatusCode, err)
	}
	return string(body)
}

func has(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			t.Errorf("the page lacks the line %q", line)
		}
	}
}

func hasNot(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("the page shows %q", part)
		}
	}
}

func TestThePageOfMetricsIsTheCatalogue(t *testing.T) {
	want := []byte(Markdown())
	if *update {
		if err := os.WriteFile(page, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from the catalogue: run go generate ./internal/metrics", page)
	}
}

// full is a set in which every family has a sample.
func full() *Set {
	s := New(func(s *State) {
		s.Workers = []WorkerState{{ID: "a", State: "ready", Returns: 1, HasRunning: true, HasWaiting: true, HasKVUsage: true, HasTelemetryAge: true, HasSignals: true, HasGPU: true, HasGPUMemory: true,
			Events: &EventsState{HasLag: true}, Truth: &TruthState{}}}
		s.TokenModes = []TokenMode{{Model: "m"}}
		s.Sources = []SourceState{{Source: "dns engines:8000", HasAge: true}}
		s.Pools, s.Choices = []PoolState{{Pool: "short"}}, []ChoiceState{{Virtual: "chat", Model: "m", Reason: "only"}}
		s.Forecasts = []ForecastState{{Model: "m"}}
		s.Ghosts = &GhostState{Rules: []GhostRule{{Rule: "fleet"}}}
		s.Bounds, s.Shed = []BoundState{{Name: "connections", Limit: 1}}, []ShedState{{Cache: "prefix_index"}}
		s.Safety.Certificates = []CertificateState{{File: "tls.pem"}}
		s.Forecasts = []ForecastState{{Model: "m"}}
		s.Queue, s.Tenants = &QueueState{Classes: []ClassState{{Class: "standard"}}}, []TenantState{{Tenant: "search"}}
	})
	s.KnowModel("m")
	s.KnowClass("standard")
	s.Waited("standard", "placed").Observe(time.Millisecond)
	s.Model("m").Request("chat", "succeeded")
	l := s.Model("m").Latency("hit")
	l.TTFT.Observe(time.Millisecond)
	w := s.Worker("a")
	w.Error("reset")
	w.Ejected("failing")
	w.Canary("good")
	w.TelemetryFailed()
	w.Request("succeeded")
	w.Tokens("prompt", 10)
	s.Build("v1", "abc", "go1")
	return s
}

func TestEveryFamilyOfTheCatalogueIsExposedWithItsTypeAndUnit(t *testing.T) {
	text := scrape(t, full())
	for _, f := range catalogue {
		if !strings.Contains(text, fmt.Sprintf("# TYPE %s %s\n", f.name, f.kind)) {
			t.Errorf("%s %s is in the catalogue, not on the page", f.kind, f.name)
		}
		if f.kind == kindCounter != strings.HasSuffix(f.name, "_total") || f.kind == kindHistogram != (f.buckets != nil) || f.unit == "" || f.help == "" {
			t.Errorf("%s: kind, name, unit, help or buckets do not fit together", f.name)
		}
	}
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "# TYPE warmpath_"); ok {
			name, _, _ = strings.Cut("warmpath_"+name, " ")
			familyNamed(name)
		}
	}
	for _, name := range []string{"go_goroutines", "process_open_fds", "process_resident_memory_bytes"} {
		if !strings.Contains(text, "\n"+name+" ") {
			t.Errorf("the page lacks %s", name)
		}
	}
}

func TestCountingShowsOnThePage(t *testing.T) {
	s := New(nil)
	s.KnowModel("m")
	s.PromptTokens.Add(100)
	s.PromptTokens.Add(-7)
	s.HitsDeclined.Inc()
	s.Model("m").Request("chat", "succeeded")
	s.Model("m").Request("chat", "cancelled")
	s.Model("m").Request("GET /etc/passwd", "because")
	l := s.Model("m").Latency("partial")
	l.TTFT.Observe(120 * time.Millisecond)
	l.ITL.Observe(-time.Second)
	l.E2E.Observe(2 * time.Second)
	s.Model("m").Latency("").TTFT.Observe(time.Second)
	s.Decision.Observe(30 * time.Microsecond)
	s.Worker("a").Error("refused")
	s.Worker("a").Error("refused")
	s.Worker("a").Error("what a worker said")
	has(t, scrape(t, s),
		`warmpath_prompt_tokens_total 100`, `warmpath_hits_declined_total 1`, `warmpath_retries_total 0`,
		`warmpath_requests_total{api="chat",model="m",outcome="succeeded"} 1`,
		`warmpath_requests_total{api="chat",model="m",outcome="cancelled"} 1`,
		`warmpath_requests_total{api="other",model="m",outcome="other"} 1`,
		`warmpath_ttft_seconds_bucket{hit="partial",model="m",le="0.1"} 0`,
		`warmpath_ttft_seconds_bucket{hit="partial",model="m",le="0.2"} 1`,
		`warmpath_itl_seconds_sum{hit="partial",model="m"} 0`,
		`warmpath_e2e_seconds_sum{hit="partial",model="m"} 2`,
		`warmpath_ttft_seconds_count{hit="miss",model="m"} 1`,
		`warmpath_decision_seconds_bucket{le="4e-05"} 1`,
		`warmpath_upstream_errors_total{class="refused",worker="a"} 2`,
		`warmpath_upstream_errors_total{class="other",worker="a"} 1`)
}

func TestOBS02AFloodOfInventedNamesOpensNoSeries(t *testing.T) {
	s := New(nil)
	s.KnowModel("configured")
	s.Model("configured").Request("chat", "succeeded")
	before := strings.Count(scrape(t, s), "\n")
	for i := range 20_000 {
		m := s.Model(fmt.Sprint("invented-", i))
		m.Request(fmt.Sprint("/path/", i), fmt.Sprint("status ", i))
		m.Latency(fmt.Sprint(i)).TTFT.Observe(time.Second)
		if got := s.ModelLabel(fmt.Sprint("invented-", i)); got != Other {
			t.Fatalf("an invented model got the label %q", got)
		}
	}
	s.KnowModel("announced-after-the-flood")
	s.Model("announced-after-the-flood").Request("chat", "succeeded")
	s.Model("configured").Request("chat", "succeeded")
	text := scrape(t, s)
	if grown := strings.Count(text, "\n") - before; grown >= 200 {
		t.Errorf("the page grew by %d lines", grown)
	}
	has(t, text, `warmpath_requests_total{api="chat",model="configured",outcome="succeeded"} 2`,
		`warmpath_requests_total{api="chat",model="announced-after-the-flood",outcome="succeeded"} 1`,
		`warmpath_requests_total{api="other",model="other",outcome="other"} 20000`)
}

func TestKnownNamesAreBoundedToo(t *testing.T) {
	s := New(nil)
	for i := range modelsMax + 50 {
		s.KnowModel(fmt.Sprint("m", i))
	}
	if s.ModelLabel(fmt.Sprint("m", modelsMax-1)) == Other || s.ModelLabel(fmt.Sprint("m", modelsMax)) != Other {
		t.Errorf("the bound of %d models is not where it should be", modelsMax)
	}
	for i := range workersMax + 50 {
		s.Worker(fmt.Sprint("w", i)).Ejected("failing")
	}
	if n := strings.Count(scrape(t, s), "warmpath_ejections_total{"); n != workersMax+1 {
		t.Errorf("%d series of workers, want %d and one for the others", n, workersMax)
	}
}

func TestTheSeriesOfAWorkerGoWithIt(t *testing.T) {
	s := New(nil)
	held := s.Worker("a")
	held.Error("reset")
	held.Ejected("failing")
	held.TelemetryFailed()
	held.Request("succeeded")
	held.Tokens("prompt", 10)
	held.Tokens("cached", -4)
	has(t, scrape(t, s), `warmpath_worker_requests_total{outcome="succeeded",worker="a"} 1`, `warmpath_worker_tokens_total{kind="prompt",worker="a"} 10`,
		`warmpath_worker_tokens_total{kind="cached",worker="a"} 0`)
	s.Worker("b").Error("reset")
	s.DeleteWorker("a")
	s.DeleteWorker("never-known")
	held.Error("reset")
	held.Error("timeout") // a class it never had: no series may be opened either
	held.Ejected("failing")
	held.Request("failed")
	held.Request("because")
	held.Tokens("completion", 10)
	text := scrape(t, s)
	hasNot(t, text, `worker="a"`)
	has(t, text, `warmpath_upstream_errors_total{class="reset",worker="b"} 1`)
	s.Worker("a").Error("reset")
	has(t, scrape(t, s), `warmpath_upstream_errors_total{class="reset",worker="a"} 1`)
}

func TestALateEventOfARemovedWorkerLeavesNoSeriesForGood(t *testing.T) {
	there := []WorkerState{{ID: "a"}, {ID: "b"}}
	s := New(func(s *State) { s.Workers = there })
	s.Worker("a").Error("reset")
	s.Worker("b").Error("reset")
	has(t, scrape(t, s), `warmpath_upstream_errors_total{class="reset",worker="a"} 1`)
	there = there[1:]
	s.DeleteWorker("a")
	s.Worker("a").Error("reset")
	scrape(t, s)
	text := scrape(t, s)
	hasNot(t, text, `worker="a"`)
	has(t, text, `warmpath_upstream_errors_total{class="reset",worker="b"} 1`)
}

func TestAScrapeSeesTheStateOfItsMoment(t *testing.T) {
	now := State{IndexBytes: 10, IndexBytesMax: 100, IndexBlocks: 2, DecisionLogDrops: 3,
		Workers: []WorkerState{{ID: "a", State: "ejected", InFlightRequests: 4, InFlightTokens: 900},
			{ID: "a", State: "ready"}, {ID: "b", State: "strange", HasRunning: true, EngineRunning: 5, HasKVUsage: true, KVUsage: .5, HasTelemetryAge: true, TelemetryAgeSeconds: 1.5}}}
	s := New(func(s *State) { *s = now })
	text := scrape(t, s)
	has(t, text, `warmpath_index_bytes 10`, `warmpath_index_blocks 2`, `warmpath_decision_log_drops_total 3`,
		`warmpath_worker_state{state="ejected",worker="a"} 1`, `warmpath_worker_state{state="ready",worker="a"} 0`,
		`warmpath_worker_inflight_requests{worker="a"} 4`, `warmpath_worker_inflight_tokens{worker="a"} 900`,
		`warmpath_worker_state{state="unknown",worker="b"} 1`, `warmpath_engine_requests_running{worker="b"} 5`,
		`warmpath_engine_kv_usage_ratio{worker="b"} 0.5`, `warmpath_telemetry_age_seconds{worker="b"} 1.5`)
	hasNot(t, text, `running{worker="a"}`, `waiting{worker="b"}`, `age_seconds{worker="a"}`)
	now = State{IndexBytes: 11}
	text = scrape(t, s)
	has(t, text, `warmpath_index_bytes 11`)
	hasNot(t, text, `worker="a"`)
}

func TestCountingFromManyGoroutinesLosesNothing(t *testing.T) {
	s := New(nil)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 1000 {
				s.KnowModel(fmt.Sprint("m", i%4))
				s.Model(fmt.Sprint("m", i%4)).Request("chat", "succeeded")
				s.Worker("a").Error("reset")
				if i == 500 && g == 0 {
					s.DeleteWorker("b")
				}
			}
		})
	}
	all.Wait()
	has(t, scrape(t, s), `warmpath_requests_total{api="chat",model="m0",outcome="succeeded"} 2000`, `warmpath_upstream_errors_total{class="reset",worker="a"} 8000`)
}

func TestCountingAllocatesNothing(t *testing.T) {
	s := New(nil)
	s.KnowModel("m")
	run := func() {
		m := s.Model("m")
		m.Request("chat", "succeeded")
		l := m.Latency("hit")
		l.TTFT.Observe(time.Millisecond)
		l.ITL.Observe(time.Millisecond)
		s.PromptTokens.Add(5)
		s.Decision.Observe(time.Microsecond)
		s.Worker("a").Error("reset")
		s.Worker("a").Request("succeeded")
		s.Worker("a").Tokens("prompt", 10)
	}
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations for one request's events", n)
	}
}

func BenchmarkOneRequest(b *testing.B) {
	s := New(nil)
	s.KnowModel("m")
	b.ReportAllocs()
	for b.Loop() {
		m := s.Model("m")
		m.Request("chat", "succeeded")
		l := m.Latency("hit")
		l.TTFT.Observe(time.Millisecond)
		l.ITL.Observe(time.Millisecond)
		s.PromptTokens.Add(5)
	}
}
