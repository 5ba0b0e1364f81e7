package proxy

import (
	"time"

	"github.com/warmpath/warmpath/internal/choice"
	"github.com/warmpath/warmpath/internal/forecast"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/outcome"
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
	PromptTokens     int // estimated, unless
	TokensKnown      bool
	MaxTokens        int // 0 = the client did not say
	Session          uint64
	Chain            prefix.Chain

	Decision     sched.Decision    // the last one,
	Forecast     forecast.Forecast // and what was expected of the request there
	Money        float64           // that it cost, at its model's price
	Pool         gate.Pool
	Asked        string // the model that it named, where that stands for others
	Choice       choice.Choice
	Tries        int           // workers asked
	Failed       []FailedTry   // those that did not answer well, before the last
	DecisionTime time.Duration // keys and placement
	Waited       time.Duration // for room on a worker
	Class        string        // in the queue; "" when nobody knew who asked
	Refused      string        // why it might not wait, or not longer; or which of its tenant's limits kept it out
	Status       int           // HTTP status the client got, 0 when it got none
	Outcome      outcome.Outcome
	Error        string // what went wrong, without any of the request's content
	ErrorClass   string // of the upstream error, if that was it

	Started, Placed, FirstToken, Ended time.Time // zero when it never came to that
	Gaps                               []float32 // seconds between tokens, the first 4,096
	GapMax                             time.Duration
	Tokens                             int // pieces of content seen in a stream
	Usage                              llmapi.Usage
	Unterminated                       bool // the stream ended cleanly without its dialect's terminator

	keyed     time.Time // when the key step began, until the first decision takes it in
	lastToken time.Time
	aborted   bool // the client's connection is broken on purpose
}

// FailedTry is an attempt after which another worker was tried.
type FailedTry struct {
	Worker, Class string
	Status        int // of its answer, 0 when it gave none
}

// settle is the one end of every request: whatever was taken is given back, what was seen is learned, and the rest of the program
// is told. It runs after panics too.
func (x *exchange) settle() {
	f := &x.facts
	f.Ended = x.p.now()
	x.leave()
	if x.ran() {
		x.p.choice.Sent(&x.pick)
	}
	if a := x.try; a != nil {
		a.entering.Wait()
		end := gate.End{At: f.Ended, Outcome: f.Outcome.ForFleet(), Good: a.good, Released: a.settled, Computed: x.computed(f.Outcome.ForFleet()), Chain: x.chain}
		if f.Outcome == outcome.Succeeded || f.Outcome == outcome.Incomplete {
			lesson := x.lesson()
			end.Lesson = &lesson
		}
		a.settled = true
		x.p.gate.Settle(&a.Attempt, end)
	}
	if h := x.p.hooks.Settled; h != nil {
		h(f)
	}
}

// lesson is what a finished request teaches.
func (x *exchange) lesson() gate.Lesson {
	f := &x.facts
	l := gate.Lesson{Model: f.Model, Tenant: f.Tenant, Chain: x.chain, Streamed: f.Stream, Whole: f.Outcome == outcome.Succeeded,
		PromptTokens: f.PromptTokens, Generated: f.Tokens, Gaps: f.Gaps, FirstToken: f.FirstToken, Ended: f.Ended}
	if u := &f.Usage; u.HasPrompt {
		l.PromptTokens, l.Counted = u.PromptTokens, true
		if !x.req.TokenIDs && x.req.MediaParts == 0 {
			l.TextBytes = f.TextBytes
		}
	}
	if u := &f.Usage; u.HasCached {
		l.CachedTokens, l.Reported = u.CachedTokens, true
	}
	if f.Usage.HasCompletion {
		l.Generated = f.Usage.CompletionTokens
	}
	return l
}
