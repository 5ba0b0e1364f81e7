package engine

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// meters are the engine's metrics under vLLM's names and labels (as of 0.32). Totals and gauges are read from the Core
// at scrape time; only distributions are kept here. All seconds are wall time.
type meters struct {
	registry *prometheus.Registry
	aborted  prometheus.Counter

	firstToken, tokenGap, perToken                 prometheus.Histogram
	wholeTime, queueTime, inferenceTime            prometheus.Histogram
	prefillTime, decodeTime                        prometheus.Histogram
	promptTokens, generationTokens, computedTokens prometheus.Histogram
	paramsMaxTokens, paramsN, preemptions          prometheus.Histogram
	success                                        map[string]prometheus.Counter
}

// Bucket bounds are vLLM's own, so that dashboards made for it work.
var (
	boundsFirstToken = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	boundsTokenGap   = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	boundsRequest    = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	boundsTokens     = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000}
	boundsN          = []float64{1, 2, 5, 10, 20}
)

func newMeters(s *Server) *meters {
	m := &meters{registry: prometheus.NewRegistry(), success: map[string]prometheus.Counter{}}
	labels := prometheus.Labels{"engine": "0", "model_name": s.options.Model}
	histogram := func(name, help string, bounds []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "vllm:" + name, Help: help, ConstLabels: labels, Buckets: bounds})
		m.registry.MustRegister(h)
		return h
	}
	m.firstToken = histogram("time_to_first_token_seconds", "Time to first token in seconds.", boundsFirstToken)
	m.tokenGap = histogram("inter_token_latency_seconds", "Time between two tokens of a request in seconds.", boundsTokenGap)
	m.perToken = histogram("request_time_per_output_token_seconds", "Mean time between the tokens of a request in seconds.", boundsTokenGap)
	m.wholeTime = histogram("e2e_request_latency_seconds", "Time from arrival to the last token in seconds.", boundsRequest)
	m.queueTime = histogram("request_queue_time_seconds", "Time a request waited in seconds.", boundsRequest)
	m.inferenceTime = histogram("request_inference_time_seconds", "Time a request ran in seconds.", boundsRequest)
	m.prefillTime = histogram("request_prefill_time_seconds", "Time from admission to the first token in seconds.", boundsRequest)
	m.decodeTime = histogram("request_decode_time_seconds", "Time from the first token to the last in seconds.", boundsRequest)
	m.promptTokens = histogram("request_prompt_tokens", "Prompt tokens of a request.", boundsTokens)
	m.generationTokens = histogram("request_generation_tokens", "Generated tokens of a request.", boundsTokens)
	m.computedTokens = histogram("request_prefill_kv_computed_tokens", "Prompt tokens of a request that were not cached.", boundsTokens)
	m.paramsMaxTokens = histogram("request_params_max_tokens", "The max_tokens of a request.", boundsTokens)
	m.paramsN = histogram("request_params_n", "The n of a request.", boundsN)
	m.preemptions = histogram("request_num_preemptions", "How often a request was preempted.", boundsN)
	for _, reason := range []string{"stop", "length", "abort", "error"} {
		c := prometheus.NewCounter(prometheus.CounterOpts{
			Name: "vllm:request_success_total", Help: "Finished requests.",
			ConstLabels: prometheus.Labels{"engine": "0", "model_name": s.options.Model, "finished_reason": reason},
		})
		m.registry.MustRegister(c)
		m.success[reason] = c
	}
	m.aborted = m.success["abort"]
	m.registry.MustRegister(newTotals(s))
	return m
}

