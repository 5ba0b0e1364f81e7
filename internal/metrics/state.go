package metrics

import "github.com/prometheus/client_golang/prometheus"

// State is what the router is at the moment of a scrape. Zero values of counts mean zero; what an engine has not told is left
// out by its Has flag, because unknown is not idle.
type State struct {
	Workers []WorkerState

	IndexBytes, IndexBytesMax, IndexBlocks int64
	IndexEvictions                         uint64

	DecisionLogRecords, DecisionLogDrops uint64
}

// WorkerState is one worker at the moment of a scrape.
type WorkerState struct {
	ID    string
	State string // ready, ejected, probing, draining, down or unknown; any other word is shown as unknown

	InFlightRequests int // ours
	InFlightTokens   int // sum of their contexts

	HasRunning, HasWaiting, HasKVUsage, HasTelemetryAge, HasSignals, HasGPU, HasGPUMemory bool

	SignalsMissing      int
	GPUUsage, GPUMemory float64 // 0..1

	EngineRunning, EngineWaiting int
	KVUsage                      float64 // 0..1
	TelemetryAgeSeconds          float64
}

// stateCollector turns State into samples, so that no gauge needs care on the hot path and a removed worker leaves none behind.
type stateCollector struct {
	collect func(*State)
	descs   map[string]*prometheus.Desc
}

// stateFamilies are the families that mirror state.
var stateFamilies = []string{
	"warmpath_worker_state", "warmpath_worker_inflight_requests", "warmpath_worker_inflight_tokens",
	"warmpath_engine_requests_running", "warmpath_engine_requests_waiting", "warmpath_engine_kv_usage_ratio",
	"warmpath_engine_signals_missing", "warmpath_gpu_usage_ratio", "warmpath_gpu_memory_ratio", "warmpath_telemetry_age_seconds",
	"warmpath_index_bytes", "warmpath_index_bytes_max", "warmpath_index_blocks", "warmpath_index_evictions_total",
	"warmpath_decision_log_records_total", "warmpath_decision_log_drops_total",
}

func newStateCollector(collect func(*State)) *stateCollector {
	c := &stateCollector{collect: collect, descs: make(map[string]*prometheus.Desc)}
	for _, name := range stateFamilies {
		f := familyNamed(name)
		c.descs[name] = prometheus.NewDesc(f.name, f.help, f.labels, nil)
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, name := range stateFamilies {
		ch <- c.descs[name]
	}
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	var s State
	c.collect(&s)
	emit := func(name string, value float64, labels ...string) {
		kind := prometheus.GaugeValue
		if familyNamed(name).kind == kindCounter {
			kind = prometheus.CounterValue
		}
		ch <- prometheus.MustNewConstMetric(c.descs[name], kind, value, labels...)
	}
	emit("warmpath_index_bytes", float64(s.IndexBytes))
	emit("warmpath_index_bytes_max", float64(s.IndexBytesMax))
	emit("warmpath_index_blocks", float64(s.IndexBlocks))
	emit("warmpath_index_evictions_total", float64(s.IndexEvictions))
	emit("warmpath_decision_log_records_total", float64(s.DecisionLogRecords))
	emit("warmpath_decision_log_drops_total", float64(s.DecisionLogDrops))
	seen := make(map[string]bool, len(s.Workers))
	for i := range s.Workers {
		w := &s.Workers[i]
		if shown := len(seen) < workersMax; shown && !seen[w.ID] {
			emitWorker(emit, w)
		}
		seen[w.ID] = true
	}
}

func emitWorker(emit func(name string, value float64, labels ...string), w *WorkerState) {
	at := place(states, w.State)
	if at == len(states) {
		at = place(states, "unknown")
	}
	for i, state := range states {
		value := 0.0
		if i == at {
			value = 1
		}
		emit("warmpath_worker_state", value, w.ID, state)
	}
	emit("warmpath_worker_inflight_requests", float64(w.InFlightRequests), w.ID)
	emit("warmpath_worker_inflight_tokens", float64(w.InFlightTokens), w.ID)
	if w.HasRunning {
		emit("warmpath_engine_requests_running", float64(w.EngineRunning), w.ID)
	}
	if w.HasWaiting {
		emit("warmpath_engine_requests_waiting", float64(w.EngineWaiting), w.ID)
	}
	if w.HasKVUsage {
		emit("warmpath_engine_kv_usage_ratio", w.KVUsage, w.ID)
	}
	if w.HasSignals {
		emit("warmpath_engine_signals_missing", float64(w.SignalsMissing), w.ID)
	}
	if w.HasGPU {
		emit("warmpath_gpu_usage_ratio", w.GPUUsage, w.ID)
	}
	if w.HasGPUMemory {
		emit("warmpath_gpu_memory_ratio", w.GPUMemory, w.ID)
	}
	if w.HasTelemetryAge {
		emit("warmpath_telemetry_age_seconds", w.TelemetryAgeSeconds, w.ID)
	}
}
