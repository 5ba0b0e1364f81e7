package main

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/declog"
)

// proofOf runs prove's own parts in a test.
func proofOf(out *bytes.Buffer) *proof {
	return &proof{proveOptions: proveOptions{seed: 1, profile: demoProfile, timeScale: 8, seconds: 1}, out: out, err: out}
}

func TestAFailedCaseMakesTheWholeProofFail(t *testing.T) {
	var out, object bytes.Buffer
	p := proofOf(&out)
	p.json = true
	p.promise = "load"
	p.that(true, "one", "fine", nil)
	p.that(false, "two", "3 instead of 2", map[string]any{"n": 3}, "because")
	if err := p.end(&object, time.Second); err == nil || !strings.Contains(err.Error(), "1 of 2") {
		t.Errorf("the error is %v", err)
	}
	if want := "pass  load      one: fine\nFAIL  load      two: 3 instead of 2\n      because\n1 of 2 hold (1 s)\n"; out.String() != want {
		t.Errorf("said %q", out.String())
	}
	var report struct {
		Pass  bool
		Cases []verdict
	}
	if err := json.Unmarshal(object.Bytes(), &report); err != nil || report.Pass || len(report.Cases) != 2 || report.Cases[1].Values["n"] != 3.0 {
		t.Errorf("%v: %s", err, object.String())
	}
}

func TestADeclinedHitIsExplainedOnlyByALongerMatchThatCostsMore(t *testing.T) {
	f := func(unexplained int, rows ...declog.Row) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "log")
		w, err := declog.Create(declog.Options{Path: file})
		if err != nil {
			t.Fatal(err)
		}
		for _, hit := range []string{"hit", "declined"} {
			r := w.Record()
			r.Policy, r.Hit, r.Rows = "warm-cost", hit, append(r.Rows, rows...)
			w.Log(r)
		}
		w.Close()
		seen, err := readDecisions(file)
		if err != nil || seen.declined != 1 || seen.unexplained != unexplained || len(seen.lines()) == 0 {
			t.Errorf("%v: %+v", err, seen)
		}
	}
	f(0, declog.Row{Worker: "a", TotalSeconds: 1}, declog.Row{Worker: "b", MatchedTokens: 900, TotalSeconds: 2})
	f(1, declog.Row{Worker: "a", TotalSeconds: 2}, declog.Row{Worker: "b", MatchedTokens: 900, TotalSeconds: 1})
	f(1, declog.Row{Worker: "a", TotalSeconds: 1}, declog.Row{Worker: "b", MatchedTokens: 900, TotalSeconds: 2, Why: "ejected"})
	f(1, declog.Row{Worker: "a", TotalSeconds: 1}, declog.Row{Worker: "b", TotalSeconds: 2})
}

func TestTheWarmPrefixIsSharedAndTheArrivalsAreMoreThanOneWorkerCarries(t *testing.T) {
	p := proofOf(new(bytes.Buffer))
	p.seconds = 4
	for _, s := range fallbackSettings {
		all, rate := p.fallbackWorkload(s)
		if float64(s.workers)*fallbackUtilisation <= 1.25 || len(all) != int(rate*p.seconds+0.5)+1 {
			t.Errorf("%v: %d requests at %v/s", s, len(all), rate)
		}
		for _, one := range all {
			if one.System != all[0].System || len(one.System) < 3*s.prefixTokens || one.Start > 4*time.Second {
				t.Fatalf("%v: a request at %v with a system prompt of %d bytes", s, one.Start, len(one.System))
			}
		}
		if all[1].Turns[0].User == all[2].Turns[0].User || all[0].Turns[0].User == all[1].Turns[0].User {
			t.Errorf("%v: two questions are alike", s)
		}
	}
}

func TestAPlayedSettingSeesEveryRequestAnsweredAndLeavesNothingBehind(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var out bytes.Buffer
	p := proofOf(&out)
	p.timeScale = 2 // slow enough for a machine that does other things
	s := fallbackSetting{prefixTokens: 2048, workers: 2}
	all, _ := p.fallbackWorkload(s)
	run, err := p.fallbackPlay(t.Context(), s, "warm-cost", all)
	if err != nil || run.result.Requests != len(all)-1 || run.result.TPOT.Mean <= 0 || run.busiestOverMean < 1 {
		t.Errorf("%v: %+v\n%s", err, run, out.String())
	}
	p.fallbackVerdict(s, []fallbackRun{run, run}, 1)
	if v := p.verdicts[0]; v.Values["ttft_ratio"] != 1.0 || v.Values["declined"] != run.declined {
		t.Errorf("%+v", v)
	}
}

func TestUnansweredRequestsAreTheWorstMean(t *testing.T) {
	var bad fallbackRun
	bad.result.Errors = 1
	if missing(bad, time.Millisecond) < time.Hour || missing(fallbackRun{}, time.Millisecond) != time.Millisecond {
		t.Error("a policy that answers nothing looks fast")
	}
}

func TestAnInterruptedProofSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	if err := runProve(ctx, proofOf(&out).proveOptions, []string{"fallback"}, &out, &out); err != errInterrupted {
		t.Errorf("%v\n%s", err, out.String())
	}
}
