package telemetry

import (
	"context"
	"errors"
	"strconv"

	"github.com/warmpath/warmpath/internal/fleet"
)

// tensorrt reads trtllm-serve's Prometheus page, which is at /prometheus/metrics and needs return_perf_metrics: true. Its /metrics is
// something else: the statistics of single iterations, as JSON.
var tensorrt = map[string]family{
	"trtllm_num_requests_running":       running,
	"trtllm_num_requests_waiting":       waiting,
	"trtllm_kv_cache_utilization":       kvUsage,
	"trtllm_prompt_tokens_total":        promptTokens,
	"trtllm_prompt_cached_tokens_total": prefixHits,
	"trtllm_kv_cache_tokens_per_block":  blockTokens,
	"trtllm_kv_cache_max_blocks":        blockCount,
	"process_start_time_seconds":        processStart,
}

var tensorrtEngine = engine{name: "tensorrt-llm", health: true, usageOption: true, salts: fleet.ChatSalts, scrape: scrapeTensorRT}

// scrapeTensorRT reads the Prometheus page and, where it is off or without counts, the iterations.
func scrapeTensorRT(ctx context.Context, c *client, models []string, bytesMax int64) (page, error) {
	p, _, err := scrapeMetrics(ctx, c, "/prometheus/metrics", tensorrt, models, bytesMax)
	var e *Error
	switch {
	case err == nil && p.counts.Has&(fleet.HasRunning|fleet.HasWaiting) != 0:
		return p, nil
	case err != nil && (!errors.As(err, &e) || !e.absent()):
		return page{}, err
	}
	var iterations []iteration
	if _, err := c.json(ctx, "/metrics", &iterations); err != nil {
		return page{}, err
	}
	told := p
	p = latest(iterations, c.rank)
	p.counts.PromptTokens, p.counts.PrefixQueries, p.counts.PrefixHits = told.counts.PromptTokens, told.counts.PrefixQueries, told.counts.PrefixHits
	p.counts.Has |= told.counts.Has & (fleet.HasPromptTokens | fleet.HasPrefixCache)
	p.started = told.started
	return p, nil
}

// iteration is what trtllm-serve tells of one step of its executor.
type iteration struct {
	Rank   *int `json:"attentionDpRank"` // null without attention data parallelism
	Active told `json:"numActiveRequests"`
	Queued told `json:"numQueuedRequests"`
	Cache  *struct {
		BlockTokens int `json:"tokensPerBlock"`
		MaxBlocks   int `json:"maxNumBlocks"`
		UsedBlocks  int `json:"usedNumBlocks"`
	} `json:"kvCacheStats"`
}

// latest takes the last iteration, of each rank its own. The list has what happened since somebody last asked: an empty one may be an
// idle engine or another reader, so it says nothing.
func latest(all []iteration, rank string) page {
	var p page
	if len(all) == 0 {
		p.silent = true
		return p
	}
	last, used, blocks := map[int]iteration{}, 0, 0
	for _, i := range all {
		at := -1
		if i.Rank != nil {
			at = *i.Rank
		}
		if rank == "" || i.Rank == nil || decimal(at) == rank {
			last[at] = i
		}
	}
	for _, i := range last {
		if i.Active.ok {
			p.counts.Running, p.counts.Has = p.counts.Running+i.Active.n, p.counts.Has|fleet.HasRunning
		}
		if i.Queued.ok {
			p.counts.Waiting, p.counts.Has = p.counts.Waiting+i.Queued.n, p.counts.Has|fleet.HasWaiting
		}
		if k := i.Cache; k != nil && k.MaxBlocks > 0 && k.UsedBlocks >= 0 && k.BlockTokens > 0 {
			used, blocks = used+k.UsedBlocks, blocks+k.MaxBlocks
			p.blockTokens = k.BlockTokens
		}
	}
	if blocks > 0 {
		p.counts.KVUsage, p.counts.Has = min(1, float64(used)/float64(blocks)), p.counts.Has|fleet.HasKVUsage
		p.kvTokens = bounded(float64(blocks) * float64(p.blockTokens))
	}
	return p
}

// told is a number of requests in JSON. Absent, null and odd are not zero.
type told struct {
	n  int
	ok bool
}

// UnmarshalJSON takes any value, because one odd field is no reason to drop the others.
func (t *told) UnmarshalJSON(b []byte) error {
	if v, err := strconv.ParseFloat(string(b), 64); err == nil && v >= 0 && v <= countMax {
		t.n, t.ok = int(v), true
	}
	return nil
}

func decimal(n int) string { return strconv.Itoa(n) }
