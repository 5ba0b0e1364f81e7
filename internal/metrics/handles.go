package metrics

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Model counts for one model name. Its series appear with their first event, so an idle model costs no lines.
type Model struct {
	name     string
	vecs     *vectors
	requests [7][8]atomic.Pointer[Counter] // by place in apis, then in outcomes
	latency  [4]atomic.Pointer[Latency]    // by place in hits
}

// Latency is the three histograms of one model and one kind of hit.
type Latency struct {
	TTFT Histogram // first token minus arrival
	ITL  Histogram // one gap between tokens
	E2E  Histogram // last byte minus arrival
}

// KnowModel gives a model its own label from now on: one that the configuration or an engine names. Past 256 names, and for
// names that only clients use, the label is "other": a flood of invented names opens no series.
func (s *Set) KnowModel(name string) { s.models.add(name) }

// ModelLabel is the label value that a model's events count under: its name when known, else "other".
func (s *Set) ModelLabel(name string) string {
	m, _ := s.models.get(name)
	return m.name
}

// Model returns the handle of a known model, or that of "other".
func (s *Set) Model(name string) *Model {
	m, _ := s.models.get(name)
	return m
}

// Request counts a request that ended. api and outcome are words of the catalogue; any other word counts as "other".
func (m *Model) Request(api, outcome string) {
	a, o := place(apis, api), place(outcomes, outcome)
	p := &m.requests[a][o]
	c := p.Load()
	if c == nil {
		c = &Counter{m.vecs.requests.WithLabelValues(nameOf(outcomes, o), nameOf(apis, a), m.name)}
		p.Store(c)
	}
	c.Inc()
}

// Latency returns the histograms for a hit, partial, miss or declined placement; any other word (none, no text) is a miss.
func (m *Model) Latency(hit string) *Latency {
	i := place(hits, hit)
	if i == len(hits) {
		i = place(hits, "miss")
	}
	p := &m.latency[i]
	l := p.Load()
	if l == nil {
		l = &Latency{
			TTFT: Histogram{m.vecs.ttft.WithLabelValues(m.name, hits[i])},
			ITL:  Histogram{m.vecs.itl.WithLabelValues(m.name, hits[i])},
			E2E:  Histogram{m.vecs.e2e.WithLabelValues(m.name, hits[i])},
		}
		p.Store(l)
	}
	return l
}

// Worker counts for one worker. Hold the handle while a request is on the worker: events that come after DeleteWorker then count
// nowhere, instead of opening the series of a worker that is gone.
type Worker struct {
	id                string
	vecs              *vectors
	errors            [10]atomic.Pointer[Counter] // by place in classes
	ejections         [5]atomic.Pointer[Counter]  // by place in causes
	canaries          [5]atomic.Pointer[Counter]  // by place in canaries
	telemetryFailures atomic.Pointer[Counter]
	requests          [8]atomic.Pointer[Counter] // by place in outcomes
	tokens            [4]atomic.Pointer[Counter] // by place in kinds

	mu   sync.Mutex // guards the making of series against DeleteWorker
	gone bool
}

// Worker returns the handle of a worker and makes it known, up to 1,024 of them; more count as "other".
func (s *Set) Worker(id string) *Worker {
	if w, known := s.workers.get(id); known {
		return w
	}
	return s.workers.add(id)
}

// DeleteWorker takes a worker's series off the page. A worker added later under the same id starts from zero.
func (s *Set) DeleteWorker(id string) {
	w := s.workers.remove(id)
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = true
	byID := map[string]string{"worker": id}
	s.vecs.upstreamErrors.DeletePartialMatch(byID)
	s.vecs.ejections.DeletePartialMatch(byID)
	s.vecs.canaries.DeletePartialMatch(byID)
	s.vecs.telemetryFailures.DeletePartialMatch(byID)
	s.vecs.workerRequests.DeletePartialMatch(byID)
	s.vecs.workerTokens.DeletePartialMatch(byID)
}

// keepWorkers deletes the series of all other workers: those that a late event opened again after DeleteWorker.
func (s *Set) keepWorkers(there map[string]bool) {
	for id := range *s.workers.byName.Load() {
		if !there[id] {
			s.DeleteWorker(id)
		}
	}
}

// Error counts an attempt that failed. class is a word of the catalogue; any other word counts as "other".
func (w *Worker) Error(class string) {
	i := place(classes, class)
	w.count(&w.errors[i], func() prometheus.Counter { return w.vecs.upstreamErrors.WithLabelValues(nameOf(classes, i), w.id) })
}

// Ejected counts the worker being put out. cause is a word of the catalogue; any other word counts as "other".
func (w *Worker) Ejected(cause string) {
	i := place(causes, cause)
	w.count(&w.ejections[i], func() prometheus.Counter { return w.vecs.ejections.WithLabelValues(w.id, nameOf(causes, i)) })
}

// Canary counts a canary by its outcome, a word of the catalogue.
func (w *Worker) Canary(outcome string) {
	i := place(canaries, outcome)
	w.count(&w.canaries[i], func() prometheus.Counter { return w.vecs.canaries.WithLabelValues(w.id, nameOf(canaries, i)) })
}

// TelemetryFailed counts a scrape that failed.
func (w *Worker) TelemetryFailed() {
	w.count(&w.telemetryFailures, func() prometheus.Counter { return w.vecs.telemetryFailures.WithLabelValues(w.id) })
}

// Request counts a request that ended, of which it was the worker asked last. outcome is a word of the catalogue; any other counts as "other".
func (w *Worker) Request(outcome string) {
	i := place(outcomes, outcome)
	w.count(&w.requests[i], func() prometheus.Counter { return w.vecs.workerRequests.WithLabelValues(w.id, nameOf(outcomes, i)) })
}

// Tokens counts tokens of a reply. kind is prompt, cached or completion; any other word counts as "other".
func (w *Worker) Tokens(kind string, n int) {
	i := place(kinds, kind)
	w.add(&w.tokens[i], n, func() prometheus.Counter { return w.vecs.workerTokens.WithLabelValues(w.id, nameOf(kinds, i)) })
}

// count counts one event, see add.
func (w *Worker) count(p *atomic.Pointer[Counter], series func() prometheus.Counter) {
	w.add(p, 1, series)
}

// add counts on a series that is made at its first event.
func (w *Worker) add(p *atomic.Pointer[Counter], n int, series func() prometheus.Counter) {
	c := p.Load()
	if c == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.gone {
			return
		}
		c = &Counter{series()}
		p.Store(c)
	}
	c.Add(n)
}
