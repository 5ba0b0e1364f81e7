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
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/kvbench"
	"github.com/warmpath/warmpath/internal/queuebench"
)

const benchLong = `Measures this binary beside nginx and HAProxy, on this machine, with cheap mock workers: CPU a request and a stream, latency added,
the time of a decision, memory of open streams, and what an idle router uses. Each table says how it was measured; a figure is the
median of five rounds in which contestants take turns. Prints pass or fail for each demand, and ends with 1 when one is not met.

The part index tells how fast workers' cache events go into the index, how long a look-up takes meanwhile, and its memory for each block;
what the events of 500 workers cost that come over sockets, and how soon a look-up sees them.

The part queue tells what a push with a pop takes while 10,000 requests wait, and what the queue adds where there is room.

The part tokenize tells how fast text becomes token ids, beside the implementation that engines use, and the part exact how long a
decision takes by the model's own tokens and workers' cache events; with --tokenizers both are in "all" too.

The part open-streams holds --open streams open at one time, an event a second each, with 100 new ones a second beside them, checks every byte, and
tells memory, CPU and lateness (make streams).

The part profile saturates the router alone for --window and writes its CPU profile into the folder of --pprof (make profile).

nginx and haproxy must be installed (Debian: apt-get install nginx haproxy). Figures mean something on an otherwise idle machine only.`

// indexPart and queuePart are measured by rooms of their own.
const indexPart, queuePart = "index", "queue"

// errBenchFailed is what a run ends with whose demands were not all met: the report says which.
var errBenchFailed = errors.New("a demand was not met")

type benchOptions struct {
	json   bool
	rounds int
	window time.Duration
	peers  string
	tokens string
	pprof  string
	open   benchOpen
}

// benchCommand is `warmpath bench`.
func benchCommand() *cobra.Command {
	var o benchOptions
	command := &cobra.Command{
		Use: "bench " + strings.Join(bench.PartNames, "|") + "|profile|" + indexPart + "|" + queuePart + "|" + tokenizePart + "|" + exactPart + "|" + openPart + "|all", Short: "Measure what the router costs, beside nginx and HAProxy", Long: benchLong,
		Example:   "  warmpath bench all\n  warmpath bench decide --json | jq '.[0].sections[0].checks'",
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: append([]string{"all", indexPart, queuePart, tokenizePart, exactPart, openPart, "profile"}, bench.PartNames...),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return runBench(ctx, o, args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	d := bench.DefaultOptions()
	flags := command.Flags()
	flags.BoolVar(&o.json, "json", false, "print one JSON array of reports to standard output")
	flags.IntVar(&o.rounds, "rounds", d.Rounds, "rounds of which the median is taken")
	flags.DurationVar(&o.window, "window", d.Window, "how long one contestant is measured in one round, about")
	flags.StringVar(&o.peers, "peers", "", "folder of installed rival routers (see make bench-peers); they join the tables of proxy and streams")
	flags.StringVar(&o.tokens, "tokenizers", "", "folder with tokenizers and the reference for the parts tokenize and exact (see scripts/exact-install.sh)")
	flags.StringVar(&o.pprof, "pprof", "", "folder for CPU profiles of the router under load")
	o.open.flags(command)
	return command
}

func runBench(ctx context.Context, o benchOptions, part string, stdout, stderr io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if o.rounds < 1 || o.window < 100*time.Millisecond {
		return usageError{fmt.Errorf("--rounds %d and --window %v: at least 1 and 100ms are needed", o.rounds, o.window)}
	}
	names := []string{part}
	if part == "all" {
		names = append(slices.Clone(bench.PartNames), indexPart, queuePart)
		if o.tokens != "" {
			names = append(names, tokenizePart, exactPart)
		}
	}
	for _, program := range []string{"nginx", "haproxy"} {
		if _, err := exec.LookPath(program); err != nil && (part == "all" || part == "proxy" || part == "streams") {
			return usageError{fmt.Errorf("%s is not installed, and what this binary costs is told beside it; Debian: apt-get install nginx haproxy", program)}
		}
	}
	debug.SetGCPercent(400) // of the load generator: it has memory, and its collector would take the contestants' cores
	passed, reports := true, []bench.Report{}
	for _, name := range names {
		measure := bench.Parts[name]
		if name == indexPart {
			measure = kvbench.Index
		}
		if name == queuePart {
			measure = queuebench.Queue
		}
		if name == openPart {
			measure = o.open.measure
		}
		if name == exactPart {
			measure = func(ctx context.Context, b bench.Options) (bench.Report, error) {
				return benchExact(ctx, o.tokens, b.Rounds, b.Progress)
			}
		}
		if name == tokenizePart {
			measure = func(ctx context.Context, b bench.Options) (bench.Report, error) {
				return benchTokenize(ctx, o.tokens, b.Rounds, b.Progress)
			}
		}
		report, err := measure(ctx, bench.Options{Self: self, Peers: o.peers, Rounds: o.rounds, Window: o.window, Progress: stderr, Pprof: o.pprof})
		if err != nil {
			return fmt.Errorf("bench %s: %w", name, err)
		}
		reports = append(reports, report)
		passed = passed && report.Passed()
		if !o.json {
			printBench(stdout, report)
		}
	}
	if o.json {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		if err := e.Encode(reports); err != nil {
			return err
		}
	}
	if !passed {
		return errBenchFailed
	}
	return nil
}

// benchWorkersCommand plays the mock workers of a bench, and writes their addresses into a file. Bench starts it by itself.
func benchWorkersCommand() *cobra.Command {
	return &cobra.Command{Use: bench.MockCommand + " NUMBER FILE", Hidden: true, Args: cobra.ExactArgs(2), RunE: func(_ *cobra.Command, args []string) error {
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 1 {
			return usageError{fmt.Errorf("%q is no number of workers", args[0])}
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		debug.SetGCPercent(400)
		mock, err := bench.StartMock(n)
		if err != nil {
			return err
		}
		defer mock.Close()
		if err := os.WriteFile(args[1], []byte(strings.Join(mock.URLs(), " ")+"\n"), 0o600); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}}
}

// benchEventsCommand plays engines that publish cache events. Bench starts it by itself.
func benchEventsCommand() *cobra.Command {
	return &cobra.Command{Use: kvbench.PublishCommand + " NUMBER", Hidden: true, Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 1 {
			return usageError{fmt.Errorf("%q is no number of engines", args[0])}
		}
		return kvbench.Publish(cmd.Context(), n, os.Stdin, cmd.OutOrStdout())
	}}
}
