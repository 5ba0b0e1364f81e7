// Package openbench holds many streams open through the router at one time, with a steady flow of new ones beside them, and checks every
// byte of each: `warmpath bench open-streams`.
//
//	report, err := openbench.Run(ctx, bench.Options{Self: "/usr/bin/warmpath"}, openbench.DefaultOptions())
//
// The router is the whole product in a process of its own, with its memory limited by memory_max; cheap workers are another process, and
// the clients a third: this one.
package openbench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/child"
)

// Options of a run.
type Options struct {
	Streams   int // open at one time
	NewPerSec int // short streams that come and go beside them
	Hold      time.Duration
	MemoryMax int64 // bytes that the router may have
	Workers   int
}

// DefaultOptions are ten thousand streams in a gigabyte.
func DefaultOptions() Options {
	return Options{Streams: 10_000, NewPerSec: 100, Hold: 30 * time.Second, MemoryMax: 1 << 30, Workers: 8}
}

const (
	pace         = time.Second // between a stream's events
	rampPerSec   = 1000        // streams opened
	shortEvents  = 5
	shortPace    = 20 * time.Millisecond
	lateMost     = 250.0 // ms at p99
	spare        = 400   // descriptors for everything that is no stream of the run
	startTimeout = 30 * time.Second
	showMost     = 5 // errors of each kind
)

// WorkerCommand is the argument that makes the binary play the workers; their number and a file for their addresses follow.
const WorkerCommand = "bench-open-workers"

// Work plays the workers until ctx ends.
func Work(ctx context.Context, n int, file string) error {
	w, err := startWorker(n)
	if err != nil {
		return err
	}
	defer w.close()
	if err := os.WriteFile(file, []byte(strings.Join(w.urls(), " ")+"\n"), 0o600); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// Possible says why the limit of open files leaves no room for so many streams: the router holds two connections for each.
func (o Options) Possible() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil
	}
	most := (int(min(limit.Max, 1<<30)) - spare) / 2
	if o.Streams <= most {
		return nil
	}
	return fmt.Errorf("--open %d: the limit of open files, %d, leaves room for %d streams, two connections each in the router; raise it (ulimit -Hn %d) or ask for fewer",
		o.Streams, limit.Max, most, 2*o.Streams+spare)
}

// scene is what runs.
type scene struct {
	o       Options
	dir     string
	workers *child.Process
	router  *child.Process
	crowd   crowd
}

// Run measures.
func Run(ctx context.Context, b bench.Options, o Options) (bench.Report, error) {
	report := bench.Report{Part: "open-streams"}
	b = b.WithDefaults()
	if err := o.Possible(); err != nil {
		return report, err
	}
	s := &scene{o: o}
	defer s.stop()
	if err := s.start(ctx, b.Self); err != nil {
		return report, err
	}
	before := s.router.Memory()
	ctx, cancel := context.WithCancel(ctx)
	defer s.crowd.running.Wait()
	defer cancel()
	ramp := time.Duration(o.Streams) * time.Second / rampPerSec
	events := int((ramp+o.Hold)/pace) + 3
	fmt.Fprintf(b.Progress, "open streams: opening %d, %d a second\n", o.Streams, rampPerSec)
	s.each(ctx, ramp, o.Streams, plan{number: 1, events: events, pace: pace})
	s.crowd.takeLate()
	fmt.Fprintf(b.Progress, "open streams: %d are open; for %v %d new ones a second come beside them\n", s.crowd.now(), o.Hold, o.NewPerSec)
	cpu, began := s.router.CPU(), time.Now()
	s.each(ctx, o.Hold, int(o.Hold.Seconds()*float64(o.NewPerSec)), plan{number: o.Streams + 1, events: shortEvents, pace: shortPace})
	cores := (s.router.CPU() - cpu).Seconds() / time.Since(began).Seconds()
	late, full := s.crowd.takeLate(), s.router.Memory()
	fmt.Fprintf(b.Progress, "open streams: waiting for their ends\n")
	s.crowd.running.Wait()
	if err := ctx.Err(); err != nil {
		return report, err
	}
	report.Sections = []bench.Section{s.section(cores, late, before, full)}
	s.tell(b.Progress)
	return report, nil
}