// finished records a request's distributions when its last token came, as vLLM does.
func (m *meters) finished(s *Server, c *choice) {
	q := &c.sequence
	seconds := func(v float64) float64 { return v / s.options.TimeScale }
	m.wholeTime.Observe(seconds((q.Finished - q.Arrived).Seconds()))
	m.queueTime.Observe(seconds((q.Admitted - q.Arrived).Seconds()))
	m.inferenceTime.Observe(seconds((q.Finished - q.Admitted).Seconds()))
	m.prefillTime.Observe(seconds((q.FirstToken - q.Admitted).Seconds()))
	m.decodeTime.Observe(seconds((q.Finished - q.FirstToken).Seconds()))
	if q.Generated > 1 {
		m.perToken.Observe(seconds((q.Finished - q.FirstToken).Seconds()) / float64(q.Generated-1))
	}
	m.promptTokens.Observe(float64(q.PromptTokens))
	m.generationTokens.Observe(float64(q.Generated))
	m.computedTokens.Observe(float64(q.PromptTokens - q.CachedTokens))
	m.paramsMaxTokens.Observe(float64(c.job.params.tokensMax))
	m.paramsN.Observe(float64(len(c.job.choices)))
	m.preemptions.Observe(float64(q.Preemptions))
	reason := c.answer.finish
	if reason == "" {
		reason = "stop"
	}
	m.success[reason].Inc()
}

// total is one metric that is read from a snapshot of the engine.
type total struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(Stats) float64
}

// totals collects from one snapshot, so that a scrape never sees a request both running and finished.
type totals struct {
	server *Server
	list   []total
}

func newTotals(s *Server) *totals {
	t := &totals{server: s}
	labels := prometheus.Labels{"engine": "0", "model_name": s.options.Model}
	add := func(kind prometheus.ValueType, name, help string, extra prometheus.Labels, value func(Stats) float64) {
		all := prometheus.Labels{}
		for _, set := range []prometheus.Labels{labels, extra} {
			for k, v := range set {
				all[k] = v
			}
		}
		t.list = append(t.list, total{prometheus.NewDesc("vllm:"+name, help, nil, all), kind, value})
	}
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	source := func(v string) prometheus.Labels { return prometheus.Labels{"source": v} }

	add(gauge, "num_requests_running", "Requests in the batch.", nil, func(n Stats) float64 { return float64(n.Running) })
	add(gauge, "num_requests_waiting", "Requests in the queue.", nil, func(n Stats) float64 { return float64(n.Waiting) })
	add(gauge, "kv_cache_usage_perc", "Share of KV cache blocks in use, 0 to 1.", nil, func(n Stats) float64 { return n.KVUsage })
	add(counter, "prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", nil, func(n Stats) float64 { return float64(n.QueriedTokens) })
	add(counter, "prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", nil, func(n Stats) float64 { return float64(n.HitTokens) })
	add(counter, "num_preemptions_total", "Preemptions.", nil, func(n Stats) float64 { return float64(n.Preemptions) })
	add(counter, "prompt_tokens_total", "Prompt tokens of prefills that ended, cached ones included.", nil, func(n Stats) float64 { return float64(n.PromptTokens) })
	add(counter, "prompt_tokens_cached_total", "Cached prompt tokens of prefills that ended.", nil, func(n Stats) float64 { return float64(n.CachedTokens) })
	add(counter, "prompt_tokens_by_source_total", "Prompt tokens by source.", source("local_compute"), func(n Stats) float64 { return float64(n.PromptTokens - n.CachedTokens) })
	add(counter, "prompt_tokens_by_source_total", "Prompt tokens by source.", source("local_cache_hit"), func(n Stats) float64 { return float64(n.CachedTokens) })
	add(counter, "generation_tokens_total", "Generated tokens.", nil, func(n Stats) float64 { return float64(n.GeneratedTokens) })
	add(gauge, "cache_config_info", "The KV cache's configuration.", prometheus.Labels{
		"block_size":            fmt.Sprint(s.options.Profile.BlockTokens),
		"num_gpu_blocks":        fmt.Sprint(s.core.Blocks()),
		"kv_cache_size_tokens":  fmt.Sprint(s.core.Blocks() * s.options.Profile.BlockTokens),
		"enable_prefix_caching": "True",
	}, func(Stats) float64 { return 1 })
	started := prometheus.NewDesc("process_start_time_seconds", "When this engine started, in seconds since 1970.", nil, nil)
	t.list = append(t.list, total{started, gauge, func(Stats) float64 { return float64(s.start.UnixNano()) / 1e9 }})
	return t
}

// Describe implements prometheus.Collector.
func (t *totals) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range t.list {
		ch <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (t *totals) Collect(ch chan<- prometheus.Metric) {
	n := t.server.Stats()
	for _, m := range t.list {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(n))
	}
}

func (m *meters) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
