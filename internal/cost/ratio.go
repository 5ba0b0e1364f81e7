package cost

import "math"

// What a prompt's bytes make in tokens before anything was observed, and how far one observation may lie: text in any
// script is within these, and what is outside (a picture counted as 1,000 tokens of 40 bytes) is no text.
const (
	bytesPerTokenStart = 4.0
	bytesPerTokenMin   = 0.5
	bytesPerTokenMax   = 16.0

	// ratioStartTokens is the weight of the start value, ratioMemoryTokens what is remembered: past it, old
	// observations fade, so that a change of traffic shows within some hundred prompts.
	ratioStartTokens  = 256
	ratioMemoryTokens = 1 << 20

	// ratioModelsMax bounds the models that are told apart; all others share the ratio of everything.
	ratioModelsMax = 1024
)

// Ratio estimates the tokens of a prompt from its bytes, per model, from the usage that replies report.
type Ratio struct {
	models map[string]*ratio
	all    ratio
}

type ratio struct{ bytes, tokens float64 }

// NewRatio returns a Ratio that calls four bytes a token until it has learned better.
func NewRatio() *Ratio { return &Ratio{models: make(map[string]*ratio)} }

// Tokens estimates the tokens of a prompt of that many bytes; at least 1 when there are bytes.
func (r *Ratio) Tokens(model string, bytes int) int {
	if bytes <= 0 {
		return 0
	}
	return max(1, int(math.Round(float64(bytes)/r.of(model))))
}

// Bytes is the inverse of Tokens.
func (r *Ratio) Bytes(model string, tokens int) int {
	return int(math.Round(float64(max(tokens, 0)) * r.of(model)))
}

// Learn takes one prompt whose tokens the engine reported. A ratio that text cannot have is ignored.
func (r *Ratio) Learn(model string, bytes, tokens int) {
	if bytes <= 0 || tokens <= 0 {
		return
	}
	if q := float64(bytes) / float64(tokens); q < bytesPerTokenMin || q > bytesPerTokenMax {
		return
	}
	m := r.models[model]
	if m == nil && len(r.models) < ratioModelsMax {
		m = &ratio{}
		r.models[model] = m
	}
	if m != nil {
		m.add(float64(bytes), float64(tokens))
	}
	r.all.add(float64(bytes), float64(tokens))
}

func (r *Ratio) of(model string) float64 {
	start := r.all.value(bytesPerTokenStart)
	if m := r.models[model]; m != nil {
		return m.value(start)
	}
	return start
}

func (m *ratio) add(bytes, tokens float64) {
	if m.tokens+tokens > ratioMemoryTokens {
		keep := max(0, ratioMemoryTokens-tokens) / max(m.tokens, 1)
		m.bytes, m.tokens = m.bytes*min(keep, 1), m.tokens*min(keep, 1)
	}
	m.bytes, m.tokens = m.bytes+bytes, m.tokens+tokens
}

// value is the ratio of sums, not the mean of ratios: a chat template adds tokens that short prompts cannot hide.
func (m *ratio) value(start float64) float64 {
	return (m.bytes + start*ratioStartTokens) / (m.tokens + ratioStartTokens)
}
