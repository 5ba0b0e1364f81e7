package main

import (
	"math"
	"os/exec"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/bench"
)

func TestABenchSaysWhatPassedAndWhatFailed(t *testing.T) {
	var text strings.Builder
	printBench(&text, bench.Report{Part: "p", Sections: []bench.Section{{Name: "s", Method: "how it was measured", Columns: []string{"CPU us"},
		Rows:   []bench.Row{{Contestant: "x", Values: []bench.Value{bench.Value(math.NaN())}}},
		Checks: []bench.Check{{Name: "a", Value: 1.234, Limit: 2, Unit: "us", Pass: true}, {Name: "b", Value: 1, Limit: 2, Least: true, Unit: "us"}}}}})
	for _, want := range []string{"how it was measured", "pass  a: 1.23 us (<= 2)", "FAIL  b: 1 us (>= 2)", "x       -"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

func TestABenchThatCannotRunIsWrongUse(t *testing.T) {
	for _, args := range [][]string{{"bench", "nonsense"}, {"bench", "decide", "--rounds", "0"}, {"bench", "decide", "--window", "1ms"}} {
		var stdout, stderr strings.Builder
		if code := run(args, &stdout, &stderr); code != exitUsage {
			t.Errorf("%q: exit code %d, %s", args, code, stderr.String())
		}
	}
	if _, err := exec.LookPath("nginx"); err == nil {
		return
	}
	var stdout, stderr strings.Builder
	if code := run([]string{"bench", "proxy"}, &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "apt-get install nginx") {
		t.Errorf("without nginx: exit code %d, %s", code, stderr.String())
	}
}
