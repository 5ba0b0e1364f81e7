package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/lineup"
	"github.com/warmpath/warmpath/internal/sweep"
	"github.com/warmpath/warmpath/internal/traces"
)

// replayPlan is a replay that can be run.
type replayPlan struct {
	options  *replayOptions
	command  string // that makes it again
	trace    *traces.Trace
	profiles map[string]cost.Profile
	sweep    sweep.Sweep

	fitted     *lineup.ProfileFile // by --fit
	fittedFrom traces.Fitted
}

// progressEvery is the time between two progress lines on a terminal; elsewhere there are none.
const progressEvery = 250 * time.Millisecond

// reportSamples is how many times the load is noted for a report, about.
const reportSamples = 150

// checked remembers that something could not be written: a table on a full disk must not look like one that is whole.
type checked struct {
	io.Writer
	err error
}

func (c *checked) Write(b []byte) (n int, err error) {
	if n, err = c.Writer.Write(b); err != nil && c.err == nil {
		c.err = err
	}
	return n, err
}

func (p *replayPlan) run(ctx context.Context, stdout, stderr io.Writer) error {
	out := &checked{Writer: stdout}
	if err := p.replay(ctx, out, stderr); err != nil {
		return err
	}
	return out.err
}

func (p *replayPlan) replay(ctx context.Context, stdout, stderr io.Writer) error {
	began := time.Now()
	if p.fitted != nil {
		printFitted(stderr, p.fitted, p.fittedFrom)
	}
	if err := p.trace.Load(traceBytesMax); err != nil {
		return err
	}
	if p.options.out != "" {
		p.sweep.Base.SampleEvery = p.sampleEvery(ctx)
	}
	runs := p.sweep.Runs()
	stop := func() {}
	if !p.options.quiet {
		stop = progress(stderr, "replay", runs, began)
	}
	lines := p.lines(stdout)
	done := 0
	err := sweep.Do(ctx, runs, p.options.parallel, func(r *sweep.Run) {
		done++
		lines(r)
	})
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	rows := sweep.Compare(runs)
	if !p.options.json && !p.options.csv && len(rows) > 0 {
		p.table(stdout, rows)
	}
	if err == nil && p.options.regret > 0 {
		err = p.printRegret(ctx, stdout, runs)
	}
	if p.options.out != "" && len(rows) > 0 {
		if err := p.report(rows); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "report: %s\n", p.options.out)
	}
	if n := p.trace.Skipped(); n > 0 {
		fmt.Fprintf(stderr, "%d bad lines of %s were left out\n", n, p.trace.Name)
	}
	if err != nil {
		return fmt.Errorf("interrupted after %d of %d runs", done, len(runs))
	}
	if !p.options.quiet {
		_, memory := ownUsage()
		fmt.Fprintf(stderr, "%d runs, %.1f virtual hours, in %v, with %d MB of memory\n", len(runs), sweep.Virtual(runs).Hours(),
			time.Since(began).Round(100*time.Millisecond), memory>>20)
	}
	return nil
}

// sampleEvery is the time between samples of a report: the trace's length over their number.
func (p *replayPlan) sampleEvery(ctx context.Context) time.Duration {
	const most = 10_000_000 // requests that are looked at to find the length
	r, err := p.trace.Reader(1)
	if err != nil {
		return time.Minute
	}
	defer r.Close()
	var q traces.Request
	var length, thinking time.Duration
	for range most {
		if ctx.Err() != nil || r.Next(&q) != nil {
			break
		}
		length, thinking = max(length, q.At), thinking+q.Think
	}
	for _, atOnce := range p.sweep.AtOnce {
		length = max(length, thinking/time.Duration(atOnce))
	}
	return max(time.Second, length/reportSamples).Round(time.Second)
}

// progress keeps a line on the terminal that says how far the runs are, until the returned function is called.
func progress(w io.Writer, name string, runs []*sweep.Run, began time.Time) (stop func()) {
	if !keepsLine(w) {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-end:
				fmt.Fprint(w, "\r\x1b[K")
				return
			case <-tick.C:
				fmt.Fprintf(w, "\r\x1b[K%s", progressLine(name, runs, time.Since(began)))
			}
		}
	}()
	return func() { close(end); <-ended }
}

// ownUsage is the time on processors and the most memory that this process has had so far.
func ownUsage() (processors time.Duration, peak int64) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), peakBytes(&u)
}

// peakBytes is the most memory that a process has had, which only macOS tells in bytes.
func peakBytes(u *syscall.Rusage) int64 {
	if runtime.GOOS == "darwin" {
		return u.Maxrss
	}
	return u.Maxrss << 10
}

// keepsLine says that w is a terminal, where a line can be written again.
func keepsLine(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func progressLine(name string, runs []*sweep.Run, took time.Duration) string {
	done := 0
	for _, r := range runs {
		if r.Done() {
			done++
		}
	}
	line := fmt.Sprintf("%s: %d of %d runs, %.1f virtual hours a second", name, done, len(runs), sweep.Virtual(runs).Hours()/took.Seconds())
	if done > 0 {
		left := time.Duration(float64(took) * float64(len(runs)-done) / float64(done))
		line += fmt.Sprintf(", about %v left", left.Round(time.Second))
	}
	return line
}
