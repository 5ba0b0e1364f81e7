package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/contest"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/sweep"
)

type policyOptions struct {
	contest.Options
	only, policies, without string
	terms                   []sched.Terms // of without
	parallel                int
	json, quiet             bool
}

// policyCommand is `warmpath prove policy`.
func policyCommand() *cobra.Command {
	var o policyOptions
	command := &cobra.Command{
		Use:   "policy",
		Short: "Hold the default policy against all others, by replays over many fleets, loads and kinds of traffic",
		Long: `Replays conversations, agents, a ladder of shared prefixes, traffic without reuse and hot prefixes from cold over alike and unlike
fleets at light to nearly full load, under every policy, three seeds each, with costs learned on the way. Held to: ` + sched.DefaultPolicy + ` is close to the
best policy of each point, none is better over all points, and what is due where nothing is shared, where a prefix is hot and where
news is late. The exit code is 1 when one check fails.

The odd half of the traffic is for the verdict, the even half for tuning. Four trace files are looked for in --traces; docs/REPLAY.md
says where they come from. Points whose file is not there are left out, and the verdict fails. The same command gives the same output.

--without shows instead, with one seed, what each term of ` + sched.DefaultPolicy + ` is good for, see docs/POLICY.md: ` + strings.Join(sched.TermNames(), ", ") + `.`,
		Example: `  warmpath prove policy --traces traces
  warmpath prove policy --traces traces --half even --quick
  warmpath prove policy --only '^hot/32k' --policies least-prefill,affinity-filter
  warmpath prove policy --traces traces --half even --quick --without all`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := o.plan()
			if err != nil {
				return usageError{err}
			}
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if len(o.terms) > 0 {
				return o.ablate(ctx, c, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return o.run(ctx, c, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := command.Flags()
	f.StringVar(&o.Traces, "traces", "", "the folder with the trace files")
	f.StringVar(&o.Half, "half", "odd", "which half of the traffic: odd for the verdict, even for tuning, or all")
	f.BoolVar(&o.Quick, "quick", false, "a part of the points and one seed, for tuning")
	f.StringVar(&o.only, "only", "", "only points whose names match this regular expression")
	f.StringVar(&o.policies, "policies", "all", "policies to compare with "+sched.DefaultPolicy+": "+strings.Join(sched.PolicyNames(), ", ")+", or all")
	f.StringVar(&o.without, "without", "", "leave terms of "+sched.DefaultPolicy+" out, one at a time, instead of a verdict: their names with commas between, or all")
	f.IntVar(&o.parallel, "parallel", 0, "runs at the same time (default: as many as there are processors)")
	f.BoolVar(&o.json, "json", false, "print one JSON object to standard output, all else to standard error")
	f.BoolVar(&o.quiet, "quiet", false, "show no progress")
	return command
}

func (o *policyOptions) plan() (*contest.Contest, error) {
	if o.policies != "all" {
		o.Policies = strings.Split(o.policies, ",")
	}
	for _, name := range o.Policies {
		if sched.Policies[name] == nil {
			return nil, fmt.Errorf("--policies: unknown policy %q; there are: %s, or all", name, strings.Join(sched.PolicyNames(), ", "))
		}
	}
	if !slices.Contains([]string{"odd", "even", "all"}, o.Half) {
		return nil, fmt.Errorf("--half %q is none of odd, even and all", o.Half)
	}
	if o.without != "" {
		var err error
		if o.terms, err = contest.Terms(strings.Split(o.without, ",")); err != nil {
			return nil, fmt.Errorf("--without: %w, or all", err)
		}
	}
	if o.only != "" {
		var err error
		if o.Only, err = regexp.Compile(o.only); err != nil {
			return nil, fmt.Errorf("--only: %w", err)
		}
	}
	return contest.New(o.Options)
}

func (o *policyOptions) run(ctx context.Context, c *contest.Contest, stdout, stderr io.Writer) error {
	began := time.Now()
	out := stdout
	if o.json {
		out = stderr
	}
	var speed *contest.Check
	if !o.Quick && o.Only == nil && o.Traces != "" {
		one := o.speed(ctx) // first: memory is taken to be a child's own only while its parent is small
		speed = &one
	}
	runs := c.Runs()
	interrupted := o.replay(ctx, "", runs, stderr)
	if interrupted != nil && !errors.Is(interrupted, errInterrupted) {
		return interrupted
	}
	j := c.Judge(runs)
	if speed != nil {
		j.Add(*speed)
	}
	j.Print(out)
	if !c.Whole() {
		fmt.Fprintln(out, "a part of the points, seeds or policies: no verdict")
	}
	if interrupted != nil {
		return interrupted
	}
	more, err := o.variants(ctx, c, j.Peers, out, stderr)
	if err != nil {
		return err
	}
	runs = append(runs, more...)
	processors, memory := ownUsage()
	fmt.Fprintf(stderr, "%d runs, %.1f virtual hours, in %v, with %v of processors and %d MB of memory\n", len(runs), sweep.Virtual(runs).Hours(),
		time.Since(began).Round(time.Second), processors.Round(time.Second), memory>>20)
	if o.json {
		if err := json.NewEncoder(stdout).Encode(j); err != nil {
			return err
		}
	}
	if !j.Passed() {
		return errors.New("not all checks hold")
	}
	return nil
}

// ablate shows what the terms are good for. It checks nothing.
func (o *policyOptions) ablate(ctx context.Context, c *contest.Contest, stdout, stderr io.Writer) error {
	runs := c.AblationRuns(o.terms)
	if len(runs) == 0 {
		return usageError{errors.New("--without: none of the points of --only is judged")}
	}
	if err := o.replay(ctx, " without", runs, stderr); err != nil {
		return err
	}
	a := c.Ablate(runs, o.terms)
	if o.json {
		return json.NewEncoder(stdout).Encode(a)
	}
	a.Print(stdout)
	return nil
}

// variantPeers is how many of the best other policies are shown with assumed caches and with known constants.
const variantPeers = 2

// variants shows, beside the verdict, how the router does that knows engines in other ways.
func (o *policyOptions) variants(ctx context.Context, c *contest.Contest, peers []string, out, stderr io.Writer) (runs []*sweep.Run, err error) {
	if o.Quick || len(peers) == 0 {
		return nil, nil
	}
	policies := append([]string{sched.DefaultPolicy}, peers[:min(variantPeers, len(peers))]...)
	for _, x := range contest.Variants {
		more := c.VariantRuns(x, policies)
		if err := o.replay(ctx, " with "+x.Name, more, stderr); err != nil {
			return nil, err
		}
		fmt.Fprintln(out)
		c.Judge(more).PrintVariant(out, x)
		runs = append(runs, more...)
	}
	return runs, nil
}

// A replay of an hour under every policy, at three rates with three seeds, takes no more than this.
const (
	speedTimeMax  = 4 * time.Minute
	speedBytesMax = 2 << 30
)

// speed times that replay, by this program itself.
func (o *policyOptions) speed(ctx context.Context) contest.Check {
	args := []string{"replay", filepath.Join(o.Traces, contest.Conversations), "--fleet", "h100-70b-tp4:8", "--rate", "1,1.5,1.75", "--policies", "all", "--seeds", "3"}
	check := contest.Check{Name: "warmpath " + strings.Join(quoted(args), " ")}
	binary, err := os.Executable()
	if err != nil {
		check.Figures = err.Error()
		return check
	}
	command := exec.CommandContext(ctx, binary, args...)
	began := time.Now()
	said, err := command.CombinedOutput()
	took := time.Since(began)
	if err != nil {
		check.Figures, check.Detail = err.Error(), []string{strings.TrimSpace(string(said))}
		return check
	}
	usage, _ := command.ProcessState.SysUsage().(*syscall.Rusage)
	check.Pass = took <= speedTimeMax && peakBytes(usage) <= speedBytesMax
	check.Figures = fmt.Sprintf("%v, at most %v; %d MB of memory, at most %d", took.Round(time.Second), speedTimeMax, peakBytes(usage)>>20, int64(speedBytesMax)>>20)
	return check
}

// noteEvery is the time between two notes of progress where no line is kept on a terminal.
const noteEvery = 30 * time.Second

// replay makes the runs and tells how far they are: on a terminal in one line, elsewhere now and then.
func (o *policyOptions) replay(ctx context.Context, how string, runs []*sweep.Run, stderr io.Writer) error {
	began, noted, done := time.Now(), time.Now(), 0
	stop := func() {}
	if !o.quiet {
		stop = progress(stderr, "prove policy"+how, runs, began)
	}
	err := sweep.Do(ctx, runs, o.parallel, func(*sweep.Run) {
		if done++; !o.quiet && !keepsLine(stderr) && time.Since(noted) >= noteEvery {
			noted = time.Now()
			fmt.Fprintln(stderr, progressLine("prove policy"+how, runs, time.Since(began)))
		}
	})
	stop()
	if errors.Is(err, context.Canceled) {
		return errInterrupted
	}
	return err
}
