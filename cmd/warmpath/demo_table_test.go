package main

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/workload"
)

func TestTheDemoConcludesNothingFromAPolicyThatLeftTooMuchUnanswered(t *testing.T) {
	for _, c := range []struct {
		errors, unfinished int
		compared           bool
	}{{0, 0, true}, {5, 5, true}, {6, 5, false}, {0, 11, false}, {100, 0, false}} {
		n := c.errors + c.unfinished
		rows := []demoRow{
			{policy: "round-robin", prefilled: 100, result: workload.Result{Requests: 100 - n, Errors: c.errors, Unfinished: c.unfinished, FirstError: "broken"}},
			{policy: "warm-cost", prefilled: 50, result: workload.Result{Requests: 100}},
		}
		rows[0].result.TTFT.Mean, rows[1].result.TTFT.Mean = 2, 1
		var out strings.Builder
		printDemoTable(&out, rows)
		text := out.String()
		if strings.Contains(text, "0.50x the mean TTFT") != c.compared || strings.Contains(text, "No policies are compared: more than 10 % of the requests went unanswered under round-robin") == c.compared {
			t.Errorf("%d errors and %d unfinished of 100:\n%s", c.errors, c.unfinished, text)
		}
	}
}
