package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/digest"
	"github.com/warmpath/warmpath/internal/lineup"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/sweep"
	"github.com/warmpath/warmpath/internal/traces"
)

// reportPolicies are those that the log's own is held against: the ones that people have in place of it.
var reportPolicies = []string{"warm-cost", "round-robin", "least-requests", "least-tokens", "session-hash"}

// reportRates are how many times as fast requests come until fewer are good.
var reportRates = []float64{1.25, 1.5, 2, 2.5, 3, 4, 6, 8}

// goodTimes is how many times longer than usual a good request may take where no SLO says so, and goodQuantile what is usual.
const goodTimes, goodQuantile = 2, 0.95

// replay fills in what would have been. A log that cannot be replayed is told of in the report, and is no error.
func (f *reportFlags) replay(ctx context.Context, r *dayReport, files []string, stderr io.Writer) error {
	base, err := f.fleetOf(r, files)
	if err == nil {
		base.Trace, err = traces.OpenLogs(files, traces.Options{SkipBad: f.skipBad})
	}
	if err != nil {
		if f.fleet != "" {
			return usageError{err}
		}
		r.NoReplay = err.Error()
		return nil
	}
	base.Trace.Select(traces.Selection{First: f.requests})
	if err := base.Trace.Load(traceBytesMax); err != nil {
		return err
	}
	own := r.Policy
	if sched.Policies[own] == nil {
		own = reportPolicies[0]
	}
	policies := append([]string{own}, slices.DeleteFunc(slices.Clone(reportPolicies), func(p string) bool { return p == own })...)
	rows, err := f.sweep(ctx, sweep.Sweep{Base: base, Policies: policies, Rates: []float64{1}}, "policies", stderr)
	if err != nil {
		return err
	}
	first := rows[0].Results[0]
	if first.Finished == 0 {
		r.NoReplay = fmt.Sprintf("none of its first %d requests has a prompt that fits on %s", f.requests, lineup.Name(base.Fleet))
		return nil
	}
	w := &digest.WhatIf{Fleet: lineup.Name(base.Fleet), Requests: first.Finished + first.Refused, Own: own}
	w.Cut = f.requests < r.Requests
	w.Policies = policiesOf(&r.Digest, rows)
	r.Replay = w
	return f.capacity(ctx, w, base, first, stderr)
}

// fleetOf is what the log is replayed on.
func (f *reportFlags) fleetOf(r *dayReport, files []string) (base sim.Config, err error) {
	base = sim.Config{Jitter: -1}
	if f.fleet != "" {
		base.Fleet, err = lineup.Parse(f.fleet, nil)
		return base, err
	}
	if len(r.Workers) == 0 {
		return base, errors.New("no request of it reached a worker")
	}
	fitted, err := traces.Fit(files, f.skipBad)
	if err != nil {
		return base, fmt.Errorf("%w; --fleet names workers to replay it on", err)
	}
	names, profiles, others := []string{}, map[string]cost.Profile{}, len(r.Workers)
	for _, k := range fitted.Kinds[1:] {
		names, profiles[k.Profile.Name], others = append(names, fmt.Sprintf("%s:%d", k.Profile.Name, len(k.Workers))), k.Profile, others-len(k.Workers)
	}
	most := fitted.Kinds[0].Profile // those that cannot be told apart too
	names, profiles[most.Name] = append([]string{fmt.Sprintf("%s:%d", most.Name, max(1, others))}, names...), most
	base.Fleet, err = lineup.Parse(strings.Join(names, ","), profiles)
	return base, err
}

// sweep makes replays, with a line of progress.
func (f *reportFlags) sweep(ctx context.Context, s sweep.Sweep, what string, stderr io.Writer) ([]*sweep.Row, error) {
	ctx, deaf := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM) // while logs are read a signal ends the process as it comes
	defer deaf()
	runs := s.Runs()
	stop := func() {}
	if !f.quiet {
		stop = progress(stderr, "replay of "+what, runs, time.Now())
	}
	err := sweep.Do(ctx, runs, 0, func(*sweep.Run) {})
	stop()
	if err != nil {
		return nil, fmt.Errorf("the replay: %w (--no-replay leaves it out)", err)
	}
	return sweep.Compare(runs), nil
}

// policiesOf are what was measured, and then the policies by their mean TTFT.
func policiesOf(d *digest.Digest, rows []*sweep.Row) (all []digest.Policy) {
	for _, r := range rows {
		x := r.Results[0]
		all = append(all, digest.Policy{Name: r.Policy, HitRate: x.HitRate(), TTFT: digest.TimesOf(&x.TTFT), E2E: digest.TimesOf(&x.E2E), Computed: x.PrefilledTokens})
	}
	slices.SortStableFunc(all, func(a, b digest.Policy) int { return cmp.Compare(a.TTFT.Mean, b.TTFT.Mean) })
	measured := digest.Policy{Name: d.Policy, Measured: true, HitRate: d.HitRate, Computed: d.PromptTokens - d.CachedTokens}
	if len(d.Hits) > 0 {
		measured.TTFT, measured.E2E = d.Hits[0].TTFT, d.Hits[0].E2E
	}
	return append([]digest.Policy{measured}, all...)
}

// capacity replays the log at higher and higher rates, under the policy that was in force, until fewer requests are good. The first replay, as
// fast as they came, says what is usual.
func (f *reportFlags) capacity(ctx context.Context, w *digest.WhatIf, base sim.Config, usual *sim.Result, stderr io.Writer) error {
	slo, _ := parseSLO(f.slo) // checked before
	w.Good = f.slo
	if !slo.Set() {
		ttft, tpot := goodTimes*usual.TTFT.Quantile(goodQuantile), goodTimes*usual.TPOT.Quantile(goodQuantile)
		slo.TTFT, slo.TPOT = seconds(ttft), seconds(tpot)
		w.Good = fmt.Sprintf("ttft=%v,tpot=%v", slo.TTFT.Round(time.Millisecond), slo.TPOT.Round(100*time.Microsecond))
	}
	base.SLO, w.Share = slo, slo.Share
	for _, rate := range append([]float64{1}, reportRates...) {
		rows, err := f.sweep(ctx, sweep.Sweep{Base: base, Policies: []string{w.Own}, Rates: []float64{rate}}, fmt.Sprintf("the log, %g times as fast", rate), stderr)
		if err != nil {
			return err
		}
		x := rows[0].Results[0]
		w.Loads = append(w.Loads, digest.Load{Rate: rate, GoodShare: x.GoodShare(), Goodput: x.Goodput(), TTFT: digest.TimesOf(&x.TTFT)})
		if x.GoodShare() < slo.Share {
			return nil
		}
		w.RateMost = rate
	}
	w.More = true
	return nil
}
