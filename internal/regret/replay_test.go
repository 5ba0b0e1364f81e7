package regret_test

import (
	"context"
	"testing"

	"github.com/warmpath/warmpath/internal/lineup"
	"github.com/warmpath/warmpath/internal/regret"
	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/sweep"
	"github.com/warmpath/warmpath/internal/traces"
)

// beside is the regret of one policy as it is told beside the traffic, and what a choice lost on the mean by the replay, which follows every other
// choice from the same state.
func beside(t *testing.T, policy string) (s regret.Sums, replayed float64) {
	t.Helper()
	trace, err := traces.Open("documents:documents=8,questions=4,rate=1", traces.Options{})
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := lineup.Parse("h100-32b-tp2:3", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := sim.Config{Trace: trace, Fleet: fleet, Policy: policy, Jitter: -1, Seed: 1}
	run := sweep.NewRun(0, c)
	if err := sweep.Do(context.Background(), []*sweep.Run{run}, 1, func(*sweep.Run) {}); err != nil {
		t.Fatal(err)
	}
	all, err := sweep.Regrets(context.Background(), run, 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		replayed += x.Lost.Seconds() / float64(len(all))
	}
	c.Told = func(told sim.Told) {
		q := told.Sequence
		course := regret.Course{PromptTokens: q.PromptTokens, AnswerTokens: q.Generated, CachedTokens: q.CachedTokens, CachedKnown: true,
			First: (q.FirstToken - q.Arrived).Seconds(), Decode: (q.Finished - q.FirstToken).Seconds()}
		if v, ok := regret.Judge(told.Decision, told.Request.Prompt, &course); ok {
			s.Add(v)
		}
	}
	if _, err := sim.Run(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	least, most := s.Gained()
	choices := float64(s.Requests)
	t.Logf("%s: of %d choices %d beaten, %.3f s lost each, %.3f s by replay; gained %.3f to %.3f s each", policy, s.Requests, s.Beaten, s.LostSeconds/choices, replayed, least/choices, most/choices)
	return s, replayed
}

func TestRegretToldBesideTheTrafficIsThatOfTheReplay(t *testing.T) {
	t.Parallel()
	warm, warmReplayed := beside(t, "warm-cost")
	chance, chanceReplayed := beside(t, "random")
	if !(warm.LostSeconds < chance.LostSeconds) || !(warmReplayed < chanceReplayed) {
		t.Error("choices by chance are to be regretted more")
	}
	least, _ := warm.Gained()
	if _, most := chance.Gained(); !(least > 0) || !(most < 0) {
		t.Errorf("the rule gains against the next best, %.0f s at least, and chance loses, %.0f s at most", least, most)
	}
	if ratio := chance.LostSeconds / float64(chance.Requests) / chanceReplayed; !(ratio > 1./3 && ratio < 3) {
		t.Errorf("beside the traffic choices by chance lost %.2f times what they lost by replay", ratio)
	}
}
