package main

import (
	"context"
	"fmt"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/openbench"
	"github.com/warmpath/warmpath/internal/strict"
)

// openPart is measured by a room of its own.
const openPart = "open-streams"

// benchOpen are the flags of that part.
type benchOpen struct {
	streams int
	hold    time.Duration
	memory  string
}

func (f *benchOpen) flags(cmd *cobra.Command) {
	d := openbench.DefaultOptions()
	cmd.Flags().IntVar(&f.streams, "open", d.Streams, "of open-streams: streams that are open at one time")
	cmd.Flags().DurationVar(&f.hold, "hold", d.Hold, "of open-streams: for how long they all are")
	cmd.Flags().StringVar(&f.memory, "memory", strict.Bytes(d.MemoryMax).String(), "of open-streams: memory that the router may have (its memory_max)")
}

// measure is the part as bench.Part.
func (f *benchOpen) measure(ctx context.Context, b bench.Options) (bench.Report, error) {
	o := openbench.DefaultOptions()
	most, err := strict.ParseBytes(f.memory)
	if err != nil {
		return bench.Report{}, usageError{fmt.Errorf("--memory: %w", err)}
	}
	if f.streams < 1 || f.hold < time.Second {
		return bench.Report{}, usageError{fmt.Errorf("--open %d and --hold %v: at least 1 and 1s are needed", f.streams, f.hold)}
	}
	o.Streams, o.Hold, o.MemoryMax = f.streams, f.hold, int64(most)
	if err := o.Possible(); err != nil {
		return bench.Report{}, usageError{err}
	}
	return openbench.Run(ctx, b, o)
}

// benchOpenWorkersCommand plays the workers of open-streams. Bench starts it by itself.
func benchOpenWorkersCommand() *cobra.Command {
	return &cobra.Command{Use: openbench.WorkerCommand + " NUMBER FILE", Hidden: true, Args: cobra.ExactArgs(2), RunE: func(cmd *cobra.Command, args []string) error {
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 1 {
			return usageError{fmt.Errorf("%q is no number of workers", args[0])}
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return openbench.Work(ctx, n, args[1])
	}}
}
