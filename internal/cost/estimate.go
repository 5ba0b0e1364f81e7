package cost

import "math"

// Work is what is known of a request before it runs.
type Work struct {
	PromptTokens int // of all its prompts
	CachedTokens int // of these, in a cache where it would run
	Prompts      int // independent prompts, 0 is 1
	Answers      int // to each prompt: the larger of n and best_of, 0 is 1
	Output       Lengths
}

// Estimate is what a request is expected to cost somewhere. It leaves out the wait before its prefill.
type Estimate struct {
	PromptTokens   int     `json:"prompt_tokens"`
	CachedTokens   int     `json:"cached_tokens"`
	OutputTokens   float64 `json:"output_tokens"` // of all answers, the mean
	OutputP50      float64 `json:"output_tokens_p50"`
	OutputP90      float64 `json:"output_tokens_p90"`
	PrefillSeconds float64 `json:"prefill_seconds"` // until its first token, the steps of those that decode beside it included
	DecodeSeconds  float64 `json:"decode_seconds"`  // from then until the longest answer ends
	// EngineSeconds is its share of the engine's time: its prefill, and of every step that it is in what its sequences add to it and their
	// part of the rest. The shares of all requests sum to the time that the engine was at work.
	EngineSeconds float64 `json:"engine_seconds"`
	KVTokensPeak  int     `json:"kv_tokens_peak"` // with answers as long as nine of ten are
}

// ChunkTokens is how many prompt tokens an engine takes into one step, vLLM's default on large GPUs: so many steps a prefill has.
const ChunkTokens = 8192

// On estimates the work under those conditions: prefill by Constants.Prefill and what those that decode there add to its steps, each decode
// step by Constants.Step.
func (w Work) On(c Conditions) Estimate {
	prompts, answers := max(w.Prompts, 1), max(w.Answers, 1)
	cached := min(max(w.CachedTokens, 0), max(w.PromptTokens, 0))
	e := Estimate{PromptTokens: max(w.PromptTokens, 0), CachedTokens: cached}
	each, eachCached := e.PromptTokens/prompts, cached/prompts
	e.EngineSeconds = float64(prompts) * c.Prefill(each-eachCached, eachCached)
	others, context := max(c.Batch, 0), max(c.ContextTokens, 0)
	steps := (each - eachCached + ChunkTokens - 1) / ChunkTokens
	e.PrefillSeconds = e.EngineSeconds + float64(prompts*steps)*(c.D1*others+c.D2*context)
	pages := pageRounded(each, c.PageTokens)
	e.KVTokensPeak = prompts * pages
	if !(w.Output.Mean > 0) {
		return e
	}
	n := float64(prompts * answers)
	e.OutputTokens, e.OutputP50, e.OutputP90 = n*w.Output.Mean, n*w.Output.P50, n*w.Output.P90
	peak := max(w.Output.P90, w.Output.Mean)
	// The whole pages of the prompt are shared by its answers; the last, half full, is each one's own.
	shared := each - each%max(c.PageTokens, 1)
	e.KVTokensPeak = prompts * (shared + answers*pageRounded(each-shared+int(math.Ceil(peak)), c.PageTokens))

	own := n * (float64(each) + w.Output.Mean/2)
	e.DecodeSeconds = max(w.Output.Longest, w.Output.Mean) * c.Step(others+n, context+own)
	e.EngineSeconds += w.Output.Mean * (n*(c.D0/(others+n)+c.D1) + c.D2*own)
	return e
}

func pageRounded(tokens, page int) int {
	page = max(page, 1)
	return (tokens + page - 1) / page * page
}

// Price is what a model costs, in whatever money all prices are in. All that are given are added up.
type Price struct {
	WorkerHour float64 `yaml:"worker_hour" doc:"Of one worker for an hour; a request pays for its share of the engine's time."`
	Input      float64 `yaml:"input" doc:"Of a million prompt tokens."`
	Cached     float64 `yaml:"cached" doc:"Of a million prompt tokens that were cached. 0: as input."`
	Output     float64 `yaml:"output" doc:"Of a million generated tokens."`
}

// Of is the money for so much of an engine's time and so many tokens, prompt tokens including cached ones.
func (p Price) Of(engineSeconds float64, promptTokens, cachedTokens int, outputTokens float64) float64 {
	cachedPrice := p.Cached
	if cachedPrice == 0 {
		cachedPrice = p.Input
	}
	cached := min(max(cachedTokens, 0), promptTokens)
	perMillion := p.Input*float64(promptTokens-cached) + cachedPrice*float64(cached) + p.Output*outputTokens
	return p.WorkerHour*engineSeconds/3600 + perMillion/1e6
}

// Expected is the money that the estimate comes to.
func (p Price) Expected(e Estimate) float64 {
	return p.Of(e.EngineSeconds, e.PromptTokens, e.CachedTokens, e.OutputTokens)
}

// Check names the setting of a price that cannot be; "" when all can.
func (p Price) Check() (setting string, value float64) {
	for _, part := range [...]struct {
		name  string
		value float64
	}{{"worker_hour", p.WorkerHour}, {"input", p.Input}, {"cached", p.Cached}, {"output", p.Output}} {
		if !(part.value >= 0) || math.IsInf(part.value, 0) {
			return part.name, part.value
		}
	}
	return "", 0
}
