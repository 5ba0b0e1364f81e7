package contest

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/sweep"
)

func TestTermsAreMeasuredOneByOneAgainstTheBestPolicy(t *testing.T) {
	terms, err := Terms([]string{"ride-along", "decode", "decode"})
	if err != nil || len(terms) != 2 {
		t.Fatalf("terms %v, %v", terms, err)
	}
	c, err := New(Options{Half: "even", Only: regexp.MustCompile("^hot/(50k/2/30%|8k/2/30%)$"), Policies: []string{"round-robin"}})
	if err != nil {
		t.Fatal(err)
	}
	runs := c.AblationRuns(terms)
	if err := sweep.Do(t.Context(), runs, 0, func(*sweep.Run) {}); err != nil {
		t.Fatal(err)
	}
	a := c.Ablate(runs, terms)
	if len(a.Parts) != 3 || len(runs)%4 != 0 || a.Parts[0].Points != len(runs)/4 || a.Parts[0].Without != "" || a.Parts[2].Without != "decode" {
		t.Fatalf("%d runs, %+v", len(runs), a)
	}
	for _, p := range a.Parts[1:] {
		if p.Geometric == a.Parts[0].Geometric || p.HurtsAt == "" || p.Points != a.Parts[0].Points {
			t.Errorf("%+v", p)
		}
	}
	var printed bytes.Buffer
	a.Print(&printed)
	if lines := strings.Split(strings.TrimSpace(printed.String()), "\n"); len(lines) < 5 || !strings.HasPrefix(lines[3], "without ride-along ") || !strings.Contains(printed.String(), "farthest from the best TTFT p99") {
		t.Errorf("%s", printed.String())
	}
}

// A part of the rule may do better at a point than any policy: ratios are still to the best of these.
func TestWhatIsOnlyAPartIsNotTheBestPolicy(t *testing.T) {
	r := Row{Cells: []Cell{{Policy: "a"}, {Policy: "b"}, {Policy: "without c", part: true}}}
	for i, ms := range []float64{40, 20, 10} {
		var x sim.Result
		x.TTFT.Add(ms / 1000)
		x.E2E.Add(ms / 1000)
		r.Cells[i].results = []*sim.Result{&x}
	}
	r.compare()
	if got := r.Cells[2].Ratio[0]; got < 0.49 || got > 0.51 || r.Cells[0].Ratio[0] < 1.9 || r.best(0).Policy != "b" {
		t.Errorf("ratios %v and %v, the best is %s", r.Cells[0].Ratio, r.Cells[2].Ratio, r.best(0).Policy)
	}
}

func TestOnlyTheDefaultHasTermsToLeaveOut(t *testing.T) {
	if _, err := Terms([]string{"bath"}); err == nil || !strings.Contains(err.Error(), "batch") {
		t.Errorf("an unknown term: %v", err)
	}
	if all, err := Terms([]string{"all"}); err != nil || len(all) != len(sched.TermNames()) {
		t.Errorf("all are %v, %v", all, err)
	}
	c, err := New(Options{Half: "even", Only: regexp.MustCompile("^hot/50k/2/30%$")})
	if err != nil {
		t.Fatal(err)
	}
	run := c.config(c.points[c.Runs()[0].Point], "least-tokens", 2)
	run.Without = sched.Age
	if _, err := sim.Run(t.Context(), run); err == nil || !strings.Contains(err.Error(), "least-tokens") {
		t.Errorf("least-tokens without a term: %v", err)
	}
}
