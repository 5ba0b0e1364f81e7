package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/lineup"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/sweep"
	"github.com/warmpath/warmpath/internal/traces"
)

// replayOptions are the flags as they were written.
type replayOptions struct {
	waits                                replayWaits
	log, fit                             []string
	fleet, policies                      string
	rates, workers, delays, replicas     string
	atOnce                               string
	caches, constants, slo, half, out    string
	scenario                             string
	profiles                             []string
	seeds, first, regret, parallel       int
	tierTokens                           int
	tierLoad                             time.Duration
	minutes, workerPrice                 float64
	jitter, eventDelay                   time.Duration
	jitterSet, skipBad, json, csv, quiet bool
	picks                                bool
}

// traceBytesMax is the most memory a trace is kept in for the next pass; a larger one is read again for each run.
const traceBytesMax = 256 << 20

// replayCommand replays a trace against simulated fleets.
func replayCommand() *cobra.Command {
	var o replayOptions
	command := &cobra.Command{
		Use:   "replay [TRACE... | --log FILE | --tenant NAME=TRACE...]",
		Short: "Replay a trace against simulated fleets under any policy, in virtual time",
		Long: `Replays a trace against fleets of simulated engines, by the router's own scheduler, and shows for every policy what came of it and
what was possible. The form of a trace is told by its content, compressed with gzip or zstd or not:

` + traceForms() + `
or made up, as in "chats:turns=10,rate=4":

` + traces.Generators() + `
Several files are one trace where they are decision logs, of one router or of several, or texts.
Engines keep their cache, batch and queue as real ones do; docs/REPLAY.md says how far. Lists are written a,b,c and are run in every
combination. The same command gives the same output.`,
		Example: `  warmpath replay mooncake.jsonl --fleet h100-70b-tp4:8 --rate 1,1.5 --seeds 3
  warmpath replay groups: --fleet h100-32b-tp2:8 --rate 5,10,15 --policies warm-cost,linear,least-tokens
  warmpath replay --log decisions.jsonl --fit decisions.jsonl --fleet fitted:4 --workers 3,4,5 --rate 1,2,4,8 --slo ttft=2s,tpot=50ms
  warmpath replay sessions.jsonl.gz --fleet h100-8b:4 --at-once 16,32 --out report.html
  warmpath replay --queue --tenant chat=chats:rate=15 --tenant jobs=bursts:prompt=60000,burst=1,rate=0.2 --share jobs:class=batch --fleet h100-8b:8 --policies warm-cost
  warmpath replay --scenario docs/scenarios/heavy-jobs.yaml --seeds 3
  warmpath replay --config warmpath.yaml --log decisions.jsonl --fleet h100-8b:6@short,h100-8b:2@long`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.scenario != "" {
				if args, err = scenario(cmd, o.scenario, args); err != nil {
					return usageError{err}
				}
			}
			if o.picks {
				return replayPicks(rotated(o.log), args, o.skipBad, o.json, cmd.OutOrStdout())
			}
			o.jitterSet, o.waits.queueSet = cmd.Flags().Changed("jitter"), cmd.Flags().Changed("queue")
			p, err := o.plan(args)
			if err != nil {
				return usageError{err}
			}
			p.command = strings.Join(append([]string{"warmpath"}, quoted(os.Args[1:])...), " ")
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return p.run(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.flags(command)
	return command
}

func (o *replayOptions) flags(command *cobra.Command) {
	f := command.Flags()
	f.StringVar(&o.scenario, scenarioFlag, "", "a YAML file with flags by their names, and traces; those given here go before it")
	f.StringArrayVar(&o.log, "log", nil, "replay a router's own decision log (serve --decision-log) with what was rotated from it; may be given again")
	f.BoolVar(&o.picks, "picks", false, "with --log: make every choice of the log again, from the rows of its record alone, and tell how many come out the same")
	f.StringVar(&o.fleet, "fleet", "h100-8b:4", "profiles and how many workers each has, as in h100-8b:6,a100-8b:2")
	f.StringArrayVar(&o.profiles, "profile", nil, "a file with a profile of your own, to be named in --fleet; may be given again")
	f.IntVar(&o.tierTokens, "tier-tokens", 0, "give workers slower memory of so many tokens, the host's or a disk, for what their caches evict")
	f.DurationVar(&o.tierLoad, "tier-load", 3*time.Microsecond, "what it takes to load a token back from there")
	f.StringArrayVar(&o.fit, "fit", nil, "fit a profile from a decision log with what was rotated from it; it is named fitted in --fleet, and printed")
	f.StringVar(&o.policies, "policies", "all", "policies to compare: "+strings.Join(sched.PolicyNames(), ", ")+", or all")
	f.StringVar(&o.rates, "rate", "1", "how many times as fast as in the trace requests come; with --slo several, as in 1,2,4,8, find the highest that is met")
	f.StringVar(&o.workers, "workers", "", "sizes of the fleet, in its proportions (default as --fleet says)")
	f.StringVar(&o.atOnce, "at-once", "", "sessions at the same time, for traces of sessions (default 32 where they have no times of their own)")
	f.IntVar(&o.seeds, "seeds", 1, "runs with other arrivals within the grain of the stamps, orders of sessions, synthetic traces, chance")
	f.DurationVar(&o.jitter, "jitter", 0, "spread arrivals over the grain of the trace's stamps (default as the form of the trace has it)")
	f.IntVar(&o.first, "first", 0, "end the trace after so many requests")
	f.Float64Var(&o.minutes, "minutes", 0, "end the trace after so many of its minutes")
	f.StringVar(&o.half, "half", "", "replay one half only, even or odd by the hash of the session or minute: tune on one, judge on the other")
	f.StringVar(&o.caches, "caches", "exact", "what the router knows of caches: exact, as by cache events, or assumed from what it sent")
	f.DurationVar(&o.eventDelay, "event-delay", 0, "how late cache events arrive")
	f.StringVar(&o.constants, "constants", "learned", "the engines' timing: learned by the router as it goes, or known to it")
	f.StringVar(&o.delays, "view-delay", "", "how late the router hears of first tokens, ends and counts, as in 0.1s,0.5s,2s")
	f.StringVar(&o.replicas, "replicas", "", "routers that share the fleet, each seeing the others' load by the engines' counts only")
	f.StringVar(&o.slo, "slo", "", "what a request must meet to be good, as in ttft=2s,tpot=50ms,e2e=30s,share=0.95; share is of requests (default 0.95)")
	f.Float64Var(&o.workerPrice, "worker-price", 0, "price of a worker for an hour, in your currency")
	f.IntVar(&o.regret, "regret", 0, "sample so many decisions of each policy's first run and replay what the other workers would have given")
	f.StringVar(&o.out, "out", "", "write a report, one HTML page that needs no network, to this file")
	f.BoolVar(&o.json, "json", false, "print one JSON object a run")
	f.BoolVar(&o.csv, "csv", false, "print one CSV line a run")
	f.BoolVar(&o.skipBad, "skip-bad", false, "leave out lines that cannot be read, and count them")
	f.BoolVar(&o.quiet, "quiet", false, "show no progress")
	f.IntVar(&o.parallel, "parallel", 0, "runs at the same time (default: as many as there are processors)")
	o.waits.flags(f)
	o.complete(command)
	command.MarkFlagsMutuallyExclusive("json", "csv")
}

func traceForms() string {
	var b strings.Builder
	for _, f := range traces.Forms {
		fmt.Fprintf(&b, "  %-10s %s\n", f.Name, f.What)
	}
	return b.String()
}

// plan checks the flags against each other and opens the trace.
func (o *replayOptions) plan(args []string) (*replayPlan, error) {
	p := &replayPlan{options: o, profiles: map[string]cost.Profile{}}
	var err error
	if p.trace, err = o.open(args); err != nil {
		return nil, err
	}
	for _, file := range o.profiles {
		profile, err := lineup.ReadProfile(file)
		if err != nil {
			return nil, err
		}
		p.profiles[profile.Name] = profile
	}
	if len(o.fit) > 0 {
		if err := p.fit(rotated(o.fit)); err != nil {
			return nil, err
		}
	}
	if err := o.base(&p.sweep.Base, p); err != nil {
		return nil, err
	}
	if err := o.lists(&p.sweep, p.trace); err != nil {
		return nil, err
	}
	p.trace.Select(traces.Selection{First: o.first, Length: time.Duration(o.minutes * float64(time.Minute)), Half: o.half})
	return p, nil
}

// open opens the one trace that was named.
func (o *replayOptions) open(args []string) (*traces.Trace, error) {
	files, options := append(rotated(o.log), args...), traces.Options{SkipBad: o.skipBad}
	parts, err := o.parts()
	if err != nil {
		return nil, err
	}
	var t *traces.Trace
	switch {
	case len(files) == 0 && len(parts) == 0:
		return nil, errors.New("name a trace, --log, or --tenant; see --help for the forms")
	case len(files) == 0:
		return traces.Mix(parts)
	case len(files) == 1 && len(o.log) == 0:
		t, err = traces.Open(files[0], options)
	default:
		t, err = traces.OpenLogs(files, options)
	}
	if err != nil || len(parts) == 0 {
		return t, err
	}
	return traces.Mix(append([]traces.Part{{Trace: t}}, parts...))
}

// rotated are decision logs with what was put aside from them.
func rotated(logs []string) (files []string) {
	for _, name := range logs {
		files = append(files, traces.Rotated(name)...)
	}
	return files
}

// base fills in what all runs share.
func (o *replayOptions) base(c *sim.Config, p *replayPlan) (err error) {
	*c = sim.Config{Trace: p.trace, Jitter: -1, EventDelay: o.eventDelay}
	if o.jitterSet {
		c.Jitter = o.jitter
	}
	if c.Fleet, err = lineup.Parse(o.fleet, p.profiles); err != nil {
		return err
	}
	if o.tierTokens > 0 {
		for i := range c.Fleet {
			c.Fleet[i].TierTokensMax, c.Fleet[i].TierSeconds = o.tierTokens, o.tierLoad.Seconds()
		}
	}
	if err = o.waits.with(c); err != nil {
		return err
	}
	if c.Assumed, err = oneOf("caches", o.caches, "exact", "assumed"); err != nil {
		return err
	}
	if c.Known, err = oneOf("constants", o.constants, "learned", "known"); err != nil {
		return err
	}
	if o.half != "" {
		if _, err = oneOf("half", o.half, "even", "odd"); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		flag  string
		value float64
	}{
		{"first", float64(o.first)}, {"minutes", o.minutes}, {"regret", float64(o.regret)}, {"parallel", float64(o.parallel)},
		{"tier-tokens", float64(o.tierTokens)}, {"tier-load", o.tierLoad.Seconds()}, {"jitter", o.jitter.Seconds()}, {"event-delay", o.eventDelay.Seconds()}, {"worker-price", o.workerPrice},
	} {
		if !(f.value >= 0) {
			return fmt.Errorf("--%s %g is below 0", f.flag, f.value)
		}
	}
	c.SLO, err = parseSLO(o.slo)
	switch {
	case err != nil:
		return err
	case o.regret > 0 && (c.Queue != nil || c.Pools != nil || c.Models != nil):
		return errors.New("--regret holds choices against each other that every worker could have taken: not with --queue, --model or pools (--config)")
	case o.seeds < 1:
		return fmt.Errorf("--seeds %d; it is at least 1", o.seeds)
	case o.minutes > 0 && p.trace.Untimed:
		return errors.New("--minutes is for traces with times; these sessions come one after the other: --first ends after so many requests")
	case o.first > 0 && o.half != "" && p.trace.Sessions:
		return errors.New("--first counts requests, --half splits by session: use one of them")
	}
	return nil
}

// oneOf tells whether a flag has the second of its two values.
func oneOf(flag, value, first, second string) (bool, error) {
	if value != first && value != second {
		return false, fmt.Errorf("--%s %q is neither %s nor %s", flag, value, first, second)
	}
	return value == second, nil
}

// lists fills in what runs differ in.
func (o *replayOptions) lists(s *sweep.Sweep, t *traces.Trace) (err error) {
	s.Seeds, s.Models = o.seeds, o.waits.asks()
	s.Policies = sched.PolicyNames()
	if o.policies != "all" {
		s.Policies = strings.Split(o.policies, ",")
	}
	for i, name := range s.Policies {
		if slices.Contains(s.Policies[:i], name) {
			return fmt.Errorf("--policies: %s is named twice", name)
		}
		if sched.Policies[name] == nil {
			return fmt.Errorf("--policies: unknown policy %q; there are: %s, or all", name, strings.Join(sched.PolicyNames(), ", "))
		}
	}
	number := func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }
	if s.Rates, err = parseList("rate", o.rates, "a number above 0, at most a million", number, func(v float64) bool { return v > 0 && v <= 1e6 }); err != nil {
		return err
	}
	count := func(flag, text string, most int) (list []int) {
		if err == nil {
			list, err = parseList(flag, text, fmt.Sprintf("a number from 1 to %d", most), strconv.Atoi, func(v int) bool { return v >= 1 && v <= most })
		}
		return list
	}
	s.Workers = count("workers", o.workers, 1000)
	s.AtOnce = count("at-once", o.atOnce, 100_000)
	s.Replicas = count("replicas", o.replicas, 100)
	if err != nil {
		return err
	}
	if s.ViewDelays, err = parseList("view-delay", o.delays, "a time like 0.5s, at most an hour", time.ParseDuration, func(v time.Duration) bool { return v >= 0 && v <= time.Hour }); err != nil {
		return err
	}
	switch {
	case len(s.AtOnce) > 0 && !t.Sessions:
		return errors.New("--at-once is for traces of sessions; here every request has its own time")
	case len(s.AtOnce) == 0 && t.Untimed:
		s.AtOnce = []int{32}
	}
	return nil
}

// parseList reads values with commas between them, none twice; what says what one is.
func parseList[T comparable](flag, text, what string, parse func(string) (T, error), valid func(T) bool) (list []T, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		v, err := parse(strings.TrimSpace(part))
		if err != nil || !valid(v) {
			return nil, fmt.Errorf("--%s %q: %q is not %s", flag, text, part, what)
		}
		if slices.Contains(list, v) {
			return nil, fmt.Errorf("--%s %q: %s is there twice", flag, text, part)
		}
		list = append(list, v)
	}
	return list, nil
}

