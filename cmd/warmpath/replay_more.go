package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/lineup"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/sweep"
	"github.com/warmpath/warmpath/internal/traces"
)

// fit makes the profile "fitted" from decision logs.
func (p *replayPlan) fit(files []string) error {
	f, err := traces.Fit(files, p.options.skipBad)
	if err != nil {
		return err
	}
	p.profiles[f.Profile.Name] = f.Profile
	for _, k := range f.Kinds {
		p.profiles[k.Profile.Name] = k.Profile
	}
	file := lineup.NewProfileFile(f.Profile)
	p.fitted, p.fittedFrom = &file, *f
	return nil
}

// printFitted shows the profile in the form that --profile reads.
func printFitted(w io.Writer, p *lineup.ProfileFile, f traces.Fitted) {
	fmt.Fprintf(w, "fitted from %d prefills and %d answers of %d records; up to %d requests and %s tokens were on a worker at once.\n",
		f.Prefills, f.Steps, f.Records, f.BatchSeen, thousands(f.ContextSeenMax))
	if names := kindNames(f.Kinds); names != "" {
		fmt.Fprintf(w, "workers of the log are unlike: fitted is as the first kind of --fleet %s\n", names)
	}
	fmt.Fprintln(w, "kv_tokens, batch_max and chunk_tokens are not in a log: set them to your engines' in a file for --profile:")
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		panic(err) // numbers and a name
	}
	fmt.Fprintf(w, "%s\n", text)
}

// kindNames are a log's workers in the form of --fleet, where they are of several kinds.
func kindNames(kinds []traces.Kind) string {
	if len(kinds) < 2 {
		return ""
	}
	var names []string
	for _, k := range kinds {
		names = append(names, fmt.Sprintf("%s:%d", k.Profile.Name, len(k.Workers)))
	}
	return strings.Join(names, ",")
}

// printRegret replays the alternatives of each policy's first run.
func (p *replayPlan) printRegret(ctx context.Context, w io.Writer, runs []*sweep.Run) error {
	fmt.Fprintf(w, "choices held against every other worker from the same state, over %v, in request-seconds\n", sweep.RegretHorizon)
	fmt.Fprintf(w, "%-16s %8s %10s %10s %10s %14s\n", "policy", "sampled", "best", "lost mean", "lost most", "saved on mean")
	seen := map[string]bool{}
	for _, r := range runs {
		if r.Result == nil || seen[r.Config.Policy] {
			continue
		}
		seen[r.Config.Policy] = true
		all, err := sweep.Regrets(ctx, r, p.options.regret)
		if err != nil {
			return err
		}
		best, lost, ahead, most := 0, time.Duration(0), time.Duration(0), time.Duration(0)
		for _, x := range all {
			if x.Lost == 0 {
				best++
			}
			lost, ahead, most = lost+x.Lost, ahead+x.Ahead, max(most, x.Lost)
		}
		n := time.Duration(max(1, len(all)))
		fmt.Fprintf(w, "%-16s %8d %9.0f%% %10.3f %10.3f %14.3f\n", r.Config.Policy, len(all), 100*float64(best)/float64(n),
			(lost / n).Seconds(), most.Seconds(), (ahead / n).Seconds())
	}
	fmt.Fprintln(w)
	return nil
}

// knee is what a policy holds on one fleet.
type knee struct {
	policy  string
	workers int
	rate    float64 // the highest that meets the SLO, in times the trace's own; 0 none of those replayed
	beyond  bool    // it met the SLO at all rates
}

// String says how far it goes.
func (k knee) String() string {
	switch {
	case k.rate == 0:
		return "none of these rates"
	case k.beyond:
		return fmt.Sprintf("%gx or more", k.rate)
	}
	return fmt.Sprintf("%gx", k.rate)
}

// knees are the highest rates at which the SLO is met, by policy and size of the fleet. Points that differ in more are told apart by
// being other rows of the same policy: the highest counts.
func (p *replayPlan) knees(rows []*sweep.Row) (all []knee) {
	slo := p.sweep.Base.SLO
	for _, r := range rows {
		i := slices.IndexFunc(all, func(k knee) bool { return k.policy == r.Policy && k.workers == len(r.At.Fleet) })
		if i < 0 {
			all = append(all, knee{policy: r.Policy, workers: len(r.At.Fleet), beyond: true})
			i = len(all) - 1
		}
		if r.Of((*sim.Result).GoodShare).Mean >= slo.Share {
			all[i].rate = max(all[i].rate, r.At.Rate)
		} else {
			all[i].beyond = false
		}
	}
	return all
}

