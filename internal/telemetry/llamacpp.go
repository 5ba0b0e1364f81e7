package telemetry

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/warmpath/warmpath/internal/fleet"
)

// llamacpp reads llama.cpp's server. kv_cache_usage_ratio is gone since mid 2025, when each slot got its own view of the cache; where
// an old build shows it, it is read. Its pages carry no model name: one process, one model.
var llamacpp = map[string]family{
	"llamacpp:requests_processing":  running,
	"llamacpp:requests_deferred":    waiting,
	"llamacpp:kv_cache_usage_ratio": kvUsageOld,
	"llamacpp:prompt_tokens_total":  promptTokens,
}

var llamacppEngine = engine{name: "llama.cpp", health: true, usageOption: true, sharesSteps: true, scrape: scrapeLlamacpp}

// scrapeLlamacpp reads /metrics, or, where the server was started without --metrics, the slots: they tell what runs, not what waits.
func scrapeLlamacpp(ctx context.Context, c *client, models []string, bytesMax int64) (page, error) {
	p, header, err := scrapeMetrics(ctx, c, "/metrics", llamacpp, models, bytesMax)
	if err == nil {
		p.started = startOf(header)
		return p, nil
	}
	var e *Error
	if !errors.As(err, &e) || e.Status != http.StatusNotImplemented && e.Status != http.StatusNotFound {
		return page{}, err
	}
	var slots []struct {
		Processing bool `json:"is_processing"`
	}
	header, errSlots := c.json(ctx, "/slots", &slots)
	if errSlots != nil {
		return page{}, err // the first one names what to switch on
	}
	p = page{started: startOf(header), counts: fleet.Counts{Has: fleet.HasRunning}}
	for _, s := range slots {
		if s.Processing {
			p.counts.Running++
		}
	}
	return p, nil
}

// startOf reads the header by which /metrics tells processes apart. It is compared, never read as a time: its origin is not 1970 everywhere.
func startOf(h http.Header) float64 {
	v, err := strconv.ParseFloat(h.Get("Process-Start-Time-Unix"), 64)
	if err != nil {
		return 0
	}
	return v
}

// llamacppProps are the properties of GET /props that matter.
type llamacppProps struct {
	BuildInfo  string `json:"build_info"`
	TotalSlots int    `json:"total_slots"`
	ModelPath  string `json:"model_path"`
	Generation *struct {
		ContextMax int `json:"n_ctx"` // of one slot: what one request may use
	} `json:"default_generation_settings"`
}

// llamacppDetails adds what /props tells to what the model list told, and reports whether it was llama.cpp that answered. /props
// needs the key, so a wrong one leaves slots and version unknown.
func llamacppDetails(ctx context.Context, c *client, info *fleet.Info) bool {
	var p llamacppProps
	if _, err := c.json(ctx, "/props", &p); err != nil || p.Generation == nil {
		return false
	}
	info.Version, info.SlotsMax, info.Path = p.BuildInfo, max(0, p.TotalSlots), path(p.ModelPath)
	for i := range info.Models {
		if p.Generation.ContextMax > 0 {
			info.Models[i].ContextMax = p.Generation.ContextMax
		}
	}
	return true
}
