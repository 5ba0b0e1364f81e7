// Package crowd holds the queue to its promises by replays in virtual time: heavy jobs among chats, tenants of unlike appetite, overload,
// batch work that gives way, pools.
// Scenes are seeded, so that the same queue gives the same figures.
//
//	err := crowd.Show(ctx, usual, seed, func(v crowd.Verdict) { fmt.Println(v.Pass, v.Case, v.Figures) })
package crowd

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/heavy"
	"github.com/warmpath/warmpath/internal/lineup"
	"github.com/warmpath/warmpath/internal/pools"
	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/traces"
)

// Verdict is one promise with what it was judged by.
type Verdict struct {
	Pass    bool
	Case    string
	Figures string
	Detail  []string // what else was tried, a line each
}

// show is one show under way.
type show struct {
	ctx   context.Context
	usual sim.Queue
	seed  uint64
	that  func(Verdict)
}

// Show plays all scenes under a queue, and variants of it to compare with, and tells each verdict as soon as it is there.
func Show(ctx context.Context, usual sim.Queue, seed uint64, that func(Verdict)) error {
	s := &show{ctx: ctx, usual: usual, seed: seed, that: that}
	for _, part := range []func() error{s.heavy, s.fair, s.overload, s.preempt, s.pools} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// scene is traffic of several tenants before a fleet.
type scene struct {
	fleet string
	parts []traces.Part
	queue *sim.Queue    // nil: engines queue
	pools *pools.Set    // nil: all workers for all
	spans time.Duration // of arrivals
	from  time.Duration // times to the first token are judged of those that came later
}

// play replays a scene.
func (s *show) play(x scene) (*sim.Result, error) {
	c := sim.Config{Queue: x.queue, Pools: x.pools, Seed: s.seed, Jitter: -1, ByTenant: true, From: x.from}
	var err error
	if c.Fleet, err = lineup.Parse(x.fleet, nil); err != nil {
		return nil, err
	}
	if c.Trace, err = traces.Mix(x.parts); err != nil {
		return nil, err
	}
	c.Trace.Select(traces.Selection{Length: x.spans})
	return sim.Run(s.ctx, c)
}

// asks is a tenant's traffic, as replay writes it.
func asks(tenant, traffic string) traces.Part {
	t, err := traces.Open(traffic, traces.Options{})
	if err != nil {
		panic(err) // they are this room's own
	}
	return traces.Part{Tenant: tenant, Trace: t}
}

// oneShots are prompts of 1,500 to 2,500 tokens without reuse, so many a second.
func oneShots(tenant string, rate float64) traces.Part {
	return asks(tenant, fmt.Sprintf("bursts:requests=1000000,burst=1,prompt=2000,output=250,rate=%g", rate))
}

// carries is how many of them a second h100-8b:8 carries: at 100 their p99 TTFT is 0.10 s, at 120 it grows without end.
const carries = 110

// plain is the queue as first come, first served, that knows nobody: room on the workers is all that it goes by.
func (s *show) plain() *sim.Queue {
	q := s.usual
	q.Classes = slices.Clone(q.Classes)
	for i := range q.Classes {
		q.Classes[i].Order = flow.FirstCome
	}
	q.Heavy, q.Alike = heavy.Rule{Seconds: 1e6}, true
	return &q
}

// figures are a tenant's in one line.
func figures(t *sim.Tenant) string {
	return fmt.Sprintf("p99 TTFT %.3f s, p99 gap %.1f ms, p50 TTFT %.3f s, mean end to end %.2f s", t.TTFT.Quantile(0.99), 1e3*t.ITL.Quantile(0.99), t.TTFT.Quantile(0.5), t.E2E.Mean())
}

// lossless says that each request was answered once, or refused once.
func lossless(all ...*sim.Tenant) bool {
	for _, t := range all {
		if t.Came != t.Finished+len(t.Refused) {
			return false
		}
	}
	return true
}
