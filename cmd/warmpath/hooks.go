package main

import (
	"errors"
	"log/slog"
	"time"

	"github.com/warmpath/warmpath/internal/facts"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/telemetry"
)

// What the data plane and telemetry tell the rest of the program: metrics, the decision log, the access log, the fleet.

func (r *router) hooks() proxy.Hooks {
	return proxy.Hooks{
		Find:    r.exact.find,
		Settled: r.settled,
		Tracer:  r.tracing.tracer,
		Inside:  r.archive.inside,
		Decided: func(d time.Duration) { r.metrics.Decision.Observe(d) },
		Retried: r.retried,
		UpstreamError: func(w *fleet.Worker, class string) {
			r.refusals.failed(class)
			r.archive.failed(w)
			r.metrics.Worker(w.ID).Error(class)
		},
		Ejected: func(w *fleet.Worker, why fleet.Ejection) { r.ejected(w.ID, why) },
	}
}

// settled counts and logs one request that is over.
func (r *router) settled(f *facts.Facts) {
	m, model := r.metrics, r.metrics.Model(f.Model)
	model.Request(f.API.String(), string(f.Outcome))
	r.countUsage(f)
	r.refusals.note(f)
	r.exact.settled(f)
	r.waited(f)
	switch {
	case f.Operator != "":
		m.CancelledByOperators.Inc()
	case f.Outcome == outcome.Cancelled:
		m.Cancellations.Inc()
	}
	if f.Unterminated {
		m.StreamsUnterminated.Inc()
	}
	if f.Tries > 0 && len(f.Chain.Keys) == 0 {
		m.RequestsWithoutText.Inc()
	}
	if w := f.Decision.Worker; w != nil {
		m.Worker(w.ID).Request(string(f.Outcome))
		hit := f.Decision.Hit.String()
		if hit == "declined" {
			m.HitsDeclined.Inc()
		}
		lat, sampled := model.Latency(hit), ""
		if f.Trace.Sampled {
			sampled = f.Trace.Trace.String()
		}
		if f.Stream && !f.FirstToken.IsZero() {
			lat.TTFT.ObserveTraced(f.FirstToken.Sub(f.Started), sampled)
		}
		for _, gap := range f.Gaps {
			lat.ITL.Observe(seconds(gap))
		}
		if f.Outcome == outcome.Succeeded {
			lat.E2E.ObserveTraced(f.Ended.Sub(f.Started), sampled)
		}
	}
	r.regretted(f)
	r.ghosts.settled(f)
	r.prefixes.settled(f)
	r.archive.settled(f, r.decisions.Load())
	r.tracing.sender.Settled(f)
	if r.settings().AccessLog {
		r.logAccess(f)
	}
}

// countUsage counts tokens. What was predicted is counted only beside what was reported, so that the two can be compared.
func (r *router) countUsage(f *facts.Facts) {
	m := r.metrics
	if !f.Usage.HasPrompt {
		if f.Outcome == outcome.Succeeded {
			m.RepliesUnmetered.Inc()
		}
		return
	}
	m.PromptTokens.Add(f.Usage.PromptTokens)
	m.CompletionTokens.Add(f.Usage.CompletionTokens)
	if w := f.Decision.Worker; w != nil {
		of := m.Worker(w.ID)
		of.Tokens("prompt", f.Usage.PromptTokens)
		of.Tokens("cached", f.Usage.CachedTokens)
		of.Tokens("completion", f.Usage.CompletionTokens)
	}
	if f.Usage.HasCached {
		m.CachedTokensReported.Add(f.Usage.CachedTokens)
		m.CachedTokensPredicted.Add(min(f.Decision.MatchedTokens, f.Usage.PromptTokens))
	}
}

func seconds[T ~float32 | ~float64](s T) time.Duration {
	return time.Duration(float64(s) * float64(time.Second))
}

// accessMessage is the access log's, of which every line is wanted.
const accessMessage = "request"

func (r *router) logAccess(f *facts.Facts) {
	worker := ""
	if f.Decision.Worker != nil {
		worker = f.Decision.Worker.ID
	}
	attrs := []any{"request", f.ID, "method", f.Method, "path", f.Path, "model", r.metrics.ModelLabel(f.Model), "worker", worker,
		"status", f.Status, "outcome", string(f.Outcome), "hit", f.Decision.Hit.String(), "tries", f.Tries,
		"prompt_tokens", f.Usage.PromptTokens, "cached_tokens", f.Usage.CachedTokens, "completion_tokens", f.Usage.CompletionTokens,
		"seconds", f.Ended.Sub(f.Started).Seconds()}
	if !f.FirstToken.IsZero() {
		attrs = append(attrs, "ttft_seconds", f.FirstToken.Sub(f.Started).Seconds())
	}
	if f.Class != "" {
		attrs = append(attrs, "class", f.Class, "waited_seconds", f.Waited.Seconds())
	}
	if f.Preempted > 0 {
		attrs = append(attrs, "preempted", f.Preempted, "wasted_seconds", f.Wasted)
	}
	if f.Refused != "" {
		attrs = append(attrs, "refused", f.Refused)
	}
	if f.Operator != "" {
		attrs = append(attrs, "operator", f.Operator)
	}
	if f.Error != "" {
		attrs = append(attrs, "error", f.Error)
	}
	r.log.Info(accessMessage, attrs...)
}

