package sched

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/fleet"
)

// Chats over workers that are said to be small: their slots fill, and their caches turn over. They are equally fast, so that the terms
// for unlike ones change nothing.
func TestEachTermOfTheDefaultRuleChangesWhatHappens(t *testing.T) {
	const answer = 164 // mean tokens after the first
	outcomes := map[outcome]string{}
	for _, name := range append([]string{""}, TermNames()...) {
		r := newRig(t, 4, DefaultPolicy)
		if name != "" {
			r.s.without, _ = ParseTerms(name)
		}
		for i, w := range r.f.Workers() {
			w.SetInfo(fleet.Info{Engine: "sim", Models: []fleet.Model{{ID: "m"}}, BlockTokens: 16, KVTokensMax: 60_000, SlotsMax: 5 + 15*i})
		}
		out := r.run(chats(5, 60, 60))
		t.Logf("without %-12q TTFT %.3f s, all %.3f s, %+v", name, out.ttft, out.ttft+answer*out.tpot, out)
		if unlike, _ := ParseTerms("share", "toll"); r.s.without&unlike != 0 {
			if same, seen := outcomes[out]; !seen || same != "" {
				t.Errorf("among equal workers all changes without %q", name)
			}
			continue
		}
		if same, seen := outcomes[out]; seen {
			t.Errorf("without %q all is as without %q", name, same)
		}
		outcomes[out] = name
	}
}

func TestTermsHaveNames(t *testing.T) {
	all, err := ParseTerms(TermNames()...)
	if err != nil || all.String() != strings.Join(TermNames(), ",") || Terms(0).String() != "" {
		t.Errorf("all terms are %v, %v", all, err)
	}
	for i, name := range TermNames() {
		if one, err := ParseTerms(name); err != nil || one != 1<<i || one.String() != name || !all.has(one) || one.has(all&^one) {
			t.Errorf("%s is %v, %v", name, one, err)
		}
	}
	if _, err := ParseTerms("age", "bath"); err == nil || !strings.Contains(err.Error(), `"bath"`) || !strings.Contains(err.Error(), "batch") {
		t.Errorf("an unknown term: %v", err)
	}
}
