package gate

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/warmpath/warmpath/internal/sched"
)

// What clients are told of a decision, and what is expected of an answer before there is one.

// Explain is the decision as one line of JSON.
func (a *Attempt) Explain() string {
	line, err := json.Marshal(&a.Decision)
	if err != nil {
		return ""
	}
	return string(line)
}

// Cost is what a request is expected to take there, and how long it waited, as one line of JSON.
func (a *Attempt) Cost(waited time.Duration) string {
	f, money := &a.Forecast, ""
	if f.Priced {
		money = fmt.Sprintf(`"money":%.6g,`, f.Money)
	}
	return fmt.Sprintf(`{"prompt_tokens":%d,"cached_tokens":%d,"output_tokens":%.0f,"output_tokens_p50":%.0f,"output_tokens_p90":%.0f,"prefill_seconds":%.4g,"decode_seconds":%.4g,`+
		`"engine_seconds":%.4g,"kv_tokens_peak":%d,%s"waited_seconds":%.4g}`, f.PromptTokens, f.CachedTokens, f.OutputTokens, f.OutputP50, f.OutputP90, f.PrefillSeconds, f.DecodeSeconds,
		f.EngineSeconds, f.KVTokensPeak, money, waited.Seconds())
}

// Expect is how many tokens an answer has that says no limit, by the model's and the tenant's others.
func (g *Gate) Expect(model, tenant string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return int(g.outputs.Expect(model, tenant, 0))
}

// Seconds are those of an engine's time that a request should take where it costs least; 0 where nobody can serve it.
func (g *Gate) Seconds(req sched.Request) float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, err := g.sched.Price(g.now(), req)
	if err != nil {
		return 0
	}
	return c.Seconds()
}
