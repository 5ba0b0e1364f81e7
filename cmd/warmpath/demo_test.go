package main

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestTheDemoEndsWithOneObjectKeyedByPolicy(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var stdout, stderr bytes.Buffer
	o := demoOptions{seed: 3, seconds: 1, timeScale: 4, profile: demoProfile, json: true}
	if err := runDemo(t.Context(), o, &stdout, &stderr); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var reports map[string]map[string]float64
	if err := json.Unmarshal(stdout.Bytes(), &reports); err != nil {
		t.Fatalf("%v: %s", err, stdout.String())
	}
	for _, policy := range demoPolicies {
		r := reports[policy]
		for _, key := range []string{"ttft_mean_ms", "ttft_p50_ms", "ttft_p99_ms", "itl_p99_ms", "prefilled_tokens", "busiest_over_mean", "requests"} {
			if r[key] <= 0 {
				t.Errorf("%s: %s is %v", policy, key, r[key])
			}
		}
		if _, ok := r["hits_declined"]; !ok || r["errors"] != 0 || r["hit_rate"] < 0 || r["hit_rate"] > 1 {
			t.Errorf("%s: %v", policy, r)
		}
		if !strings.Contains(stderr.String(), "\n"+policy+" ") {
			t.Errorf("no line about %s in\n%s", policy, stderr.String())
		}
	}
	if n := strings.Count(stderr.String(), "the page: http://127.0.0.1:"); n < 1 || n > 2 {
		t.Errorf("the page's address is told %d times in\n%s", n, stderr.String())
	}
	if !strings.Contains(stderr.String(), "warmpath serve --worker") {
		t.Error("the demo does not say how to go on")
	}
}

func TestADemoThatIsKeptServesUntilItIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	o := demoOptions{seed: 3, seconds: 2, timeScale: 1, profile: "h100-8b", keep: true}
	out := &watched{needle: "Still serving under warm-cost", found: cancel}
	if err := runDemo(ctx, o, out, out); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "/v1/chat/completions") {
		t.Error("the demo does not say where it serves")
	}
}

// watched calls found once needle was written.
type watched struct {
	bytes.Buffer
	needle string
	found  func()
}

func (w *watched) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(w.needle)) {
		w.found()
	}
	return w.Buffer.Write(b)
}

func TestADemoIsInterruptedAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := demoOptions{seed: 3, seconds: 60, timeScale: 4, profile: demoProfile}
	if err := runDemo(ctx, o, new(bytes.Buffer), new(bytes.Buffer)); err == nil {
		t.Error("an interrupted demo ended well")
	}
}

func TestWrongDemoFlagsNameTheFlag(t *testing.T) {
	good := demoOptions{seconds: 22, timeScale: 4, profile: demoProfile}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	f := func(flag string, change func(o *demoOptions)) {
		t.Helper()
		o := good
		change(&o)
		if err := o.check(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("want an error about %s, got %v", flag, err)
		}
	}
	f("--profile", func(o *demoOptions) { o.profile = "h200" })
	f("--seconds", func(o *demoOptions) { o.seconds = 0 })
	f("--time-scale", func(o *demoOptions) { o.timeScale = -1 })
}

func TestTheDemosWorkloadKeepsPaceWithItsWorkers(t *testing.T) {
	slow := demoOptions{seed: 1, seconds: 22, timeScale: 4, profile: demoProfile}
	fast := slow
	fast.timeScale = 8
	a, b := slow.workload(), fast.workload()
	if a.Over != b.Over || b.Think*2 != a.Think || b.Sessions < 2*a.Sessions-1 || b.DocumentSessions < 2*a.DocumentSessions-1 {
		t.Errorf("at 4x %+v, at 8x %+v", a, b)
	}
	if !slices.Contains(profileNames(), demoProfile) {
		t.Errorf("no profile %s", demoProfile)
	}
}

func TestThousandsAreSetApart(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d is %s", n, got)
		}
	}
}
