// Package sweep runs a replay at many points, under many policies and with several seeds, on all cores, and compares.
//
//	s := sweep.Sweep{Base: config, Policies: []string{"warm-cost", "round-robin"}, Rates: []float64{1, 1.5}, Seeds: 3}
//	runs := s.Runs()
//	err := sweep.Do(ctx, runs, 0, func(r *sweep.Run) { ... }) // in the order of runs, as soon as those before are done
//	for _, row := range sweep.Compare(runs) { ... }
package sweep

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/bounds"
	"github.com/warmpath/warmpath/internal/lineup"
	"github.com/warmpath/warmpath/internal/sim"
)

// Sweep is what to run: every combination of its lists. An empty list is Base's own value.
type Sweep struct {
	Base       sim.Config
	Policies   []string
	Workers    []int // sizes of the fleet, scaled in its proportions
	Rates      []float64
	AtOnce     []int
	ViewDelays []time.Duration
	Replicas   []int
	Models     []string // that all requests ask for, where Base has models
	Seeds      int      // 1, 2, ... so many
}

// Point is one combination but for policy and seed: what is compared at it.
type Point struct {
	Fleet     []lineup.Worker
	Rate      float64
	AtOnce    int
	ViewDelay time.Duration
	Replicas  int
	Model     string // that all requests ask for; "" where all workers serve the same one
}

// String names the point in one line.
func (p Point) String() string {
	parts := []string{lineup.Name(p.Fleet), fmt.Sprintf("rate %g", p.Rate)}
	if p.AtOnce > 0 {
		parts[1] = fmt.Sprintf("%d sessions at once", p.AtOnce)
	}
	if p.ViewDelay > 0 {
		parts = append(parts, fmt.Sprintf("seen %v late", p.ViewDelay))
	}
	if p.Replicas > 1 {
		parts = append(parts, fmt.Sprintf("%d routers", p.Replicas))
	}
	if p.Model != "" {
		parts = append(parts, "model "+p.Model)
	}
	return strings.Join(parts, ", ")
}

// Run is one replay and, once it is done, what came of it.
type Run struct {
	Point  int // index of the point, in the order of the sweep
	At     Point
	Config sim.Config
	Result *sim.Result // nil until it is done
	Took   time.Duration

	bounds *shared // of all runs of the point and seed; nil: nobody asks for them
	now    atomic.Int64
	done   atomic.Bool
}

// shared is worked out by whoever comes first.
type shared struct {
	once   sync.Once
	bounds bounds.Bounds
	err    error
}

func (s *shared) find(ctx context.Context, c sim.Config) {
	s.once.Do(func() { s.bounds, s.err = sim.FindBounds(ctx, c) })
}

func or[T any](list []T, one T) []T {
	if len(list) == 0 {
		return []T{one}
	}
	return list
}

// Runs lists them: by point, then by seed, then by policy.
func (s Sweep) Runs() (runs []*Run) {
	b := s.Base
	point := 0
	bounds := map[string]*shared{}
	for _, n := range or(s.Workers, len(b.Fleet)) {
		for _, atOnce := range or(s.AtOnce, b.AtOnce) {
			for _, rate := range or(s.Rates, b.Rate) {
				for _, delay := range or(s.ViewDelays, b.ViewDelay) {
					for _, replicas := range or(s.Replicas, max(1, b.Replicas)) {
						for _, model := range or(s.Models, asked(b)) {
							p := Point{Fleet: b.Fleet, Rate: rate, AtOnce: atOnce, ViewDelay: delay, Replicas: replicas, Model: model}
							if n != len(b.Fleet) {
								p.Fleet = lineup.Scale(b.Fleet, n)
							}
							runs = append(runs, s.at(p, point, bounds)...)
							point++
						}
					}
				}
			}
		}
	}
	return runs
}

// asked is the model that requests of a run ask for.
func asked(c sim.Config) string {
	if c.Models == nil {
		return ""
	}
	return c.Models.Ask
}

// at lists the runs of a point. Runs with the same arrivals share their bounds; sessions from a file come when they can, so there the rate
// says nothing.
func (s Sweep) at(p Point, number int, bounds map[string]*shared) (runs []*Run) {
	c := s.Base
	c.Fleet, c.Rate, c.AtOnce, c.ViewDelay, c.Replicas = p.Fleet, p.Rate, p.AtOnce, p.ViewDelay, p.Replicas
	if c.Models != nil {
		c.Models = &sim.Models{Options: c.Models.Options, Ask: p.Model}
	}
	for seed := range max(1, s.Seeds) {
		same := fmt.Sprint(number, seed)
		if s.Base.Trace.Sessions && !s.Base.Trace.Synthetic() {
			same = fmt.Sprint(lineup.Name(p.Fleet), p.AtOnce, seed)
		}
		if bounds[same] == nil {
			bounds[same] = new(shared)
		}
		for _, policy := range or(s.Policies, c.Policy) {
			c.Seed, c.Policy = uint64(seed+1), policy
			r := NewRun(number, c)
			r.At, r.bounds = p, bounds[same]
			runs = append(runs, r)
		}
	}
	return runs
}

// NewRun is a replay beside any sweep, without bounds.
func NewRun(point int, c sim.Config) *Run {
	r := &Run{Point: point, At: Point{Fleet: c.Fleet, Rate: c.Rate, AtOnce: c.AtOnce, ViewDelay: c.ViewDelay, Replicas: c.Replicas, Model: asked(c)}, Config: c}
	r.Config.Progress = func(now time.Duration) { r.now.Store(int64(now)) }
	return r
}

// Done says that the run is, and that its result can be read.
func (r *Run) Done() bool { return r.done.Load() }

// Virtual is the time that all runs have simulated so far.
func Virtual(runs []*Run) (sum time.Duration) {
	for _, r := range runs {
		sum += time.Duration(r.now.Load())
	}
	return sum
}

// Do makes the runs, parallel at a time (0: as many as there are processors), and calls done for each in the order of runs. The first
// error ends it; runs that the context cut short are not done.
func Do(ctx context.Context, runs []*Run, parallel int, done func(*Run)) error {
	if parallel <= 0 {
		parallel = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	finished := make([]chan struct{}, len(runs))
	for i := range finished {
		finished[i] = make(chan struct{})
	}
	var workers sync.WaitGroup
	for range min(parallel, len(runs)) {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(runs) {
					return
				}
				if err := runs[i].do(ctx); err != nil {
					cancel(err)
				}
				close(finished[i])
			}
		})
	}
	for i, r := range runs {
		<-finished[i]
		if r.Result != nil {
			done(r)
		}
	}
	workers.Wait()
	return context.Cause(ctx)
}

func (r *Run) do(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	var bounds bounds.Bounds
	if r.bounds != nil {
		if r.bounds.find(ctx, r.Config); r.bounds.err != nil {
			return r.bounds.err
		}
		bounds = r.bounds.bounds
	}
	began := time.Now()
	result, err := sim.Run(ctx, r.Config)
	if err != nil {
		return err
	}
	result.Bounds = bounds
	r.Result, r.Took = result, time.Since(began)
	r.done.Store(true)
	return nil
}
