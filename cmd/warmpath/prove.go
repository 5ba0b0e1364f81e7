package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/reckoning"
)

// promise is one claim of the product that prove can show or refute.
type promise struct {
	name, claim string
	show        func(ctx context.Context, p *proof) error
}

// promises are shown in this order.
var promises = []promise{
	{"fallback", "falls back rather than queue behind a hit", proveFallback},
	{"load", "connections are not load", proveLoad},
	{"unlike", "workers of unlike speed get what each can carry", proveUnlike},
	{"errors", "what goes wrong is said clearly and routed around", proveErrors},
	{"counts", "counts are the workers' own, and nothing is left behind by clients that leave", proveCounts},
	{"queue", "who waits is served in the order that is due", proveQueue},
	{"cost", "what requests will cost is known before they run", proveCost},
	{"models", "names that stand for several models keep to what is set", proveModels},
	{"ghosts", "what other rules would have saved is what replays of them find", proveGhosts},
}

const proveLong = `Runs the real router, over real sockets, before simulated engines and holds it to its promises. Each case is one line,
"pass" or "FAIL" with the figures it was judged by; the exit code is 1 when one fails. Needs no GPU and no network.

  fallback  A prefix of 8,192 or 32,768 tokens is warm on one of 2, 4 or 8 workers, and more requests for it arrive than
            that worker can carry. Each of the six settings is played under every policy, on fresh workers, with the same
            arrivals. Held to: mean time to first token and mean time per output token at most 1.2 times the best of the
            other policies; no worker does more than 1.5 times the mean; hits are declined, and the rows of each such
            decision show that the longer match cost more.                                          (five minutes)
  load      One stream over a context of 100,000 tokens on one worker, fifty short completions on the other. Held to: the
            next request goes where its tokens come sooner, whichever that is, and least-requests errs.   (one minute)
  unlike    Two workers in one pool, one three times as fast as the other, of which the router is told nothing. Held to: after 30
            requests it takes the fast one to be at least twice as fast; from then on requests a second that keep an SLO (first
            token, mean gap), and plain throughput where clients ask all the time, are at least 0.95 of what the best static
            weighting gives, which is searched for from 1:1 to 9:1.                                (three minutes)
  errors    A misspelt key, a worker that is down, a port in use, a worker that answers 500 at once: message, exit code,
            routing.                                                                                  (ten seconds)
  counts    Under 200 requests in flight the router's count of each worker is the worker's own; after 2,000 clients left
            at random moments every count is 0, connections, goroutines, descriptors and memory are back. (one minute)
  queue     Replays in virtual time, with the queue as it is by default. Prompts of 100,000 tokens among chats; two tenants of
            unlike appetite; one and a half times what the fleet carries; batch jobs that fill it; a pool for long prompts. Held to: times to the first
            token and gaps beside the heavy jobs, the quiet tenant or the top class alone, or the workers without pools, shares of
            engine time, Retry-After, recovery, waits before batch work gives way, overflow and back.                   (two minutes)
  cost      Replays in virtual time of coding agents (--agents; without it they are made up) and of three unlike tenants, costs learned
            on the way. Held to: expected prefill seconds off by at most 10 % of the real ones at the median; 45 to 55 % of the answers no
            longer than their P50 and 85 to 95 % than their P90; and so each tenant and size of prompts.             (half a minute)
  models    Names that stand for several models, before an engine for each. Held to: all that four candidates can do or not, and every
            size of prompt, goes to the cheapest that can; a canary of 5 % gets 4 to 6 % of the conversations, which keep their model;
            a conversation stays unless leaving pays for the prefill; what is too long or down is answered by the fallback for that.
                                                                                                       (half a minute)
  ghosts    Replays in virtual time of conversations, agents, shared system prompts, long documents and unlike workers; ghosts are told of
            them as the router tells them, with all blocks and with a tenth of them. Held to: the hit rates that they give to round-robin,
            random and session-hash are off those of replays under these by 3 points at most, and so is what was reachable. (two minutes)

Figures of time depend on this machine being otherwise idle: the time by which simulated engines ran late is shown.`

type proveOptions struct {
	seed      uint64
	timeScale float64
	profile   string
	seconds   float64
	json      bool
	agents    string // cost: the trace; "" made up
	binary    string // what is run where an exit code matters; this program itself
}

