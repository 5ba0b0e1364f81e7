// Package facts is all that is known of a request when it is over: what the rest of the program counts, logs and learns from.
//
//	hooks.Settled = func(f *facts.Facts) { log.Info("request", "id", f.ID, "outcome", f.Outcome) }
package facts

import (
	"time"

	"github.com/warmpath/warmpath/internal/choice"
	"github.com/warmpath/warmpath/internal/forecast"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/trace"
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
	Known            []sched.Known // of the prompt by its own tokens, where TokensKnown says that these are
	Excerpt          []byte        // how the prompt begins, where such is to be kept; else nil

	Trace        trace.Context
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
	Preempted    int           // how often its work gave way to a more urgent request,
	Wasted       float64       // where so many seconds of engine time were spent in vain
	Class        string        // in the queue; "" when nobody knew who asked
	ClassWhy     string        // it is not the one that the request asked for, and why; "" it is, or none was asked for
	Refused      string        // why it might not wait, or not longer; or which of its tenant's limits kept it out
	Status       int           // HTTP status the client got, 0 when it got none
	Outcome      outcome.Outcome
	Error        string // what went wrong, without any of the request's content
	ErrorClass   string // of the upstream error, if that was it
	Operator     string // who cancelled it; "" nobody did

	Started, Placed, FirstToken, Ended time.Time // zero when it never came to that
	Gaps                               []float32 // seconds between tokens, the first 4,096
	GapMax                             time.Duration
	Tokens                             int // pieces of content seen in a stream
	Usage                              llmapi.Usage
	Unterminated                       bool // the stream ended cleanly without its dialect's terminator
}

// FailedTry is an attempt after which another worker was tried.
type FailedTry struct {
	Worker, Class string
	Status        int // of its answer, 0 when it gave none
}

// Lesson is what a finished request teaches. textual says that its prompt was text alone.
func (f *Facts) Lesson(textual bool) gate.Lesson {
	l := gate.Lesson{Model: f.Model, Tenant: f.Tenant, Chain: f.Chain, Streamed: f.Stream, Whole: f.Outcome == outcome.Succeeded,
		PromptTokens: f.PromptTokens, Generated: f.Tokens, Gaps: f.Gaps, FirstToken: f.FirstToken, Ended: f.Ended}
	if u := &f.Usage; u.HasPrompt {
		l.PromptTokens, l.Counted = u.PromptTokens, true
		if textual {
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
