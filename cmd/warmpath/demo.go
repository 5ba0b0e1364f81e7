package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/engine"
	"github.com/warmpath/warmpath/internal/workload"
)

const (
	demoWorkers = 4
	demoModel   = "sim"
	// demoProfile is the engine that the published workload was made for.
	demoProfile = "h100-70b-tp4"
	// demoArriving is the part of the time in which chats begin; the rest is for them to end. demoGrace is how much
	// longer a policy that cannot keep up may take, as a factor of the time it was given.
	demoArriving = 0.55
	demoGrace    = 1.2
	// demoOutputMean is longer than any max_tokens of the workload, so that nearly every answer is as long as it may be.
	demoOutputMean = 4096
)

var errInterrupted = errors.New("interrupted")

// demoPolicies are played in this order; --keep leaves the last one serving.
var demoPolicies = []string{"round-robin", "least-tokens", "session-hash", "warm-cost"}

type demoOptions struct {
	seed       uint64
	seconds    float64
	timeScale  float64
	profile    string
	keep, json bool
}

// demoCommand plays one workload under each policy against simulated workers and prints what the clients saw.
func demoCommand() *cobra.Command {
	var o demoOptions
	command := &cobra.Command{
		Use:   "demo",
		Short: "Compare policies on four simulated workers in this process; needs no GPU and no network",
		Long: `Plays one seeded workload (chats of many turns with shared system prompts, and a few very long documents) against four
fresh simulated workers behind the router, under round-robin, least-tokens, session-hash and warm-cost in turn, and prints
what the clients saw. Everything runs in this process, on loopback, in under two minutes. The router's page is there meanwhile: its
address is printed first.`,
		Example: `  warmpath demo
  warmpath demo --profile h100-8b --time-scale 1
  warmpath demo --json 2>/dev/null | jq '."warm-cost".ttft_mean_ms'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return usageError{err}
			}
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return runDemo(ctx, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := command.Flags()
	flags.Uint64Var(&o.seed, "seed", 1, "seed of the workload and of the answers")
	flags.Float64Var(&o.seconds, "seconds", 22, "how long each policy is played, about; chats that go on longer are cut off")
	flags.Float64Var(&o.timeScale, "time-scale", 4, "how many times faster than the profile the workers run, users and all")
	flags.StringVar(&o.profile, "profile", demoProfile, "timing of the simulated workers: "+strings.Join(profileNames(), ", "))
	flags.BoolVar(&o.keep, "keep", false, "leave the last router and its workers serving until Ctrl-C")
	flags.BoolVar(&o.json, "json", false, "print one JSON object keyed by policy to standard output, all else to standard error")
	return command
}

func (o demoOptions) check() error {
	switch {
	case !slices.Contains(profileNames(), o.profile):
		return fmt.Errorf("--profile %q is not one of %s", o.profile, strings.Join(profileNames(), ", "))
	case !(o.seconds >= 1 && o.seconds <= 3600):
		return fmt.Errorf("--seconds %v is not within 1 to 3600", o.seconds)
	case !(o.timeScale >= 0.01 && o.timeScale <= 100):
		return fmt.Errorf("--time-scale %v is not within 0.01 to 100", o.timeScale)
	}
	return nil
}

// workload is the published one, as many chats as begin in the time given, at the pace of the workers: workers twice
// as fast have users twice as fast.
func (o demoOptions) workload() workload.Options {
	w := workload.Default()
	pace := o.timeScale * cost.Profiles[demoProfile].Prefill(4000, 0) / cost.Profiles[o.profile].Prefill(4000, 0)
	w.Seed, w.Model = o.seed, demoModel
	over := time.Duration(o.seconds * demoArriving * pace * float64(time.Second))
	share := float64(over) / float64(w.Over)
	w.Over = over
	w.Sessions = max(int(share*float64(w.Sessions)), 2*demoWorkers)
	w.DocumentSessions = int(math.Round(share * float64(w.DocumentSessions)))
	return w.Faster(pace)
}

func (o demoOptions) engine() engine.Options {
	return engine.Options{Profile: cost.Profiles[o.profile], Model: demoModel, TimeScale: o.timeScale, OutputMean: demoOutputMean, Seed: o.seed}
}

// runDemo writes progress to stderr and the table to stdout (with --json to stderr too, so that stdout is one object).
func runDemo(ctx context.Context, o demoOptions, stdout, stderr io.Writer) error {
	w := o.workload()
	sessions := workload.Generate(w)
	table := stdout
	if o.json {
		table = stderr
	}
	fmt.Fprintf(stderr, "%d simulated workers (%s, %gx), %d chats with %d requests, %d chats about documents of up to %d tokens, seed %d\n",
		demoWorkers, o.profile, o.timeScale, len(sessions), workload.Requests(sessions), w.DocumentSessions, w.DocumentTokens.Max, o.seed)

	var rows []demoRow
	var last *embeddedFleet
	page := "" // where it is
	defer func() { last.close() }()
	for _, policy := range demoPolicies {
		last.close()
		var err error
		if last, err = o.start(ctx, policy, page, stderr); err != nil {
			return err
		}
		if at := last.router.AdminURL(); at != page {
			page = at
			fmt.Fprintf(stderr, "the page: %s/ shows the workers and each decision while it runs\n", page)
		}
		row, err := last.play(ctx, o, sessions, newDemoProgress(stderr, policy))
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	printDemoTable(table, rows)
	printDemoAdvice(table)
	if o.keep {
		printDemoKept(stderr, last)
	}
	if o.json {
		if err := printDemoJSON(stdout, rows); err != nil {
			return err
		}
	}
	if o.keep {
		<-ctx.Done()
	}
	return nil
}

// start starts a policy's fleet with its page where that of the one before was, so that whoever looks at it goes on looking.
func (o demoOptions) start(ctx context.Context, policy, page string, stderr io.Writer) (*embeddedFleet, error) {
	engines := alike(demoWorkers, o.engine())
	if address := strings.TrimPrefix(page, "http://"); address != "" {
		f, err := startFleet(ctx, engines, policy, stderr, func(c *config.Config, _ string) { c.Admin = address })
		if !errors.Is(err, syscall.EADDRINUSE) { // a connection of this machine may have got the port meanwhile
			return f, err
		}
	}
	return startFleet(ctx, engines, policy, stderr, nil)
}

// play runs the chats through the router and reads the workers' own counts afterwards.
func (f *embeddedFleet) play(ctx context.Context, o demoOptions, sessions []workload.Session, p *demoProgress) (demoRow, error) {
	limited, cancel := context.WithTimeout(ctx, time.Duration(o.seconds*demoGrace*float64(time.Second)))
	defer cancel()
	result := workload.Run(limited, f.router.DataURL(), sessions, workload.RunOptions{Progress: p.show})
	p.end(result)
	if ctx.Err() != nil {
		return demoRow{}, errInterrupted
	}
	if result.Requests == 0 {
		return demoRow{}, fmt.Errorf("no request was answered under %s: %s", f.policy, result.FirstError)
	}
	return f.row(ctx, result)
}

// row adds the workers' own counts and the router's to what the clients saw.
func (f *embeddedFleet) row(ctx context.Context, r workload.Result) (demoRow, error) {
	seen, err := readMetrics(ctx, f.router.AdminURL())
	if err != nil {
		return demoRow{}, err
	}
	row := demoRow{policy: f.policy, result: r, declined: int(seen.sum("warmpath_hits_declined_total")), busiestOverMean: f.busiestOverMean(), slip: f.slip()}
	var prompts, cached uint64
	for _, e := range f.engines {
		s := e.Stats()
		row.prefilled += int(s.PrefilledTokens)
		prompts, cached = prompts+s.PromptTokens, cached+s.CachedTokens
	}
	row.hitRate = float64(cached) / float64(max(prompts, 1))
	return row, nil
}