// printKnees says how far each policy goes, and what that is worth.
func (p *replayPlan) printKnees(w io.Writer, rows []*sweep.Row) {
	knees := p.knees(rows)
	fmt.Fprintf(w, "highest rate, in times the trace's own, at which %g %% of requests are good (--slo %s)\n%-16s", 100*p.sweep.Base.SLO.Share, p.options.slo, "policy")
	var sizes []int
	for _, k := range knees {
		if !slices.Contains(sizes, k.workers) {
			sizes = append(sizes, k.workers)
			fmt.Fprintf(w, " %20s", fmt.Sprintf("%d workers", k.workers))
		}
	}
	for _, policy := range p.sweep.Policies {
		fmt.Fprintf(w, "\n%-16s", policy)
		for _, k := range knees {
			if k.policy == policy {
				fmt.Fprintf(w, " %20s", k)
			}
		}
	}
	fmt.Fprintln(w)
	if slices.ContainsFunc(knees, func(k knee) bool { return k.beyond && k.rate > 0 }) {
		most := slices.Max(p.sweep.Rates)
		fmt.Fprintf(w, "\"or more\": no rate was replayed at which it fails; --rate %g,%g,%g,%g goes further\n", most, 2*most, 4*most, 8*most)
	}
	for _, s := range p.savings(knees) {
		fmt.Fprintln(w, s)
	}
	fmt.Fprintln(w)
}

// own is the policy that others are held against.
func (p *replayPlan) own() string {
	if slices.Contains(p.sweep.Policies, sched.DefaultPolicy) {
		return sched.DefaultPolicy
	}
	return p.sweep.Policies[0]
}

// savings says what holding the SLO takes less under our own policy: of workers where sizes of the fleet were replayed, else of worker-hours
// for the same traffic, by the rates that each policy holds.
func (p *replayPlan) savings(knees []knee) (lines []string) {
	if len(p.sweep.Workers) < 2 {
		return p.savingsByRate(knees)
	}
	for _, rate := range p.sweep.Rates {
		fewest := map[string]int{}
		for _, k := range knees {
			if n, ok := fewest[k.policy]; k.rate >= rate && (!ok || k.workers < n) {
				fewest[k.policy] = k.workers
			}
		}
		ours, ok := fewest[p.own()]
		if !ok {
			continue
		}
		under := map[int][]string{}
		for _, policy := range p.sweep.Policies {
			if n := fewest[policy]; n > ours {
				under[n] = append(under[n], policy)
			}
		}
		for _, n := range slices.Sorted(maps.Keys(under)) {
			lines = append(lines, fmt.Sprintf("rate %gx: %d workers instead of %d under %s: %s", rate, ours, n, strings.Join(under[n], ", "), p.worth(float64(n-ours))))
		}
	}
	return lines
}

// savingsByRate goes by how much less a worker does under other policies.
func (p *replayPlan) savingsByRate(knees []knee) (lines []string) {
	i := slices.IndexFunc(knees, func(k knee) bool { return k.policy == p.own() })
	if i < 0 || knees[i].rate == 0 {
		return nil
	}
	ours := knees[i]
	for _, k := range knees {
		if k.rate > 0 && k.rate < ours.rate && k.workers == ours.workers {
			lines = append(lines, fmt.Sprintf("%s holds rate %s, %s %s: for the same traffic about %.0f %% fewer workers, %s",
				ours.policy, ours, k.policy, k, 100*(1-k.rate/ours.rate), p.worth(float64(k.workers)*(1-k.rate/ours.rate))))
		}
	}
	return lines
}

// worth is what so many workers come to.
func (p *replayPlan) worth(workers float64) string {
	const hours = 24
	s := fmt.Sprintf("%.0f worker-hours a day less", hours*workers)
	if price := p.options.workerPrice; price > 0 {
		s += fmt.Sprintf(", %.2f a day at --worker-price %g", price*hours*workers, price)
	}
	return s
}