func (s *scene) start(ctx context.Context, self string) (err error) {
	if s.dir, err = os.MkdirTemp("", "warmpath-open-*"); err != nil {
		return err
	}
	file := filepath.Join(s.dir, "workers")
	if s.workers, err = child.Start("workers", "", []string{self, WorkerCommand, strconv.Itoa(s.o.Workers), file}); err != nil {
		return err
	}
	var urls []string
	err = until(ctx, s.workers, func() bool {
		text, err := os.ReadFile(file)
		urls = strings.Fields(string(text))
		return err == nil && strings.HasSuffix(string(text), "\n")
	})
	if err != nil {
		return err
	}
	addr, admin, err := child.FreeAddrs()
	if err != nil {
		return err
	}
	settings := filepath.Join(s.dir, "warmpath.yaml")
	if err := os.WriteFile(settings, fmt.Appendf(nil, "memory_max: \"%d\"\nworkers: [%s]\n", s.o.MemoryMax, strings.Join(urls, ", ")), 0o600); err != nil {
		return err
	}
	s.router, err = child.Start("warmpath", addr, []string{self, "serve", "--config", settings, "--listen", addr, "--admin", admin, "--state-dir", s.dir, "--log-level", "warn"})
	if err != nil {
		return err
	}
	first := crowd{addr: addr}
	s.crowd.addr = addr
	return until(ctx, s.router, func() bool { return first.read(ctx, plan{events: 1}) == nil })
}

// until waits for a process to be ready.
func until(ctx context.Context, p *child.Process, ready func() bool) error {
	for limit := time.Now().Add(startTimeout); !ready(); {
		select {
		case <-p.Ended():
			return fmt.Errorf("%s ended at its start: %s", p.Name, p.LastWords())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%s is not ready within %v", p.Name, startTimeout)
		}
	}
	return nil
}

// each starts n streams like p, numbered from its number on, spread evenly over a time.
func (s *scene) each(ctx context.Context, over time.Duration, n int, p plan) {
	began := time.Now()
	for i := range n {
		time.Sleep(time.Until(began.Add(over * time.Duration(i) / time.Duration(n))))
		if ctx.Err() != nil {
			return
		}
		one := p
		one.number += i
		s.crowd.running.Go(func() { s.crowd.watch(ctx, one) })
	}
	time.Sleep(time.Until(began.Add(over)))
}

func (s *scene) stop() {
	s.router.Stop()
	s.workers.Stop()
	os.RemoveAll(s.dir)
}

func (c *crowd) now() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

func (s *scene) section(cores float64, late []time.Duration, before, full int) bench.Section {
	c, o := &s.crowd, s.o
	millis := func(q float64) float64 { return float64(bench.Quantile(late, q)) / float64(time.Millisecond) }
	peak := float64(s.router.PeakMemory()) / (1 << 20)
	p99 := millis(0.99)
	limit := float64(o.MemoryMax) / (1 << 20)
	return bench.Section{Name: "open streams",
		Method: fmt.Sprintf("%d streams open at one time, an event each every %v, and %d new ones of %d events a second beside them for %v; %d workers; memory_max %.0f MiB; each byte is checked by the client; lateness is from the worker's write to the client's read",
			o.Streams, pace, o.NewPerSec, shortEvents, o.Hold, o.Workers, limit),
		Columns: []string{"open", "whole", "late p50 ms", "late p99 ms", "CPU cores", "MiB", "peak MiB", "KB a stream"},
		Rows: []bench.Row{{Contestant: "warmpath", Values: []bench.Value{bench.Value(c.most), bench.Value(c.whole), bench.Value(millis(0.5)), bench.Value(p99), bench.Value(cores),
			bench.Value(float64(full) / (1 << 20)), bench.Value(peak), bench.Value(float64(full-before) / 1024 / float64(cmp.Or(o.Streams, 1)))}}},
		Checks: []bench.Check{
			{Name: "streams open at one time", Value: bench.Value(c.most), Limit: bench.Value(o.Streams), Least: true, Pass: c.most >= o.Streams},
			bench.Most("streams refused", float64(len(c.refused)), 0, ""), bench.Most("streams lost, or not to the byte", float64(len(c.lost)), 0, ""),
			bench.Most("memory at its peak", peak, limit, "MiB"), bench.Most("lateness at p99", p99, lateMost, "ms")}}
}

// tell shows some of what went wrong.
func (s *scene) tell(w io.Writer) {
	for _, all := range [][]error{s.crowd.refused, s.crowd.lost} {
		for _, err := range all[:min(len(all), showMost)] {
			fmt.Fprintln(w, "open streams:", err)
		}
	}
}
