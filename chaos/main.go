// Command chaos runs the router as a process between eight workers and a crowd of clients, has everything go wrong that can, by a schedule
// that follows from a seed, and checks every answer against what the workers sent. It shares no code with the router.
//
//	make chaos SEED=1 MINUTES=5
//	make chaos SEED=1 SABOTAGE=dup      # builds a router that doubles bytes, which is to be found
//
// Its last line is "chaos: requests N, faults N, anomalies N, seed N". It ends with 1 when there was an anomaly, and then says where all is
// that is needed to look into it; with 2 when the run could not be made. See docs/CHAOS.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		if err := runWorker(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "chaos worker:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(start(os.Args[1:], os.Stdout, os.Stderr))
}

// start reads the flags and runs.
func start(args []string, out, errs io.Writer) int {
	o := options{out: out}
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(errs)
	minutes := flags.Float64("minutes", 5, "length of the run, rests aside")
	flags.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()%1_000_000), "seed of requests and faults")
	flags.Float64Var(&o.rate, "rate", 350, "requests a second")
	flags.Float64Var(&o.faults, "faults", 2.2, "faults a second")
	flags.StringVar(&o.binary, "router", "", "the router's binary; empty: built from the source here")
	flags.StringVar(&o.folder, "folder", "", "where evidence goes; empty: .cache/chaos/seed-SEED")
	flags.StringVar(&o.sabotage, "sabotage", "", "build a router with a fault: "+strings.Join(sabotageNames(), ", ")+", or all, one after the other")
	flags.BoolVar(&o.first, "first", false, "stop at the first anomaly")
	flags.BoolVar(&o.keep, "keep", false, "keep the folder even if there was no anomaly")
	flags.BoolVar(&o.soak, "soak", false, "60 % of what the router can do for the whole time, clients that leave and workers that come and go: what grows, what becomes slower")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	o.total = time.Duration(*minutes * float64(time.Minute))
	if o.folder == "" {
		o.folder = filepath.Join(".cache", "chaos", fmt.Sprintf("seed-%d", o.seed))
	}
	err := check(o)
	switch {
	case err != nil:
	case o.sabotage == "all":
		return everySabotage(o, errs)
	default:
		var s *suite
		if s, err = one(o); err == nil {
			return told(s)
		}
	}
	fmt.Fprintln(errs, "chaos:", err)
	return 2
}

// check refuses options that make no run.
func check(o options) error {
	switch {
	case o.total < 15*time.Second:
		return fmt.Errorf("--minutes gives %v, the shortest run is 15s", o.total)
	case o.rate <= 0 || o.rate > 5000:
		return fmt.Errorf("--rate is %g, it must be above 0 and at most 5000", o.rate)
	case o.faults <= 0 || o.faults > 50:
		return fmt.Errorf("--faults is %g, it must be above 0 and at most 50", o.faults)
	case o.sabotage != "" && o.sabotage != "all" && !slices.Contains(sabotageNames(), o.sabotage):
		return fmt.Errorf("--sabotage %q is none of %s, all", o.sabotage, strings.Join(sabotageNames(), ", "))
	case o.sabotage != "" && o.binary != "":
		return errors.New("--sabotage builds the router; --router has no meaning beside it")
	}
	return nil
}

// one builds the router where none is given, and runs.
func one(o options) (*suite, error) {
	if o.binary == "" {
		folder, err := os.MkdirTemp("", "warmpath-chaos-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(folder)
		o.binary = filepath.Join(folder, "warmpath")
		if err := build(o.binary, o.sabotage); err != nil {
			return nil, err
		}
	}
	s, err := run(o)
	if err == nil {
		s.keeper.close()
	}
	return s, err
}

// told prints what a run came to and returns the exit code.
func told(s *suite) int {
	out := s.o.out
	for _, v := range verdicts {
		fmt.Fprintf(out, "%-36s %d\n", v, s.judge.verdicts[v])
	}
	n := s.keeper.count()
	if n > 0 {
		fmt.Fprintf(out, "first after %.1f s: %s\nall that is known of it: %s\n", s.keeper.firstAt.Seconds(), s.keeper.first, s.o.folder)
	}
	fmt.Fprintf(out, "chaos: requests %d, faults %d, anomalies %d, seed %d\n", s.requests.Load(), s.faults.Load(), n, s.o.seed)
	return min(n, 1)
}
