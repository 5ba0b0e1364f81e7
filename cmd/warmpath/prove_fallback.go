package main

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/workload"
)

const (
	fallbackTimeScale = 3
	fallbackSeconds   = 5.5
	// fallbackUtilisation is the share of the whole fleet's time that the arrivals take once the prefix is warm everywhere: on a
	// fleet of two, 1.3 times what one worker can carry.
	fallbackUtilisation = 0.65
	// fallbackWorse is how much worse than the best other policy a mean may be, fallbackUneven how much busier than the mean a worker.
	fallbackWorse  = 1.2
	fallbackUneven = 1.5
	// fallbackFasterMax is how many times faster than a fleet of eight a smaller one may run: as many requests a second, and so a longer
	// stretch of the engines' own time, in which the first cold prefills weigh less.
	fallbackFasterMax = 2
	// fallbackSlipMax is the share of the workers' time by which they may run late until a run is played again, fallbackTries at most:
	// such a run measures this machine and not the policy.
	fallbackSlipMax = 0.01
	fallbackTries   = 3
	// fallbackGrace is how much longer a policy that cannot keep up may take, in times of the arrivals.
	fallbackGrace = 4
)

// What a request adds to the prefix, and what it wants, in tokens.
var (
	fallbackQuestion = workload.Range{Min: 512, Max: 1536}
	fallbackAnswer   = workload.Range{Min: 24, Max: 64}
)

// fallbackOthers are the policies to hold against: those that know no cache, none of which queues behind a hit, and the best of those
// that do. `warmpath replay` compares all there are, in seconds.
var fallbackOthers = []string{"round-robin", "random", "least-requests", "least-tokens", "session-hash", "multiply"}

// fallbackSetting is a prefix that is warm on one of so many workers.
type fallbackSetting struct{ prefixTokens, workers int }

func (s fallbackSetting) String() string {
	return fmt.Sprintf("%dk prefix warm on 1 of %d", s.prefixTokens/1024, s.workers)
}

var fallbackSettings = []fallbackSetting{{8192, 2}, {8192, 4}, {8192, 8}, {32768, 2}, {32768, 4}, {32768, 8}}

// fallbackRun is one setting under one policy.
type fallbackRun struct {
	policy          string
	result          workload.Result
	declined        int
	busiestOverMean float64 // of the workers' busy time
	slip            time.Duration
	late            bool // the slip is too much
	why             decisionsSeen
}

// fallbackScale is how fast the setting's workers run.
func (p *proof) fallbackScale(s fallbackSetting) float64 {
	return p.timeScale * min(fallbackFasterMax, 8/float64(s.workers))
}

func proveFallback(ctx context.Context, p *proof) error {
	policies := append(slices.Clone(fallbackOthers), sched.DefaultPolicy)
	for _, s := range fallbackSettings {
		all, rate := p.fallbackWorkload(s)
		p.note("%v: %s at %gx, %d requests at %.1f/s, %.0f %% of the fleet's capacity when warm, seed %d", s, p.profile, p.fallbackScale(s), len(all)-1, rate,
			100*fallbackUtilisation, p.seed)
		var runs []fallbackRun
		for _, policy := range policies {
			run, err := p.fallbackTry(ctx, s, policy, all)
			if err != nil {
				return fmt.Errorf("%v: %w", s, err)
			}
			runs = append(runs, run)
		}
		p.fallbackVerdict(s, runs, rate)
	}
	return nil
}

// fallbackWorkload is the request that warms the prefix, and those that arrive after it: a Poisson process at rate a second.
func (p *proof) fallbackWorkload(s fallbackSetting) (all []workload.Session, rate float64) {
	k := cost.Profiles[p.profile].Constants
	question, answer := logMean(fallbackQuestion), logMean(fallbackAnswer)
	one := k.Prefill(int(question), s.prefixTokens) + answer*(k.D1+k.D2*(float64(s.prefixTokens)+question+answer/2))
	rate = fallbackUtilisation * float64(s.workers) * p.fallbackScale(s) / one
	o := workload.Options{Seed: p.seed, Model: demoModel, Sessions: int(math.Round(rate * p.seconds)), Over: seconds(p.seconds), Turns: workload.Range{Min: 1, Max: 1},
		Applications: 1, SystemTokens: workload.Range{Min: s.prefixTokens, Max: s.prefixTokens}, ContextTokens: fallbackQuestion, OutputTokens: fallbackAnswer}
	all = workload.Generate(o)
	first := workload.Generate(workload.Options{Seed: p.seed + 1, Model: demoModel, Sessions: 1, Turns: o.Turns, ContextTokens: o.ContextTokens, OutputTokens: o.OutputTokens})[0]
	first.System = all[0].System
	return append([]workload.Session{first}, all...), rate
}

