// Command mutants puts faults that routers of this kind were reported to have into this one's source, one after the other, and runs the test that
// is to notice each. A test that stays green with the fault in it holds nothing.
//
//	make mutants
//	make mutants ONLY=KVE        # those whose file's name matches
//	go run ./mutants --json      # one JSON object a line
//
// Each fault is a file here, NN-CASE-what.patch, which `git apply` takes too; above the patch stand the test and why it must go red. The tree is not touched:
// the compiler is told to read other text in the place of a file. Its last line is "mutants: N, killed N, survived N". It ends with 1 when a mutant
// was not killed, and with 2 when the run could not be made.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(start(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options of a run.
type options struct {
	only   *regexp.Regexp // of mutants' names
	folder string         // of the patches
	json   bool
	atOnce int
}

const atOnceMax = 16

// start reads the flags, sees that the tests are green without a fault, and then what each fault makes of them.
func start(ctx context.Context, args []string, out, errs io.Writer) int {
	o, err := parse(args, errs)
	if err != nil {
		if err != flag.ErrHelp {
			fmt.Fprintln(errs, "mutants:", err)
		}
		return 2
	}
	root, mutants, err := chosen(o)
	if err != nil {
		fmt.Fprintln(errs, "mutants:", err)
		return 2
	}
	scratch, err := os.MkdirTemp("", "warmpath-mutants-")
	if err != nil {
		fmt.Fprintln(errs, "mutants:", err)
		return 2
	}
	defer os.RemoveAll(scratch)
	bench := bench{root: root, scratch: scratch}
	if err := bench.green(ctx, mutants); err != nil {
		fmt.Fprintln(errs, "mutants:", err)
		return 2
	}
	killed, survived := 0, 0
	for f := range bench.all(ctx, mutants, o.atOnce) {
		switch f.Verdict {
		case isKilled:
			killed++
		case survives:
			survived++
		}
		o.tell(out, f, killed, len(mutants))
	}
	if ctx.Err() != nil {
		fmt.Fprintln(errs, "mutants: interrupted")
		return 2
	}
	o.sum(out, len(mutants), killed, survived)
	return min(len(mutants)-killed, 1)
}

func parse(args []string, errs io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(errs)
	only := flags.String("only", ".", "regexp of the names of mutants, such as KVE or ^07")
	flags.StringVar(&o.folder, "folder", "mutants", "where the patches are, from the module's root")
	flags.BoolVar(&o.json, "json", false, "one JSON object for each mutant, and one for all")
	flags.IntVar(&o.atOnce, "at-once", 2, fmt.Sprintf("mutants at one time, 1 to %d", atOnceMax))
	if err = flags.Parse(args); err != nil {
		return o, flag.ErrHelp // it has been told
	}
	switch o.only, err = regexp.Compile(*only); {
	case err != nil:
		return o, fmt.Errorf("--only %q: %w", *only, err)
	case flags.NArg() > 0:
		return o, fmt.Errorf("%q is no flag; --only chooses mutants", flags.Arg(0))
	case o.atOnce < 1 || o.atOnce > atOnceMax:
		return o, fmt.Errorf("--at-once %d is not within 1 and %d", o.atOnce, atOnceMax)
	}
	return o, nil
}

// chosen is the module's root and its mutants whose names match.
func chosen(o options) (root string, some []mutant, err error) {
	if root, err = module(); err != nil {
		return "", nil, err
	}
	all, err := load(filepath.Join(root, o.folder))
	if err != nil {
		return "", nil, err
	}
	for _, m := range all {
		if o.only.MatchString(m.name) {
			some = append(some, m)
		}
	}
	if len(some) == 0 {
		return "", nil, fmt.Errorf("none of %d mutants matches --only %q", len(all), o.only)
	}
	return root, some, nil
}

// all runs the mutants and yields what was found of each, as it is known.
func (b bench) all(ctx context.Context, mutants []mutant, atOnce int) <-chan finding {
	found, next := make(chan finding), make(chan mutant)
	var runs sync.WaitGroup
	for range min(atOnce, len(mutants)) {
		runs.Go(func() {
			for m := range next {
				began := time.Now()
				f := b.try(ctx, m)
				f.Seconds = time.Since(began).Seconds()
				found <- f
			}
		})
	}
	go func() {
		defer close(found)
		defer runs.Wait()
		defer close(next)
		for _, m := range mutants {
			select {
			case next <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	return found
}

// tell prints what was found of one mutant.
func (o options) tell(out io.Writer, f finding, killed, all int) {
	if o.json {
		line, _ := json.Marshal(f)
		fmt.Fprintf(out, "%s\n", line)
		return
	}
	fmt.Fprintf(out, "%3d of %d  %-14s %5.1f s  %s\n", killed, all, f.Verdict, f.Seconds, f.Mutant)
	if f.Verdict != isKilled {
		fmt.Fprintf(out, "    %s %s\n    %s\n", f.Package, f.Run, strings.ReplaceAll(strings.TrimSpace(f.Said), "\n", "\n    "))
	}
}

func (o options) sum(out io.Writer, all, killed, survived int) {
	if o.json {
		line, _ := json.Marshal(map[string]int{"mutants": all, "killed": killed, "survived": survived})
		fmt.Fprintf(out, "%s\n", line)
		return
	}
	broken := ""
	if n := all - killed - survived; n > 0 {
		broken = fmt.Sprintf(", without a verdict %d", n)
	}
	fmt.Fprintf(out, "mutants: %d, killed %d, survived %d%s\n", all, killed, survived, broken)
}
