package telemetry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/warmpath/warmpath/internal/fleet"
)

// sglang reads SGLang started with --enable-metrics. token_usage is the share of the KV pool in use; what is cached and free counts as
// free. The pool's size was a label of cache_config_info until 0.5.10 and has gauges of its own since. Ranks are labels dp_rank.
var sglang = map[string]family{
	"sglang:num_running_reqs":     running,
	"sglang:num_queue_reqs":       waiting,
	"sglang:token_usage":          kvUsage,
	"sglang:prompt_tokens_total":  promptTokens,
	"sglang:cached_tokens_total":  prefixHits,
	"sglang:max_total_num_tokens": kvTokens,
	"sglang:page_size":            blockTokens,
	"sglang:num_pages":            blockCount,
	"sglang:cache_config_info":    cacheConfig,
	"process_start_time_seconds":  processStart,
}

// eventsBytesMax bounds settings that are kept as they came.
const eventsBytesMax = 4096

var sglangEngine = engine{name: "sglang", health: true, usageOption: true, salts: fleet.AllSalts, scrape: scrapeSGLang}

// scrapeSGLang reads /metrics, or, where the server was started without them, its load: what runs and waits, one entry a rank.
func scrapeSGLang(ctx context.Context, c *client, models []string, bytesMax int64) (page, error) {
	p, _, err := scrapeMetrics(ctx, c, "/metrics", sglang, models, bytesMax)
	var e *Error
	if err == nil || !errors.As(err, &e) || !e.absent() {
		return p, err
	}
	type load struct {
		Rank    int  `json:"dp_rank"`
		All     told `json:"num_reqs"` // waiting ones included
		Waiting told `json:"num_waiting_reqs"`
	}
	var loads []load
	if _, errLoad := c.json(ctx, "/get_load", &loads); errLoad != nil || len(loads) == 0 {
		return page{}, err // the first one names what to switch on
	}
	p = page{ranks: len(loads)}
	for _, l := range loads {
		if c.rank != "" && c.rank != decimal(l.Rank) || !l.All.ok || !l.Waiting.ok {
			continue
		}
		p.counts.Has |= fleet.HasRunning | fleet.HasWaiting
		p.counts.Running += max(0, l.All.n-l.Waiting.n)
		p.counts.Waiting += l.Waiting.n
	}
	return p, nil
}

// sglangDetails asks for the server's own settings and returns its version. The path was renamed; the answer has a list for the state
// of each rank.
func sglangDetails(ctx context.Context, c *client, info *fleet.Info) (version string) {
	var v struct {
		Version    string          `json:"version"`
		Model      string          `json:"model_path"`
		Tokenizer  string          `json:"tokenizer_path"` // where it is another one than the model's
		PageTokens int             `json:"page_size"`
		KVTokens   int             `json:"max_total_num_tokens"` // of one rank
		Slots      int             `json:"max_running_requests"` // of all ranks; null: the engine chose
		Ranks      int             `json:"dp_size"`
		Priorities bool            `json:"enable_priority_scheduling"`
		LowFirst   bool            `json:"schedule_low_priority_values_first"`
		Events     json.RawMessage `json:"kv_events_config"` // as it was started,
		Resolved   json.RawMessage `json:"kv_events"`        // and as newer versions make of it
		States     []struct {
			Slots int `json:"effective_max_running_requests_per_dp"`
		} `json:"internal_states"`
	}
	if _, err := c.json(ctx, "/get_server_info", &v); err != nil {
		if _, err := c.json(ctx, "/server_info", &v); err != nil {
			return ""
		}
	}
	info.Path = cmp.Or(path(v.Tokenizer), path(v.Model), info.Path)
	for _, said := range []json.RawMessage{v.Resolved, v.Events} { // the latter has more
		if len(said) > 0 && len(said) <= eventsBytesMax && string(said) != "null" {
			info.Events = string(said)
		}
	}
	switch {
	case v.Priorities && v.LowFirst:
		info.Urgency = fleet.LowFirst
	case v.Priorities:
		info.Urgency = fleet.HighFirst
	}
	ranks := max(1, v.Ranks)
	if c.rank == "" {
		info.Ranks = ranks
	}
	perRank := v.Slots / ranks
	if len(v.States) > 0 && v.States[0].Slots > 0 {
		perRank = v.States[0].Slots
	}
	if c.rank != "" {
		ranks = 1
	}
	if ranks > ranksMax {
		return v.Version
	}
	info.BlockTokens = bounded(float64(max(0, v.PageTokens)))
	info.KVTokensMax = bounded(float64(max(0, v.KVTokens)) * float64(ranks))
	info.SlotsMax = bounded(float64(max(0, perRank)) * float64(ranks))
	return v.Version
}