// proveCommand is `warmpath prove`.
func proveCommand() *cobra.Command {
	var o proveOptions
	names := make([]string, len(promises))
	for i, p := range promises {
		names[i] = p.name
	}
	command := &cobra.Command{
		Use:   "prove [PROMISE...]",
		Short: "Hold the router to its promises on simulated workers; needs no GPU and no network",
		Long:  proveLong,
		Example: `  warmpath prove
  warmpath prove errors load
  warmpath prove fallback --json 2>/dev/null | jq '.cases[] | select(.pass | not)'`,
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, a := range args {
				if !slices.Contains(names, a) {
					return usageError{fmt.Errorf("no promise is called %q; there are: %s", a, strings.Join(names, ", "))}
				}
			}
			if err := o.check(); err != nil {
				return usageError{err}
			}
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return runProve(ctx, o, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	command.AddCommand(policyCommand())
	flags := command.Flags()
	flags.Uint64Var(&o.seed, "seed", 1, "seed of arrivals, prompts and the moments at which clients leave")
	flags.StringVar(&o.profile, "profile", demoProfile, "fallback: timing of the simulated workers: "+strings.Join(profileNames(), ", "))
	flags.Float64Var(&o.timeScale, "time-scale", fallbackTimeScale, "fallback: how many times faster than the profile a fleet of eight runs; smaller ones run at twice that")
	flags.Float64Var(&o.seconds, "seconds", fallbackSeconds, "fallback: how long requests arrive, for each setting and policy")
	flags.StringVar(&o.agents, "agents", "", "cost: a trace of agents' sessions, or a generator with its settings (default "+reckoning.AgentsMadeUp+"), see warmpath replay --help")
	flags.BoolVar(&o.json, "json", false, "print one JSON object to standard output, all else to standard error")
	return command
}

func (o *proveOptions) check() (err error) {
	if o.binary, err = os.Executable(); err != nil {
		return err
	}
	return demoOptions{profile: o.profile, seconds: o.seconds, timeScale: o.timeScale}.check()
}

// verdict is one case of a promise.
type verdict struct {
	Promise string         `json:"promise"`
	Case    string         `json:"case"`
	Pass    bool           `json:"pass"`
	Figures string         `json:"figures"`
	Values  map[string]any `json:"values,omitempty"`
	Detail  []string       `json:"detail,omitempty"`
}

// proof collects verdicts and prints each as soon as it is there.
type proof struct {
	proveOptions
	promise  string
	out, err io.Writer
	verdicts []verdict
}

// that records one case. detail are lines shown under it.
func (p *proof) that(pass bool, name, figures string, values map[string]any, detail ...string) {
	v := verdict{p.promise, name, pass, figures, values, detail}
	p.verdicts = append(p.verdicts, v)
	word := "pass"
	if !pass {
		word = emphasis(p.out, "FAIL")
	}
	fmt.Fprintf(p.out, "%s  %-8s  %s: %s\n", word, p.promise, name, figures)
	for _, line := range detail {
		fmt.Fprintf(p.out, "      %s\n", line)
	}
}

// note is progress, on standard error.
func (p *proof) note(format string, args ...any) { fmt.Fprintf(p.err, format+"\n", args...) }

// runProve shows the named promises, all of them when none is named.
func runProve(ctx context.Context, o proveOptions, names []string, stdout, stderr io.Writer) error {
	p := &proof{proveOptions: o, out: stdout, err: stderr}
	if o.json {
		p.out = stderr
	}
	began := time.Now()
	for _, one := range promises {
		if len(names) > 0 && !slices.Contains(names, one.name) {
			continue
		}
		p.promise = one.name
		err := one.show(ctx, p)
		if ctx.Err() != nil {
			return errInterrupted
		}
		if err != nil {
			p.that(false, one.claim, "could not be shown: "+err.Error(), nil)
		}
	}
	return p.end(stdout, time.Since(began))
}

func (p *proof) end(stdout io.Writer, took time.Duration) error {
	failed := 0
	for _, v := range p.verdicts {
		if !v.Pass {
			failed++
		}
	}
	fmt.Fprintf(p.out, "%d of %d hold (%.0f s)\n", len(p.verdicts)-failed, len(p.verdicts), took.Seconds())
	if p.json {
		report := map[string]any{"pass": failed == 0, "cases": p.verdicts, "elapsed_seconds": took.Seconds()}
		if err := json.NewEncoder(stdout).Encode(report); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d cases fail", failed, len(p.verdicts))
	}
	return nil
}
