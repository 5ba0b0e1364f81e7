package proxy

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/sched"
)

// Facts is all that is known of a request when it is over. It is valid during the Settled hook only.
type Facts struct {
	ID, Method, Path string
	API              llmapi.API
	Model, Tenant    string
	Stream           bool
	Bytes, TextBytes int // of the body, and of the conversation in it
	PromptTokens     int // estimated
	MaxTokens        int // 0 = the client did not say
	Session          uint64
	Chain            prefix.Chain

	Decision     sched.Decision // the last one
	Tries        int            // workers asked
	Failed       []FailedTry    // those that did not answer well, before the last
	DecisionTime time.Duration  // keys and placement
	Status       int            // HTTP status the client got, 0 when it got none
	Outcome      Outcome
	Error        string // what went wrong, without any of the request's content
	ErrorClass   string // of the upstream error, if that was it

	Started, Placed, FirstToken, Ended time.Time // zero when it never came to that
	Gaps                               []float32 // seconds between tokens, the first 4,096
	GapMax                             time.Duration
	Tokens                             int // pieces of content seen in a stream
	Usage                              llmapi.Usage
	Unterminated                       bool // the stream ended cleanly without its dialect's terminator

	keyed     time.Duration // time of the key step, until the first decision takes it in
	clean     bool          // the prefill was observed alone
	prefill   time.Duration
	batch     fleet.Load // at the first token
	lastToken time.Time
	aborted   bool // the client's connection is broken on purpose
}

// FailedTry is an attempt after which another worker was tried.
type FailedTry struct {
	Worker, Class string
	Status        int // of its answer, 0 when it gave none
}

// Reported says whether the engine told how much of the prompt was cached.
func (f *Facts) Reported() bool { return f.Usage.HasCached }

// settle is the one end of every request: whatever was taken is given back, what was seen is learned, and the rest of the program
// is told. It runs after panics too.
func (x *exchange) settle() {
	f := &x.facts
	f.Ended = x.p.now()
	if x.try != nil {
		x.release(fleetOutcome(f.Outcome))
		x.p.gate.learn(x)
	}
	if h := x.p.hooks.Settled; h != nil {
		h(f)
	}
}

// learn takes what a finished request teaches: the worker's speed, the length of answers, bytes per token, and how far the assumed
// cache was right.
func (g *Gate) learn(x *exchange) {
	f, w := &x.facts, x.try.end.worker
	if f.Outcome != OutcomeSucceeded && f.Outcome != OutcomeIncomplete {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	prompt, cached := f.PromptTokens, f.Decision.MatchedTokens
	if f.Usage.HasPrompt {
		prompt = f.Usage.PromptTokens
		if !x.req.TokenIDs && x.req.MediaParts == 0 {
			g.ratio.Learn(f.Model, f.TextBytes, prompt)
		}
	}
	if f.Usage.HasCached {
		cached = f.Usage.CachedTokens
	}
	generated := f.Tokens
	if f.Usage.HasCompletion {
		generated = f.Usage.CompletionTokens
	}
	if generated > 0 && f.Outcome == OutcomeSucceeded {
		g.outputs.Learn(f.Model, f.Tenant, generated)
	}
	if w.Gone() {
		return
	}
	if f.Usage.HasCached {
		g.trust(x, w, cached)
	}
	g.learnSpeed(x, w, max(prompt-cached, 1), cached, generated)
}

// trust compares the engine's word with the assumption. When far less was cached than assumed, the worker has evicted it, and with
// it all that was used less recently.
func (g *Gate) trust(x *exchange, w *fleet.Worker, cached int) {
	predicted := x.facts.Decision.MatchedTokens
	if slack := max(2*assumedBlockTokens, predicted/10); cached+slack >= predicted {
		return
	}
	bytes := int32(g.ratio.Bytes(x.facts.Model, cached))
	depth, _ := slices.BinarySearch(x.chain.Ends, bytes+1)
	g.index.Trim(w.Slot, x.chain, int32(depth))
}

// assumedBlockTokens is the tokens of one engine block where nobody told; vLLM's default.
const assumedBlockTokens = 16

// learnSpeed learns the worker's timing from a request that had it to itself in prefill, and from the median gap of its tokens:
// the gaps in which another prefill ran are outliers of the median, not the worker's decode speed.
func (g *Gate) learnSpeed(x *exchange, w *fleet.Worker, uncached, cached, generated int) {
	f, m := &x.facts, g.costs.Of(w)
	f.learnRough(m, uncached, cached, generated)
	if !f.Stream {
		g.learnWhole(x, w, uncached, cached, generated)
		return
	}
	if f.clean {
		m.LearnPrefill(uncached, cached, f.prefill.Seconds())
	}
	if len(f.Gaps) < 4 {
		return
	}
	gaps := slices.Clone(f.Gaps[:min(len(f.Gaps), 256)])
	slices.Sort(gaps)
	m.LearnStep(float64(max(1, f.batch.InFlight)), float64(f.batch.ContextTokens), float64(gaps[len(gaps)/2]))
}

// learnRough takes the time until the first token, or until the end of an answer that was not streamed, for what little it tells.
func (f *Facts) learnRough(m *cost.Model, uncached, cached, generated int) {
	end := f.Ended
	if f.Stream {
		end, generated = f.FirstToken, 0
	}
	if !end.IsZero() {
		m.LearnRough(uncached, cached, generated, end.Sub(f.Placed).Seconds())
	}
}

// learnWhole splits the time of an answer that was not streamed between prefill and decoding in the proportion that the present
// constants give: enough to learn a speed, when no stream tells more.
func (g *Gate) learnWhole(x *exchange, w *fleet.Worker, uncached, cached, generated int) {
	f, m := &x.facts, g.costs.Of(w)
	if !f.clean || generated < 1 {
		return
	}
	k, batch, context := m.Constants(), float64(max(1, f.batch.InFlight)), float64(uncached+cached)
	prefill, decode := k.Prefill(uncached, cached), float64(generated)*k.Step(batch, context)
	share := f.prefill.Seconds() / (prefill + decode)
	m.LearnPrefill(uncached, cached, prefill*share)
	m.LearnStep(batch, context, decode*share/float64(generated))
}
