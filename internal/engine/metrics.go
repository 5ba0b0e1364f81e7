package engine

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// histogram is one distribution in the Prometheus text format. The format is written here because it is all there is to
// it: a scrape is one snapshot under the engine's lock, which a metrics library would have to be talked into.
type histogram struct {
	name, help string
	bounds     []float64
	counts     []uint64 // one a bound, and one for what is beyond
	sum        float64
}

func (h *histogram) observe(v float64) {
	i, _ := slices.BinarySearch(h.bounds, v)
	h.counts[i]++
	h.sum += v
}

// Bucket bounds are vLLM's own, so that dashboards made for it work.
var (
	boundsFirstToken = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	boundsTokenGap   = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	boundsRequest    = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	boundsTokens     = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000}
	boundsN          = []float64{1, 2, 5, 10, 20}
)

// meters are the distributions under vLLM's names (as of 0.32), guarded by the server's lock. All seconds are wall time.
type meters struct {
	all []*histogram

	firstToken, tokenGap, perToken                 *histogram
	wholeTime, queueTime, inferenceTime            *histogram
	prefillTime, decodeTime                        *histogram
	promptTokens, generationTokens, computedTokens *histogram
	paramsMaxTokens, paramsN, preemptions          *histogram

	stopped, cut uint64 // requests that ended by themselves, and at their length
}

func newMeters() *meters {
	m := &meters{}
	add := func(name, help string, bounds []float64) *histogram {
		h := &histogram{name: name, help: help, bounds: bounds, counts: make([]uint64, len(bounds)+1)}
		m.all = append(m.all, h)
		return h
	}
	m.firstToken = add("time_to_first_token_seconds", "Time to first token in seconds.", boundsFirstToken)
	m.tokenGap = add("inter_token_latency_seconds", "Time between two tokens of a request in seconds.", boundsTokenGap)
	m.perToken = add("request_time_per_output_token_seconds", "Mean time between the tokens of a request in seconds.", boundsTokenGap)
	m.wholeTime = add("e2e_request_latency_seconds", "Time from arrival to the last token in seconds.", boundsRequest)
	m.queueTime = add("request_queue_time_seconds", "Time a request waited in seconds.", boundsRequest)
	m.inferenceTime = add("request_inference_time_seconds", "Time a request ran in seconds.", boundsRequest)
	m.prefillTime = add("request_prefill_time_seconds", "Time from admission to the first token in seconds.", boundsRequest)
	m.decodeTime = add("request_decode_time_seconds", "Time from the first token to the last in seconds.", boundsRequest)
	m.promptTokens = add("request_prompt_tokens", "Prompt tokens of a request.", boundsTokens)
	m.generationTokens = add("request_generation_tokens", "Generated tokens of a request.", boundsTokens)
	m.computedTokens = add("request_prefill_kv_computed_tokens", "Prompt tokens of a request that were not cached.", boundsTokens)
	m.paramsMaxTokens = add("request_params_max_tokens", "The max_tokens of a request.", boundsTokens)
	m.paramsN = add("request_params_n", "The n of a request.", boundsN)
	m.preemptions = add("request_num_preemptions", "How often a request was preempted.", boundsN)
	return m
}

// finish records a request when its last token came, as vLLM does.
func (m *meters) finish(s *Server, c *choice) {
	q := &c.sequence
	m.wholeTime.observe(s.span(q.Finished - q.Arrived).Seconds())
	m.queueTime.observe(s.span(q.Admitted - q.Arrived).Seconds())
	m.inferenceTime.observe(s.span(q.Finished - q.Admitted).Seconds())
	m.prefillTime.observe(s.span(q.FirstToken - q.Admitted).Seconds())
	m.decodeTime.observe(s.span(q.Finished - q.FirstToken).Seconds())
	if q.Generated > 1 {
		m.perToken.observe(s.span(q.Finished-q.FirstToken).Seconds() / float64(q.Generated-1))
	}
	m.promptTokens.observe(float64(q.PromptTokens))
	m.generationTokens.observe(float64(q.Generated))
	m.computedTokens.observe(float64(q.PromptTokens - q.CachedTokens))
	m.paramsMaxTokens.observe(float64(c.job.limits.TokensMax))
	m.paramsN.observe(float64(c.job.perPrompt))
	m.preemptions.observe(float64(q.Preemptions))
	if c.answer.Finish == "length" {
		m.cut++
	} else {
		m.stopped++
	}
}

