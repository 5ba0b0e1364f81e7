package metrics

import "github.com/prometheus/client_golang/prometheus"

// IndexEvictions are blocks put out of the prefix index, by what they made room for.
type IndexEvictions struct{ Capacity, Bound, Shed uint64 }

// State is what the router is at the moment of a scrape. Zero values of counts mean zero; what an engine has not told is left
// out by its Has flag, because unknown is not idle.
type State struct {
	Workers []WorkerState

	IndexBytes, IndexBytesMax, IndexBlocks int64
	IndexEvictions                         IndexEvictions

	DecisionLogRecords, DecisionLogDrops uint64
	Spans                                SpanState

	LearnedSaved float64 // when what was learned was last saved, in Unix seconds; 0 not yet

	TokenModes []TokenMode
	EventIndex EventIndex

	Queue   *QueueState // nil: nothing waits here
	Safety  SafetyState
	Reload  ReloadState
	Bounds  []BoundState
	Shed    []ShedState
	Pools   []PoolState
	Choices []ChoiceState
	// Forecasts are by model.
	Forecasts []ForecastState
	Regret    RegretState
	Sources   []SourceState
	Ghosts    *GhostState // nil: there are none
	// PrefixesTracked is how many shared prefixes are counted.
	PrefixesTracked int

	RefusedWorkers int           // that sources name and that cannot be
	Tenants        []TenantState // none: nobody is asked for a key
}

// WorkerState is one worker at the moment of a scrape.
type WorkerState struct {
	ID    string
	State string // ready, ejected, probing, draining, down, loading or unknown; any other word is shown as unknown

	Returns   float64 // Unix time at which it is tried again; 0: it is not out
	SlowStart float64 // 0..1

	InFlightRequests int // ours
	InFlightTokens   int // sum of their contexts

	HasRunning, HasWaiting, HasKVUsage, HasTelemetryAge, HasSignals, HasGPU, HasGPUMemory bool

	SignalsMissing      int
	GPUUsage, GPUMemory float64 // 0..1

	EngineRunning, EngineWaiting int
	KVUsage                      float64 // 0..1
	TelemetryAgeSeconds          float64

	Events *EventsState // nil: its events are not followed
	Truth  *TruthState  // nil: it reported nothing yet
}

// stateCollector turns State into samples, so that no gauge needs care on the hot path and a removed worker leaves none behind.
type stateCollector struct {
	collect func(*State)
	descs   map[string]*prometheus.Desc
	label   func(model string) string
}

// stateFamilies are the families that mirror state.
var stateFamilies = []string{
	"warmpath_worker_state", "warmpath_worker_return_timestamp_seconds", "warmpath_worker_slow_start_ratio", "warmpath_worker_inflight_requests", "warmpath_worker_inflight_tokens",
	"warmpath_engine_requests_running", "warmpath_engine_requests_waiting", "warmpath_engine_kv_usage_ratio",
	"warmpath_engine_signals_missing", "warmpath_gpu_usage_ratio", "warmpath_gpu_memory_ratio", "warmpath_telemetry_age_seconds",
	"warmpath_index_bytes", "warmpath_index_bytes_max", "warmpath_index_blocks", "warmpath_index_evictions_total", "warmpath_learned_saved_timestamp_seconds",
	"warmpath_certificate_expiry_timestamp_seconds", "warmpath_file_changes_total", "warmpath_admin_refused_total",
	"warmpath_bound_limit", "warmpath_bound_used", "warmpath_bound_refused_total", "warmpath_memory_shed_total", "warmpath_memory_shed_bytes_total",
	"warmpath_config_last_reload_successful", "warmpath_config_loaded_timestamp_seconds", "warmpath_config_generation", "warmpath_config_reloads_total",
	"warmpath_decision_log_records_total", "warmpath_decision_log_drops_total", "warmpath_trace_spans_total",
	"warmpath_token_mode", "warmpath_token_requests_total", "warmpath_token_checks_total", "warmpath_token_mismatches_total", "warmpath_token_questions_total",
	"warmpath_discovery_workers", "warmpath_discovery_age_seconds", "warmpath_discovery_stale", "warmpath_discovery_errors_total", "warmpath_discovery_refused_workers",
	"warmpath_pool_workers", "warmpath_pool_requests_total", "warmpath_model_choices_total",
	"warmpath_forecast_answers_total", "warmpath_forecast_answers_within_total", "warmpath_forecast_output_tokens_total", "warmpath_forecast_prefills_total",
	"warmpath_forecast_prefill_seconds_total", "warmpath_forecast_prefill_off_ratio",
	"warmpath_regret_requests_total", "warmpath_regret_beaten_total", "warmpath_regret_seconds_total", "warmpath_regret_cost_seconds_total",
	"warmpath_ghost_requests_total", "warmpath_ghost_prompt_tokens_total", "warmpath_ghost_prefill_tokens_total", "warmpath_ghost_prefill_seconds_total",
	"warmpath_ghost_dropped_total", "warmpath_ghost_sample_ratio", "warmpath_ghost_bytes", "warmpath_ghost_place_seconds_total", "warmpath_prefixes_tracked",
	"warmpath_events_state", "warmpath_events_messages_total", "warmpath_events_blocks_total", "warmpath_events_troubles_total",
	"warmpath_events_worker_blocks", "warmpath_events_lag_seconds", "warmpath_events_index_blocks", "warmpath_events_index_memberships", "warmpath_events_index_bytes",
	"warmpath_events_index_bytes_max", "warmpath_events_index_evictions_total",
	"warmpath_truth_requests_total", "warmpath_truth_right_total", "warmpath_truth_predicted_tokens_total", "warmpath_truth_reported_tokens_total",
	"warmpath_truth_error_tokens_total", "warmpath_truth_bias_tokens", "warmpath_truth_trust_ratio", "warmpath_truth_trusted",
	"warmpath_truth_prompts_differ_total", "warmpath_truth_lost_tokens_total",
	"warmpath_queue_waiting_requests", "warmpath_queue_waiting_heavy_requests", "warmpath_queue_oldest_seconds", "warmpath_queue_work_seconds",
	"warmpath_queue_bytes", "warmpath_queue_fill_ratio", "warmpath_queue_requests_total", "warmpath_queue_refused_total", "warmpath_queue_preempted_total", "warmpath_queue_wasted_seconds_total",
	"warmpath_tenant_inflight_requests", "warmpath_tenant_tokens_last_minute", "warmpath_tenant_spent_today", "warmpath_tenant_requests_total", "warmpath_tenant_refused_total",
}

