// Package cost turns work into seconds of engine time: what a prompt's prefill takes, what a decode step takes, how long
// an answer will be and how many tokens a prompt has. It starts from an engine class's published shape, learns each
// worker's own constants from the times that are observed, and holds no clock, lock or goroutine: its owner serialises.
//
//	book := cost.NewBook(cost.DefaultOptions())
//	m := book.Of(worker)
//	m.LearnPrefill(1800, 200, 0.041)                 // 1,800 of 2,000 prompt tokens took 41 ms
//	seconds := m.Constants().Prefill(6000, 2000)     // what 6,000 more after 2,000 cached would take
//	out := outputs.Lengths(cost.Asking{Model: "m", Tenant: "search"})
//	e := cost.Work{PromptTokens: 8000, CachedTokens: 2000, Output: out}.On(cost.Conditions{Constants: m.Constants(), Batch: 12})
//	money := cost.Price{WorkerHour: 2.5}.Expected(e) // seconds, tokens at peak and money before it runs
package cost

// Constants are one worker's timing, all in seconds: a prefill costs A once, B a token and C a squared token; a decode
// step costs D0, D1 a sequence in the batch and D2 a token of context in the batch.
type Constants struct {
	A, B, C, D0, D1, D2 float64
}

// Prefill returns the seconds that the uncached tokens of a prompt take behind cached ones already in the KV cache:
// A + max(D0, B*u) + C*((h+u)^2 - h^2). The floor is there because a step costs its memory traffic however short the
// prompt is, so a prefill is never less than one step; a plain A + B*u would call a 20 token prompt free.
func (k Constants) Prefill(uncached, cached int) float64 {
	u, h := float64(max(uncached, 0)), float64(max(cached, 0))
	return k.A + max(k.D0, k.B*u) + k.C*u*(u+2*h)
}

// Step returns the seconds of one decode step: D0 + D1*batch + D2*context, batch in sequences, contextTokens the sum
// of their contexts.
func (k Constants) Step(batch, contextTokens float64) float64 {
	return k.D0 + k.D1*batch + k.D2*contextTokens
}

// Scaled returns the constants of an engine of the same shape that takes factor times as long for everything.
func (k Constants) Scaled(factor float64) Constants {
	return Constants{k.A * factor, k.B * factor, k.C * factor, k.D0 * factor, k.D1 * factor, k.D2 * factor}
}

// Profile is a published engine: its timing and its limits.
type Profile struct {
	Name string
	Constants
	// KVTokensMax is the size of the KV cache in tokens, BatchMax the sequences that run at once, ChunkTokens the
	// prompt tokens that one step prefills at most, BlockTokens the tokens of one cache block, PageTokens those by which room is taken (0: a block).
	KVTokensMax, BatchMax    int
	ChunkTokens, BlockTokens int
	PageTokens               int
	// TierTokensMax is the size in tokens of slower memory that takes what the cache evicts, 0 none; TierSeconds is what loading
	// one token back takes.
	TierTokensMax int
	TierSeconds   float64
}

// profile takes the six constants in milliseconds, as they are published.
func profile(name string, a, b, c, d0, d1, d2 float64, kvTokens int) Profile {
	return Profile{
		Name:        name,
		Constants:   Constants{a, b, c, d0, d1, d2}.Scaled(1e-3),
		KVTokensMax: kvTokens, BatchMax: 256, ChunkTokens: 8192, BlockTokens: 16,
	}
}

// Profiles are the known engines by name, fitted to measured kernels without launch overhead: an 8B, a 32B and a 70B
// model in 16 bit on H100 and A100 (tpN: over N GPUs). Read only.
var Profiles = map[string]Profile{
	"h100-8b":      profile("h100-8b", 1.3, .0191, 5.25e-7, 6.24, .0114, 4.28e-5, 400_000),
	"h100-70b-tp4": profile("h100-70b-tp4", 6.5, .0756, 6.34e-7, 17.1, .0431, 2.64e-5, 430_000),
	"h100-32b-tp2": profile("h100-32b-tp2", 2.6, .0568, 7.11e-7, 15.6, .0288, 4.34e-5, 275_000),
	"a100-8b":      profile("a100-8b", 7.2, .0530, 2.05e-6, 11.5, .0322, 7.84e-5, 400_000),
	"a100-70b-tp4": profile("a100-70b-tp4", 25, .153, 2.2e-6, 29.6, .112, 5.2e-5, 430_000),
	"a100-32b-tp2": profile("a100-32b-tp2", 18, .127, 3.05e-6, 26.8, .082, 8.6e-5, 275_000),
}