// logMean is the mean of a log-uniform draw.
func logMean(r workload.Range) float64 {
	return float64(r.Max-r.Min) / math.Log(float64(r.Max)/float64(r.Min))
}

// fallbackTry plays a setting until the machine was quick enough for it, and returns the run in which it was quickest.
func (p *proof) fallbackTry(ctx context.Context, s fallbackSetting, policy string, all []workload.Session) (best fallbackRun, err error) {
	for try := range fallbackTries {
		run, err := p.fallbackPlay(ctx, s, policy, all)
		if err != nil {
			return run, err
		}
		p.note("  %s", run)
		if try == 0 || run.slip < best.slip {
			best = run
		}
		if !best.late {
			break
		}
	}
	return best, nil
}

// fallbackPlay warms the prefix on one worker and plays the arrivals, on a fleet of its own.
func (p *proof) fallbackPlay(ctx context.Context, s fallbackSetting, policy string, all []workload.Session) (fallbackRun, error) {
	run := fallbackRun{policy: policy}
	log := ""
	f, err := startFleet(ctx, alike(s.workers, demoOptions{profile: p.profile, timeScale: p.fallbackScale(s), seed: p.seed}.engine()), policy, p.err,
		func(c *config.Config, folder string) {
			log = filepath.Join(folder, "decisions.jsonl")
			c.DecisionLog.File = log
		})
	if err != nil {
		return run, err
	}
	defer f.close()
	warmed := workload.Run(ctx, f.router.DataURL(), all[:1], workload.RunOptions{})
	if warmed.Requests != 1 {
		return run, fmt.Errorf("the request that warms the prefix: %s", warmed.FirstError)
	}
	before, err := readMetrics(ctx, f.router.AdminURL())
	if err != nil {
		return run, err
	}
	limited, cancel := context.WithTimeout(ctx, seconds(p.seconds*(1+fallbackGrace)))
	defer cancel()
	run.result = workload.Run(limited, f.router.DataURL(), all[1:], workload.RunOptions{})
	after, err := readMetrics(ctx, f.router.AdminURL())
	if err != nil {
		return run, err
	}
	const declined = "warmpath_hits_declined_total"
	run.declined = int(after.sum(declined) - before.sum(declined))
	run.busiestOverMean, run.slip = f.busiestOverMean(), f.slip()
	run.late = run.slip.Seconds() > fallbackSlipMax*float64(s.workers)*run.result.Elapsed.Seconds()
	f.closeRouter()
	run.why, err = readDecisions(log)
	return run, err
}

func (r fallbackRun) String() string {
	late := ""
	if r.slip > 0 {
		late = fmt.Sprintf("  engines late by %v in all", r.slip.Round(time.Millisecond))
	}
	return fmt.Sprintf("%-14s  TTFT mean %6.1f p99 %6.1f ms  TPOT mean %5.2f ms  busiest/mean %.2f  declined %3d  unanswered %d%s", r.policy, ms(r.result.TTFT.Mean),
		ms(r.result.TTFT.P99), ms(r.result.TPOT.Mean), r.busiestOverMean, r.declined, r.result.Errors+r.result.Unfinished, late)
}