// collect fills in the state of the moment for a scrape of the metrics.
func (r *router) collect(s *metrics.State) {
	view := r.exact.collect(s)
	r.collectQueue(s)
	r.safety.collect(&s.Safety)
	r.collectReloads(&s.Reload)
	r.collectChoices(s)
	r.collectForecasts(s)
	r.collectRegrets(s)
	r.collectGhosts(s)
	r.collectPrefixes(s)
	r.collectSources(s)
	r.collectBounds(s)
	r.gate.View(func(v gate.View) {
		for _, w := range v.Workers {
			load, state := w.Load(v.Now), metrics.WorkerState{ID: w.ID, State: w.State(), SlowStart: w.Rising(v.Now)}
			if e, out := w.Ejection(); out {
				state.Returns = float64(e.Until.UnixMilli()) / 1000
			}
			state.InFlightRequests, state.InFlightTokens = load.InFlight, load.ContextTokens
			c, fresh := w.Counts(v.Now)
			if !c.At.IsZero() {
				state.HasTelemetryAge, state.TelemetryAgeSeconds = true, v.Now.Sub(c.At).Seconds()
			}
			if fresh {
				state.HasRunning, state.EngineRunning = c.Has&fleet.HasRunning != 0, c.Running
				state.HasWaiting, state.EngineWaiting = c.Has&fleet.HasWaiting != 0, c.Waiting
				state.HasKVUsage, state.KVUsage = c.Has&fleet.HasKVUsage != 0, c.KVUsage
				state.HasSignals, state.SignalsMissing = true, len(signalsMissing(c))
				state.HasGPU, state.GPUUsage = c.Has&fleet.HasGPU != 0, c.GPUUsage
				state.HasGPUMemory, state.GPUMemory = c.Has&fleet.HasGPUMemory != 0, c.GPUMemory
			}
			view.of(&state, w.Slot)
			s.Workers = append(s.Workers, state)
		}
		x := v.Index.Stats()
		s.IndexBytes, s.IndexBytesMax, s.IndexBlocks, s.IndexEvictions = x.Bytes, x.BytesMax, int64(x.Blocks), metrics.IndexEvictions(x.Evictions)
	})
	s.LearnedSaved = float64(r.saved.Load())
	s.Spans = metrics.SpanState(r.tracing.sender.Stats())
	if w := r.decisions.Load(); w != nil {
		stats := w.Stats()
		s.DecisionLogRecords, s.DecisionLogDrops = stats.Written, stats.Dropped
	}
}

func (r *router) onInfo(t telemetry.Target, i fleet.Info) {
	r.changes.Lock()
	defer r.changes.Unlock()
	r.tellUnpriced(i.Models)
	for _, m := range i.Models {
		r.metrics.KnowModel(m.ID)
		for _, alias := range m.Aliases {
			r.metrics.KnowModel(alias)
		}
	}
	for _, adapter := range r.gate.Describe(t.ID, t.Incarnation, i) {
		r.keyer.Renew(adapter)
	}
	r.exact.follow(t, i)
}

func (r *router) onCounts(t telemetry.Target, c fleet.Counts) {
	r.gate.Observe(t.ID, t.Incarnation, c)
	r.remind(t, c)
}

func (r *router) onDown(t telemetry.Target, _ error) { r.gate.Unreachable(t.ID, t.Incarnation) }

// onFail counts, and has a worker judged that says nothing. One that was down and now answers, though not what telemetry asks, is up:
// nothing else would tell, because one that is down gets no requests.
func (r *router) onFail(t telemetry.Target, err error) {
	r.metrics.Worker(t.ID).TelemetryFailed()
	var e *telemetry.Error
	switch errors.As(err, &e); {
	case e != nil && e.Loading:
		r.gate.Loading(t.ID, t.Incarnation)
	case e == nil || !e.Unreachable():
		r.gate.Reachable(t.ID, t.Incarnation)
	}
	if e == nil || e.Head {
		r.gate.Heard(t.ID, t.Incarnation)
		return
	}
	if why, ejected := r.gate.Silent(t.ID, t.Incarnation); ejected {
		r.ejected(t.ID, why)
	}
}

// onRestart starts the worker's next incarnation: what its engine had cached is gone.
func (r *router) onRestart(t telemetry.Target) {
	r.changes.Lock()
	defer r.changes.Unlock()
	if r.gate.Holds(t.ID, t.Incarnation) {
		r.exact.leave(t.ID)
	}
	w, err := r.gate.Restarted(t.ID, t.Incarnation)
	if err != nil {
		r.log.Debug("restart of a worker that is not in the fleet any more", "worker", t.ID, "error", err)
		return
	}
	t.Incarnation = w.Incarnation
	r.telemetry.Watch(t)
	r.log.Warn("worker's engine restarted: its cache counts as empty", "worker", t.ID, slog.Uint64("incarnation", w.Incarnation))
}