// parseSLO reads "ttft=2s,tpot=50ms".
func parseSLO(text string) (s sim.SLO, err error) {
	s.Share = 0.95
	if text == "" {
		return s, nil
	}
	known, given := []string{"ttft", "tpot", "e2e", "share"}, map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if !slices.Contains(known, key) {
			return s, fmt.Errorf("--slo %q: unknown key %q; there are: %s", text, key, strings.Join(known, ", "))
		}
		if given[key] {
			return s, fmt.Errorf("--slo %q: %s is there twice", text, key)
		}
		given[key] = true
		if key == "share" {
			if s.Share, err = strconv.ParseFloat(value, 64); err != nil || !(s.Share > 0 && s.Share <= 1) {
				return s, fmt.Errorf("--slo %q: share %q is not above 0 and at most 1", text, value)
			}
			continue
		}
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return s, fmt.Errorf("--slo %q: %s is %q, not a time like 2s or 50ms", text, key, value)
		}
		switch key {
		case "ttft":
			s.TTFT = d
		case "tpot":
			s.TPOT = d
		case "e2e":
			s.E2E = d
		}
	}
	if !s.Set() {
		return s, fmt.Errorf("--slo %q promises nothing: ttft, tpot or e2e is needed", text)
	}
	return s, nil
}

// quoted writes arguments as a shell takes them.
func quoted(args []string) (out []string) {
	for _, a := range args {
		if a == "" || strings.ContainsAny(a, " \t\n'\"\\$&|;<>()*?[]{}~#`!") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		out = append(out, a)
	}
	return out
}
