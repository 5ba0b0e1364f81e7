package queuebench

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/bench"
	"go.uber.org/goleak"
)

func TestAShortRunMeasuresBothAndLeavesNothingBehind(t *testing.T) {
	defer goleak.VerifyNone(t)
	report, err := Queue(t.Context(), bench.Options{Rounds: 1, Window: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range report.Sections {
		for _, c := range s.Checks {
			if v := float64(c.Value); !(v < 1e6) || s.Name == "push and pop" && v <= 0 {
				t.Errorf("%s: %v %s", c.Name, v, c.Unit)
			}
		}
	}
}
