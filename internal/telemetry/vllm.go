package telemetry

import (
	"context"

	"github.com/warmpath/warmpath/internal/fleet"
)

// vllm reads vLLM from V0 to today. Names that changed: gpu_cache_usage_perc became kv_cache_usage_perc, gpu_prefix_cache_* became
// prefix_cache_*; num_requests_swapped (V0) are requests that wait to get back in. Ranks behind one address are labels engine="0",
// "1", ... of one page. warmpath's simulated engine speaks the same names.
var vllm = map[string]family{
	"vllm:num_requests_running":           running,
	"vllm:num_requests_waiting":           waiting,
	"vllm:num_requests_swapped":           waiting,
	"vllm:kv_cache_usage_perc":            kvUsage,
	"vllm:gpu_cache_usage_perc":           kvUsageOld,
	"vllm:prefix_cache_queries_total":     prefixQueries,
	"vllm:gpu_prefix_cache_queries_total": prefixQueriesOld,
	"vllm:prefix_cache_hits_total":        prefixHits,
	"vllm:gpu_prefix_cache_hits_total":    prefixHitsOld,
	"vllm:prompt_tokens_total":            promptTokens,
	"vllm:cache_config_info":              cacheConfig,
	"process_start_time_seconds":          processStart,
}

// The engines that show vLLM's metrics. Whether vLLM goes by priorities (--scheduling-policy priority) it tells nowhere; without, its
// first engine (V0) refuses a priority other than 0, and the one since then passes it over.
var (
	vllmEngine      = engine{name: "vllm", health: true, usageOption: true, salts: fleet.AllSalts, urgency: fleet.LowFirst, scrape: scrapeVLLM}
	simulatedEngine = engine{name: "warmpath", health: true, usageOption: true, salts: fleet.AllSalts, scrape: scrapeVLLM}
)

func scrapeVLLM(ctx context.Context, c *client, models []string, bytesMax int64) (page, error) {
	p, _, err := scrapeMetrics(ctx, c, "/metrics", vllm, models, bytesMax)
	return p, err
}

// vllmVersion asks for GET /version, which vLLM and the simulated engine have. The latter also tells its batch slots there, 0 elsewhere:
// vLLM tells them nowhere.
func vllmVersion(ctx context.Context, c *client) (version string, slots int) {
	var v struct {
		Version string `json:"version"`
		Slots   int    `json:"max_num_seqs"`
	}
	if _, err := c.json(ctx, "/version", &v); err != nil {
		return "", 0
	}
	return v.Version, v.Slots
}
