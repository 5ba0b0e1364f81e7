// Package metrics holds every metric warmpath exposes: one catalogue of names, units, labels and help, and typed handles to count with.
//
// Counting is for the hot path: handles are resolved once and then cost an atomic add. What merely mirrors the router's state
// (requests in flight, index bytes, telemetry age) is asked for when somebody scrapes, so a page shows the state of that moment:
//
//	m := metrics.New(func(s *metrics.State) { s.IndexBytes = index.Stats().Bytes })
//	m.KnowModel("llama-3.1-8b")                     // configured or announced by an engine: it keeps its own label
//	lat := m.Model("llama-3.1-8b").Latency("hit")   // hold it for the request
//	lat.TTFT.Observe(120 * time.Millisecond)
//	m.Model("llama-3.1-8b").Request("chat", "succeeded")
//	http.Handle("/metrics", m.Handler())
package metrics

//go:generate go test . -run TestThePageOfMetricsIsTheCatalogue -update

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Counter only grows. Adding a negative number adds nothing: a worker's reply may claim anything.
type Counter struct{ c prometheus.Counter }

// Inc adds one.
func (c Counter) Inc() { c.c.Inc() }

// Add adds n; n <= 0 adds nothing.
func (c Counter) Add(n int) {
	if n > 0 {
		c.c.Add(float64(n))
	}
}

// Histogram collects durations; they are exposed in seconds.
type Histogram struct{ o prometheus.Observer }

// Observe adds one duration; a negative one (a clock that stepped back) counts as 0.
func (h Histogram) Observe(d time.Duration) { h.o.Observe(max(d, 0).Seconds()) }

// ObserveTraced is Observe with the trace that the bucket's exemplar names; "" names none.
func (h Histogram) ObserveTraced(d time.Duration, trace string) {
	if with, ok := h.o.(prometheus.ExemplarObserver); ok && trace != "" {
		with.ObserveWithExemplar(max(d, 0).Seconds(), prometheus.Labels{"trace_id": trace})
		return
	}
	h.Observe(d)
}

// Set is every metric of one router. All methods may be called from any goroutine; counting allocates nothing.
type Set struct {
	PromptTokens          Counter   // prompt tokens of replies that told their usage
	CompletionTokens      Counter   // generated tokens of replies that told their usage
	CachedTokensPredicted Counter   // prompt tokens expected to be cached on the chosen worker
	CachedTokensReported  Counter   // prompt tokens the engine reported as cached
	HitsDeclined          Counter   // placements that gave up a longer match for a less loaded worker
	Retries               Counter   // attempts after one that failed
	Moved                 Counter   // attempts after one that was taken back from a worker on its leave
	Cancellations         Counter   // requests whose client left,
	CancelledByOperators  Counter   // and those that somebody cancelled at the admin port
	RequestsWithoutText   Counter   // requests that carry no text to match and were placed by load alone
	StreamsUnterminated   Counter   // streams that ended cleanly without their dialect's terminator
	RepliesUnmetered      Counter   // successful replies that told no usage
	Decision              Histogram // scoring, choosing and reserving

	registry *prometheus.Registry
	collect  func(*State) // nil: the state is not known here
	models   *handles[Model]
	workers  *handles[Worker]
	waits    *handles[waits] // by class of the queue
	vecs     vectors
}

// vectors are the labelled families, from which handles are made.
type vectors struct {
	requests, upstreamErrors, ejections, canaries, telemetryFailures *prometheus.CounterVec
	workerRequests, workerTokens                                     *prometheus.CounterVec
	ttft, itl, e2e                                                   *prometheus.HistogramVec
}

