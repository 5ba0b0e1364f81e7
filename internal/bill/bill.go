// Package bill is what a request uses of its tenant's limits: tokens, and the money that they cost. It is pure.
//
//	desk.Begin(now, guest, model, bill.Expected(price, ask))     // reserved before it runs
//	desk.End(now, guest, ran, bill.Used(price, use))             // settled by what it took
//
// Money is counted from prices: of a million tokens, of a worker's hour, or both. An hour is paid by shares of the engine's time, the same that
// turns in the queue go by.
package bill

import (
	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/tenant"
)

// tokensMax is more than any answer has.
const tokensMax = 1 << 30

// Ask is a request before it runs.
type Ask struct {
	PromptTokens int
	AnswerTokens int     // of each answer, as long as it may get or as such answers are
	Answers      int     // 0 is 1
	Seconds      float64 // of an engine's time that it should take, where hours have a price
}

// Expected is what a request is expected to use. None of its prompt counts as cached yet, so that what is reserved is rarely too little.
func Expected(p cost.Price, a Ask) tenant.Use {
	answers := min(a.AnswerTokens, tokensMax) * min(max(1, a.Answers), tokensMax) // no overflow
	u := tenant.Use{Tokens: a.PromptTokens + answers}
	u.Money = tenant.MoneyOf(p.Of(a.Seconds, a.PromptTokens, 0, float64(answers)))
	return u
}

// Use is a request when it is over.
type Use struct {
	PromptTokens, CachedTokens, CompletionTokens int
	Reported, CachedReported                     bool // the engine told the first; the second
	Seen                                         int  // tokens that were seen in a stream
	Whole                                        bool // its answer came to its end: what the engine told last is all of it
	Estimate                                     int  // tokens of its prompt, for engines that do not tell
	Placed                                       Expectation
}

// Expectation is what was expected of it where it was placed.
type Expectation struct {
	PrefillSeconds, DecodeSeconds float64 // of the engine's time
	UncachedTokens, OutputTokens  float64 // that they were expected of
}

// Used is what it used, to the token.
func Used(p cost.Price, u Use) tenant.Use {
	prompt, answer := u.PromptTokens, u.CompletionTokens
	if !u.Reported {
		prompt, answer = u.Estimate, u.Seen
	} else if !u.Whole { // some engines tell the prompt with the first event, and the answer with the last, which did not come
		answer = max(answer, u.Seen)
	}
	return tenant.Use{Tokens: prompt + answer, Money: tenant.MoneyOf(p.Of(u.seconds(prompt, answer), prompt, u.CachedTokens, float64(answer)))}
}

// seconds are those of the engine's time, expected ones put right by the tokens that came of it.
func (u *Use) seconds(prompt, answer int) float64 {
	e := &u.Placed
	prefill, decode := e.PrefillSeconds, e.DecodeSeconds
	if u.Reported && u.CachedReported && e.UncachedTokens > 0 {
		prefill *= max(0, float64(prompt-u.CachedTokens)) / e.UncachedTokens
	}
	if e.OutputTokens > 0 {
		decode *= float64(answer) / e.OutputTokens
	}
	return prefill + decode
}

// Charged is the money that a request costs that used so much; one that no engine began costs nothing.
func Charged(ran bool, u tenant.Use) (units float64) {
	if ran {
		units = u.Money.Units()
	}
	return units
}

// Ran says whether an engine began a request, for all that is known: one that a worker refused has cost nothing, nor has one that failed before
// a token came of it; what a client left behind was computed. seen is whether a token was, or the engine told of the prompt.
func Ran(o outcome.Outcome, tries int, seen bool) bool {
	switch o {
	case outcome.Succeeded, outcome.Incomplete:
		return true
	case outcome.Cancelled:
		return tries > 0
	case outcome.Failed:
		return seen
	}
	return false
}
