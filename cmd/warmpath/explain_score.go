package main

import (
	"fmt"

	"github.com/warmpath/warmpath/internal/sched"
)

// scoreWords say what the score of each policy is, but for the default's, which is the total. Less is better.
var scoreWords = map[string]string{
	"round-robin":     "the number of the choice that last went there, 0 for none",
	"random":          "drawn by chance for each request",
	"least-requests":  "requests in flight, other routers' included",
	"power-of-two":    "requests in flight; two workers were drawn, and these alone compared",
	"session-hash":    "0 to 1, how far the worker is from owning the session, and 1 more where it has its share already; by chance for a request without a session",
	"least-tokens":    "prompt tokens that are still to be computed there",
	"least-prefill":   "prompt tokens that are still to be computed there, this request's included",
	"multiply":        "prompt tokens to be computed there, this request's included, times the requests in flight and one",
	"linear":          "tokens to be computed and tokens held there, this request's included",
	"linear-tuned":    "tokens to be computed, twice, and tokens held there, less four times those cached",
	"weighted":        "below 0: the share of the prompt that is cached, and how free the worker is, by weight",
	"affinity-filter": "prompt tokens to be computed there, this request's included; 2^40 more where another worker is warm and this one is not",
	"threshold":       "requests in flight, or, where a long match decides, tokens of this prompt to be computed",
}

// notes say below the table what its numbers are.
func (p *explainPrinter) notes(e *explanation, events, scored bool) {
	if events {
		p.say("  * told by the worker's cache events; else it is what the worker was sent\n")
	}
	if e.Cost != nil {
		p.say("  s: seconds of engine time, this request's and those of the ones it disturbs. Its decode is for the mean answer of its model and tenant;\n" +
			"  the cost there is this request's alone, for an answer as like requests had\n")
	}
	if words := scoreWords[e.Policy]; scored && words != "" {
		p.say("  score: what %s goes by, no time; less is better: %s\n", e.Policy, words)
	}
}

// declined says who had more of the prompt, and what spoke most against going there.
func (e *explanation) declined() string {
	var chosen, warm *explainedRow
	for i := range e.Rows {
		switch r := &e.Rows[i]; {
		case r.Chosen:
			chosen = r
		case warm == nil && r.MatchedTokens == e.BestMatchedTokens:
			warm = r // the rows that could be chosen come first
		}
	}
	if chosen == nil || warm == nil {
		return fmt.Sprintf("another worker has %s", thousands(e.BestMatchedTokens))
	}
	if warm.Why != "" {
		return fmt.Sprintf("%s, which a filter put out (%s), has %s", warm.Worker, warm.Why, thousands(e.BestMatchedTokens))
	}
	text, would := fmt.Sprintf("%s has %s", warm.Worker, thousands(e.BestMatchedTokens)), "would cost"
	if e.Came != nil {
		text, would = fmt.Sprintf("%s had %s", warm.Worker, thousands(e.BestMatchedTokens)), "would have cost"
	}
	more := warm.TotalSeconds - chosen.TotalSeconds
	if !(more > 0) {
		return fmt.Sprintf("%s and %s no more: %s goes by another rule", text, would, e.Policy)
	}
	term, most := "", 0.0
	for _, t := range []struct {
		name       string
		warm, here float64
	}{
		{"wait", warm.WaitSeconds, chosen.WaitSeconds}, {"prefill", warm.PrefillSeconds, chosen.PrefillSeconds}, {"delays", warm.DelaySeconds, chosen.DelaySeconds},
		{"decode", warm.DecodeSeconds, chosen.DecodeSeconds}, {"batch", warm.BatchSeconds, chosen.BatchSeconds}, {"displ.", warm.DisplacedSeconds, chosen.DisplacedSeconds},
	} {
		if t.warm-t.here > most {
			term, most = t.name, t.warm-t.here
		}
	}
	text = fmt.Sprintf("%s and %s %s s more", text, would, decimals(more))
	if term != "" {
		text += fmt.Sprintf(", most of all by %s (%s s more)", term, decimals(most))
	}
	if e.Policy != sched.DefaultPolicy {
		text += fmt.Sprintf("; %s goes by another rule", e.Policy)
	}
	return text
}
