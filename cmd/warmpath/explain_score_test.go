package main

import (
	"testing"

	"github.com/warmpath/warmpath/internal/sched"
)

func TestTheScoreOfEveryPolicyHasWords(t *testing.T) {
	for _, name := range sched.PolicyNames() {
		if words := scoreWords[name]; (words == "") != (name == sched.DefaultPolicy) {
			t.Errorf("%s: %q", name, words)
		}
	}
}

func TestADeclinedHitNamesWhatSpokeMostAgainstIt(t *testing.T) {
	here := explainedRow{Worker: "a", Chosen: true, PrefillSeconds: 0.5, DecodeSeconds: 1, TotalSeconds: 1.5}
	for _, c := range []struct {
		what, policy string
		warm         explainedRow
		want         string
	}{
		{"a wait", "warm-cost", explainedRow{Worker: "b", WaitSeconds: 2, DecodeSeconds: 1.25, TotalSeconds: 3.25}, "b has 1,000 and would cost 1.75 s more, most of all by wait (2.00 s more)"},
		{"its batch", "warm-cost", explainedRow{Worker: "b", DecodeSeconds: 1.25, BatchSeconds: 0.75, TotalSeconds: 2}, "b has 1,000 and would cost 0.5000 s more, most of all by batch (0.7500 s more)"},
		{"another rule", "round-robin", explainedRow{Worker: "b", DecodeSeconds: 1, TotalSeconds: 1}, "b has 1,000 and would cost no more: round-robin goes by another rule"},
		{"a filter", "warm-cost", explainedRow{Worker: "b", Why: "in-flight cap", TotalSeconds: 1}, "b, which a filter put out (in-flight cap), has 1,000"},
		{"a row that is not kept", "warm-cost", explainedRow{Worker: "b"}, "another worker has 1,000"},
	} {
		if c.warm.TotalSeconds > 0 {
			c.warm.MatchedTokens = 1000
		}
		e := explanation{Policy: c.policy, BestMatchedTokens: 1000, Rows: []explainedRow{here, c.warm}}
		if got := e.declined(); got != c.want {
			t.Errorf("%s: %s", c.what, got)
		}
	}
}