// metrics is GET /metrics, one consistent snapshot.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	buf := s.exposition(make([]byte, 0, 24<<10))
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(buf) // a client that left reads nothing
}

// exposition appends all metrics. The caller holds mu.
func (s *Server) exposition(buf []byte) []byte {
	labels := `engine="0",model_name=` + strconv.Quote(s.options.Model)
	family := func(kind, name, help string) {
		buf = fmt.Appendf(buf, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	}
	value := func(name, extra string, v float64) {
		buf = fmt.Appendf(buf, "%s{%s%s} %v\n", name, labels, extra, v)
	}
	single := func(kind, name, help string, v float64) {
		family(kind, "vllm:"+name, help)
		value("vllm:"+name, "", v)
	}
	n := s.stats()
	single("gauge", "num_requests_running", "Requests in the batch.", float64(n.Running))
	single("gauge", "num_requests_waiting", "Requests in the queue.", float64(n.Waiting))
	single("gauge", "kv_cache_usage_perc", "Share of KV cache blocks in use, 0 to 1.", n.KVUsage)
	single("counter", "prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", float64(n.QueriedTokens))
	single("counter", "prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", float64(n.HitTokens))
	single("counter", "num_preemptions_total", "Preemptions.", float64(n.Preemptions))
	single("counter", "prompt_tokens_total", "Prompt tokens of prefills that ended, cached ones included.", float64(n.PromptTokens))
	single("counter", "prompt_tokens_cached_total", "Cached prompt tokens of prefills that ended.", float64(n.CachedTokens))
	single("counter", "generation_tokens_total", "Generated tokens.", float64(n.GeneratedTokens))
	family("counter", "vllm:prompt_tokens_by_source_total", "Prompt tokens of prefills that ended, by source.")
	value("vllm:prompt_tokens_by_source_total", `,source="local_compute"`, float64(n.PromptTokens-n.CachedTokens))
	value("vllm:prompt_tokens_by_source_total", `,source="local_cache_hit"`, float64(n.CachedTokens))
	family("counter", "vllm:request_success_total", "Requests that ended, by reason.")
	value("vllm:request_success_total", `,finished_reason="stop"`, float64(s.meters.stopped))
	value("vllm:request_success_total", `,finished_reason="length"`, float64(s.meters.cut))
	value("vllm:request_success_total", `,finished_reason="abort"`, float64(n.Aborted))

	blocks, size := s.core.Blocks(), s.options.Profile.BlockTokens
	family("gauge", "vllm:cache_config_info", "The KV cache's configuration.")
	value("vllm:cache_config_info", fmt.Sprintf(`,block_size="%d",num_gpu_blocks="%d",kv_cache_size_tokens="%d",enable_prefix_caching="True"`,
		size, blocks, blocks*size), 1)
	for _, h := range s.meters.all {
		family("histogram", "vllm:"+h.name, h.help)
		count := uint64(0)
		for i, bound := range h.bounds {
			count += h.counts[i]
			value("vllm:"+h.name+"_bucket", fmt.Sprintf(`,le="%v"`, bound), float64(count))
		}
		count += h.counts[len(h.bounds)]
		value("vllm:"+h.name+"_bucket", `,le="+Inf"`, float64(count))
		value("vllm:"+h.name+"_sum", "", h.sum)
		value("vllm:"+h.name+"_count", "", float64(count))
	}
	family("gauge", "process_start_time_seconds", "When this engine started, in seconds since 1970.")
	return fmt.Appendf(buf, "process_start_time_seconds %.3f\n", float64(s.start.UnixMilli())/1e3)
}