// fallbackVerdict judges the last run, which is warm-cost's, against the others.
func (p *proof) fallbackVerdict(s fallbackSetting, runs []fallbackRun, rate float64) {
	ours, others := runs[len(runs)-1], runs[:len(runs)-1]
	mean := func(of func(workload.Result) workload.Spread) (ratio float64, best string) {
		least := slices.MinFunc(others, func(a, b fallbackRun) int {
			return int(missing(a, of(a.result).Mean) - missing(b, of(b.result).Mean))
		})
		return float64(missing(ours, of(ours.result).Mean)) / float64(missing(least, of(least.result).Mean)), least.policy
	}
	ttft, ttftBest := mean(func(r workload.Result) workload.Spread { return r.TTFT })
	tpot, tpotBest := mean(func(r workload.Result) workload.Spread { return r.TPOT })
	late := slices.ContainsFunc(runs, func(r fallbackRun) bool { return r.late })
	unanswered := ours.result.Errors + ours.result.Unfinished
	pass := !late && ttft <= fallbackWorse && tpot <= fallbackWorse && ours.busiestOverMean <= fallbackUneven && ours.declined > 0 && unanswered == 0 &&
		ours.why.declined > 0 && ours.why.unexplained == 0
	figures := fmt.Sprintf("mean TTFT %.2fx the best other (%s), mean TPOT %.2fx (%s), busiest worker %.2fx the mean, %d hits declined", ttft, ttftBest, tpot, tpotBest,
		ours.busiestOverMean, ours.declined)
	if late {
		figures += ", measured on a machine that was too busy"
	}
	if unanswered > 0 {
		figures += fmt.Sprintf(", %d unanswered (%s)", unanswered, ours.result.FirstError)
	}
	values := map[string]any{"prefix_tokens": s.prefixTokens, "workers": s.workers, "rate_per_second": rate, "ttft_ratio": ttft, "tpot_ratio": tpot,
		"declined": ours.declined, "unexplained": ours.why.unexplained, "machine_too_busy": late}
	for _, r := range runs {
		values[r.policy] = map[string]any{"ttft_mean_ms": ms(r.result.TTFT.Mean), "ttft_p99_ms": ms(r.result.TTFT.P99), "tpot_mean_ms": ms(r.result.TPOT.Mean),
			"busiest_over_mean": r.busiestOverMean, "requests": r.result.Requests, "unanswered": r.result.Errors + r.result.Unfinished, "slip_seconds": r.slip.Seconds()}
	}
	p.that(pass, s.String(), figures, values, ours.why.lines()...)
}

// missing is a mean, or more than any when requests went unanswered: those would have been the slowest.
func missing(r fallbackRun, mean time.Duration) time.Duration {
	if r.result.Errors+r.result.Unfinished > 0 || mean == 0 {
		return math.MaxInt64 / 4
	}
	return mean
}

// decisionsSeen is what a decision log says about hits that were given up.
type decisionsSeen struct {
	declined, unexplained int
	example               declog.Record
}

// readDecisions checks that the rows of every declined hit say why: a longer match was there, and it cost more in total.
func readDecisions(file string) (seen decisionsSeen, err error) {
	err = eachDecision(file, func(r *declog.Record) {
		if r.Hit != sched.Declined.String() || r.Policy != sched.DefaultPolicy {
			return
		}
		seen.declined++
		longest := longestMatch(r.Rows)
		explained := longest > 0 && r.Rows[longest].TotalSeconds > r.Rows[0].TotalSeconds
		if !explained {
			seen.unexplained++
		}
		if seen.declined == 1 || (!explained && seen.unexplained == 1) {
			seen.example = *r
		}
	})
	return seen, err
}

// longestMatch is the index of the usable row that holds most, the cheapest of several; 0 when that is the chosen one.
func longestMatch(rows []declog.Row) int {
	longest := 0
	for i, r := range rows {
		l := rows[longest]
		if r.Why == "" && (r.MatchedTokens > l.MatchedTokens || (r.MatchedTokens == l.MatchedTokens && r.TotalSeconds < l.TotalSeconds)) {
			longest = i
		}
	}
	return longest
}

// lines shows the first declined hit, or the first that its rows do not explain.
func (d decisionsSeen) lines() []string {
	if d.declined == 0 {
		return nil
	}
	head := "why, of the first declined hit"
	if d.unexplained > 0 {
		head = fmt.Sprintf("%d of %d declined hits are not explained by their rows, such as", d.unexplained, d.declined)
	}
	out := []string{fmt.Sprintf("%s (%s):", head, d.example.Reason)}
	for i, r := range d.example.Rows {
		if i == 0 || i == longestMatch(d.example.Rows) {
			out = append(out, fmt.Sprintf("%-6s %s", r.Worker, rowLine(r)))
		}
	}
	return out
}