func newStateCollector(collect func(*State), label func(model string) string) *stateCollector {
	c := &stateCollector{collect: collect, descs: make(map[string]*prometheus.Desc), label: label}
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
	var emit emitter = func(name string, value float64, labels ...string) {
		kind := prometheus.GaugeValue
		if familyNamed(name).kind == kindCounter {
			kind = prometheus.CounterValue
		}
		ch <- prometheus.MustNewConstMetric(c.descs[name], kind, value, labels...)
	}
	emit("warmpath_index_bytes", float64(s.IndexBytes))
	emit("warmpath_index_bytes_max", float64(s.IndexBytesMax))
	emit("warmpath_index_blocks", float64(s.IndexBlocks))
	emit("warmpath_index_evictions_total", float64(s.IndexEvictions.Capacity), "cache_size")
	emit("warmpath_index_evictions_total", float64(s.IndexEvictions.Bound), "index_bytes_max")
	emit("warmpath_index_evictions_total", float64(s.IndexEvictions.Shed), "memory")
	emit("warmpath_decision_log_records_total", float64(s.DecisionLogRecords))
	emit("warmpath_decision_log_drops_total", float64(s.DecisionLogDrops))
	emitSpans(emit, s.Spans)
	emit("warmpath_learned_saved_timestamp_seconds", s.LearnedSaved)
	emitEventIndex(emit, &s.EventIndex)
	emitTokenModes(emit, s.TokenModes, c.label)
	emitSafety(emit, &s.Safety)
	emitReload(emit, &s.Reload)
	emitBounds(emit, s.Bounds)
	emitShed(emit, s.Shed)
	emitQueue(emit, s.Queue)
	emitTenants(emit, s.Tenants)
	emitChoices(emit, s.Pools, s.Choices)
	emitForecasts(emit, s.Forecasts, c.label)
	emitRegret(emit, &s.Regret)
	emitGhosts(emit, s.Ghosts)
	emit("warmpath_prefixes_tracked", float64(s.PrefixesTracked))
	emitSources(emit, s.Sources, s.RefusedWorkers)
	seen := make(map[string]bool, len(s.Workers))
	for i := range s.Workers {
		w := &s.Workers[i]
		if shown := len(seen) < workersMax; shown && !seen[w.ID] {
			emitWorker(emit, w)
		}
		seen[w.ID] = true
	}
}

// emitter adds one sample of a family in the catalogue.
type emitter func(name string, value float64, labels ...string)

// emitOne shows which one of a closed list is so: 1 for it, 0 for the others. A value outside the list is shown as unknown.
func emitOne(emit emitter, name, of string, list []string, value, unknown string) {
	at := place(list, value)
	if at == len(list) {
		at = place(list, unknown)
	}
	for i, each := range list {
		is := 0.0
		if i == at {
			is = 1
		}
		emit(name, is, of, each)
	}
}

func emitWorker(emit emitter, w *WorkerState) {
	emitOne(emit, "warmpath_worker_state", w.ID, states, w.State, "unknown")
	if w.Returns > 0 {
		emit("warmpath_worker_return_timestamp_seconds", w.Returns, w.ID)
	}
	emit("warmpath_worker_slow_start_ratio", w.SlowStart, w.ID)
	emitEvents(emit, w.ID, w.Events)
	if w.Truth != nil {
		emitTruth(emit, w.ID, w.Truth)
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
