package gate

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/prefix"
)

// Lesson is what a finished request teaches.
type Lesson struct {
	Model, Tenant string
	Chain         prefix.Chain
	Streamed      bool
	Whole         bool // the answer ended by itself: its length is one to learn

	PromptTokens int  // as the engine counted them when Counted, else estimated
	Counted      bool // and then
	TextBytes    int  // is what they were made of; 0 when they were not made of text alone
	CachedTokens int
	Reported     bool // the engine told how many were cached
	Generated    int

	Gaps              []float32 // seconds between tokens
	FirstToken, Ended time.Time // FirstToken is zero when none was seen
}

const (
	// assumedBlockTokens is the tokens of one engine block where nobody told; vLLM's default.
	assumedBlockTokens = 16
	// gapsMin is how many token gaps make a median worth learning, gapsMax how many are looked at.
	gapsMin, gapsMax = 4, 256
)

// Learn takes what a finished request teaches: the worker's speed, the length of answers, bytes per token, and how far the assumed
// cache was right. It is called after Release.
func (g *Gate) Learn(a *Attempt, l Lesson) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.Counted && l.TextBytes > 0 {
		g.ratio.Learn(l.Model, l.TextBytes, l.PromptTokens)
	}
	if l.Generated > 0 && l.Whole {
		g.outputs.Learn(l.Model, l.Tenant, l.Generated)
	}
	if a.Worker.Gone() {
		return
	}
	if l.Reported {
		g.trust(a, &l)
	} else {
		l.CachedTokens = a.Decision.MatchedTokens
	}
	l.CachedTokens = max(0, min(l.CachedTokens, l.PromptTokens-1))
	g.learnSpeed(a, &l)
}

// trust compares the engine's word with the assumption. When far less was cached than assumed, the worker has evicted it, and with
// it what continued it.
func (g *Gate) trust(a *Attempt, l *Lesson) {
	predicted := a.Decision.MatchedTokens
	if slack := max(2*assumedBlockTokens, predicted/10); l.CachedTokens+slack >= predicted {
		return
	}
	bytes := int32(g.ratio.Bytes(l.Model, l.CachedTokens))
	depth, _ := slices.BinarySearch(l.Chain.Ends, bytes+1)
	g.index.Trim(a.Worker.Slot, l.Chain, int32(depth))
}

// learnSpeed learns the worker's timing from a stream that had it to itself in prefill, and from the median gap of its tokens: the
// gaps in which another prefill ran are outliers of the median, not the worker's decode speed.
func (g *Gate) learnSpeed(a *Attempt, l *Lesson) {
	m, uncached := g.costs.Of(a.Worker), l.PromptTokens-l.CachedTokens
	if !l.Streamed {
		m.LearnRough(uncached, l.CachedTokens, l.Generated, l.Ended.Sub(a.Began).Seconds())
		if a.alone {
			learnWhole(m, l, l.Ended.Sub(a.Began).Seconds())
		}
		return
	}
	if !l.FirstToken.IsZero() {
		m.LearnRough(uncached, l.CachedTokens, 0, l.FirstToken.Sub(a.Began).Seconds())
	}
	if a.clean {
		m.LearnPrefill(uncached, l.CachedTokens, a.prefill.Seconds())
	}
	if len(l.Gaps) < gapsMin {
		return
	}
	gaps := slices.Clone(l.Gaps[:min(len(l.Gaps), gapsMax)])
	slices.Sort(gaps)
	m.LearnStep(float64(max(1, a.batch.InFlight)), float64(a.batch.ContextTokens), float64(gaps[len(gaps)/2]))
}

// learnWhole splits the time of an answer that was not streamed, and had its worker to itself, between prefill and decoding in the
// proportion that the present constants give: enough to learn a speed, when no stream tells more.
func learnWhole(m *cost.Model, l *Lesson, seconds float64) {
	k, uncached := m.Constants(), l.PromptTokens-l.CachedTokens
	prefill, decode := k.Prefill(uncached, l.CachedTokens), float64(l.Generated)*k.Step(1, float64(l.PromptTokens))
	share := seconds / (prefill + decode)
	m.LearnPrefill(uncached, l.CachedTokens, prefill*share)
	if l.Generated > 0 {
		m.LearnStep(1, float64(l.PromptTokens), decode*share/float64(l.Generated))
	}
}