// New makes the metrics of one router. collect fills in the state of the moment at each scrape; it may be nil, and it is called
// from the scraper's goroutine with nothing held, so it may lock what it reads. The series of workers that it does not list are deleted.
func New(collect func(*State)) *Set {
	r := prometheus.NewRegistry()
	s := &Set{
		PromptTokens:          newCounter(r, "warmpath_prompt_tokens_total"),
		CompletionTokens:      newCounter(r, "warmpath_completion_tokens_total"),
		CachedTokensPredicted: newCounter(r, "warmpath_cached_tokens_predicted_total"),
		CachedTokensReported:  newCounter(r, "warmpath_cached_tokens_reported_total"),
		HitsDeclined:          newCounter(r, "warmpath_hits_declined_total"),
		Retries:               newCounter(r, "warmpath_retries_total"),
		Moved:                 newCounter(r, "warmpath_moved_total"),
		RequestsWithoutText:   newCounter(r, "warmpath_requests_without_text_total"),
		StreamsUnterminated:   newCounter(r, "warmpath_streams_without_terminator_total"),
		RepliesUnmetered:      newCounter(r, "warmpath_replies_unmetered_total"),
		Decision:              Histogram{newHistograms(r, "warmpath_decision_seconds").WithLabelValues()},
		registry:              r,
		vecs: vectors{
			requests:          newCounters(r, "warmpath_requests_total"),
			upstreamErrors:    newCounters(r, "warmpath_upstream_errors_total"),
			ejections:         newCounters(r, "warmpath_ejections_total"),
			canaries:          newCounters(r, "warmpath_canaries_total"),
			telemetryFailures: newCounters(r, "warmpath_telemetry_failures_total"),
			workerRequests:    newCounters(r, "warmpath_worker_requests_total"),
			workerTokens:      newCounters(r, "warmpath_worker_tokens_total"),
			ttft:              newHistograms(r, "warmpath_ttft_seconds"),
			itl:               newHistograms(r, "warmpath_itl_seconds"),
			e2e:               newHistograms(r, "warmpath_e2e_seconds"),
		},
	}
	s.models = newHandles(modelsMax, func(name string) *Model { return &Model{name: name, vecs: &s.vecs} })
	s.workers = newHandles(workersMax, func(id string) *Worker { return &Worker{id: id, vecs: &s.vecs} })
	ofQueue := newHistograms(r, "warmpath_queue_wait_seconds")
	s.waits = newHandles(classesMax, func(name string) *waits { return newWaits(ofQueue, name) })
	cancellations := newCounters(r, "warmpath_cancellations_total")
	s.Cancellations, s.CancelledByOperators = Counter{cancellations.WithLabelValues("client")}, Counter{cancellations.WithLabelValues("operator")}
	s.collect = collect
	if collect == nil {
		collect = func(*State) {}
	}
	r.MustRegister(newStateCollector(collect, s.ModelLabel), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return s
}

func newCounter(r *prometheus.Registry, name string) Counter {
	return Counter{newCounters(r, name).WithLabelValues()}
}

func newCounters(r *prometheus.Registry, name string) *prometheus.CounterVec {
	f := familyNamed(name)
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.name, Help: f.help}, f.labels)
	r.MustRegister(v)
	return v
}

// Bounds of native histograms: buckets of which each is a tenth wider than the one below, at most so many in a series; then they are merged.
const (
	nativeFactor     = 1.1
	nativeBucketsMax = 100
)

func newHistograms(r *prometheus.Registry, name string) *prometheus.HistogramVec {
	f := familyNamed(name)
	o := prometheus.HistogramOpts{Name: f.name, Help: f.help, Buckets: f.buckets}
	if f.native {
		o.NativeHistogramBucketFactor, o.NativeHistogramMaxBucketNumber, o.NativeHistogramMinResetDuration = nativeFactor, nativeBucketsMax, time.Hour
	}
	v := prometheus.NewHistogramVec(o, f.labels)
	r.MustRegister(v)
	return v
}

// Build says what the program was built from. It is called once.
func (s *Set) Build(version, commit, goVersion string) {
	f := familyNamed("warmpath_build_info")
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: f.name, Help: f.help}, f.labels)
	s.registry.MustRegister(v)
	v.WithLabelValues(version, commit, goVersion).Set(1)
}

// Handler serves the exposition. A scrape that fails in one collector still shows the others. The series of workers that are gone are
// deleted before the page is gathered: collectors are asked side by side, so one of them cannot clean up for the others.
func (s *Set) Handler() http.Handler {
	page := promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, EnableOpenMetrics: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.collect != nil {
			var now State
			s.collect(&now)
			there := make(map[string]bool, len(now.Workers))
			for i := range now.Workers {
				there[now.Workers[i].ID] = true
			}
			s.keepWorkers(there)
		}
		page.ServeHTTP(w, r)
	})
}
