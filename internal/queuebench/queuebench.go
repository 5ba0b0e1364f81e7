// Package queuebench measures what the queue costs, as `warmpath bench queue`: to wait in it, and to pass where there is room.
//
//	report, err := queuebench.Queue(ctx, bench.Options{Rounds: 5, Window: time.Second})
package queuebench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/heavy"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/upstream"
)

const (
	waiting, tenants = 10_000, 200
	waitsMost        = 3  // microseconds of a push with a pop, p99
	passesMost       = 15 // microseconds that the gate adds where there is room
	workers          = 8
	inFlight         = 4 // a worker
	promptTokens     = 2000
	model            = "m"
)

// Queue measures both. Rounds and Window are the options' that matter.
func Queue(ctx context.Context, o bench.Options) (bench.Report, error) {
	o = o.WithDefaults()
	var middle, late, direct, entered []float64
	for round := range o.Rounds {
		fmt.Fprintf(o.Progress, "queue: round %d\n", round+1)
		w, err := wait(ctx, uint64(round), o.Window)
		if err != nil {
			return bench.Report{}, err
		}
		p, err := pass(ctx, o.Window)
		if err != nil {
			return bench.Report{}, err
		}
		middle, late = append(middle, w.p50), append(late, w.p99)
		direct, entered = append(direct, p.direct), append(entered, p.entered)
	}
	p99, adds := bench.Median(late), bench.Median(entered)-bench.Median(direct)
	return bench.Report{Part: "queue", Sections: []bench.Section{{
		Name:    "push and pop",
		Method:  fmt.Sprintf("one item pushed and one popped while %d of %d tenants in three classes wait, a twentieth of them heavy; the clock is read before and after each, which is counted in; medians of %d rounds", waiting, tenants, o.Rounds),
		Columns: []string{"waiting", "tenants", "p50 us", "p99 us"},
		Rows:    []bench.Row{{Contestant: "queue", Values: []bench.Value{waiting, tenants, bench.Value(bench.Median(middle)), bench.Value(p99)}}},
		Checks:  []bench.Check{bench.Most(fmt.Sprintf("push and pop at %d waiting, p99", waiting), p99, waitsMost, "us")},
	}, {
		Name: "room",
		Method: fmt.Sprintf("%d workers with %d requests in flight each, prompts of %d tokens of %d tenants in three classes: placed at once, and by way of the queue, which has room for all, in turns; medians of %d rounds of medians",
			workers, inFlight, promptTokens, tenants, o.Rounds),
		Columns: []string{"placed us", "by the queue us", "added us"},
		Rows:    []bench.Row{{Contestant: "gate", Values: []bench.Value{bench.Value(bench.Median(direct)), bench.Value(bench.Median(entered)), bench.Value(adds)}}},
		Checks:  []bench.Check{bench.Most("the gate adds where there is room", adds, passesMost, "us")},
	}}}, nil
}

type waited struct{ p50, p99 float64 } // microseconds

// roomy are the usual options, but that nobody is refused for what waits.
func roomy() flow.Options {
	o := flow.DefaultOptions()
	o.RequestsMax, o.SecondsMax, o.TenantRoom = 1e6, 1e9, 1e9
	for i := range o.Classes {
		o.Classes[i].WaitMax, o.Classes[i].Ceiling, o.Classes[i].ShedFrom = 1000*time.Hour, 1, 1
	}
	return o
}

// wait measures push and pop of a full queue.
func wait(ctx context.Context, seed uint64, window time.Duration) (waited, error) {
	q, err := flow.New(roomy())
	if err != nil {
		return waited{}, err
	}
	now, r := time.Unix(1e9, 0), rand.New(rand.NewPCG(seed, 1))
	all := make([]flow.Item, 2*waiting)
	var out []*flow.Item
	for i := range all {
		all[i] = flow.Item{Line: model, Tenant: fmt.Sprint("tenant ", r.IntN(tenants)), Class: r.IntN(3), Weight: float64(1 + i%3), Heavy: r.IntN(20) == 0,
			Bytes: 1000, Seconds: r.ExpFloat64(), Prefill: r.ExpFloat64() / 4}
		if i >= waiting {
			out = append(out, &all[i])
			continue
		}
		if err := q.Push(now, &all[i], 0); err != nil {
			return waited{}, err
		}
	}
	var took []time.Duration
	for over := time.Now().Add(window); ctx.Err() == nil && time.Now().Before(over); {
		now = now.Add(time.Millisecond)
		at := &out[r.IntN(len(out))]
		began := time.Now()
		if err := q.Push(now, *at, 0); err != nil {
			return waited{}, err
		}
		it := q.Pop(now, func(*flow.Item) flow.Verdict { return flow.Placed })
		took = append(took, time.Since(began))
		q.Settle(it, it.Seconds)
		*at = it
	}
	return waited{p50: quantile(took, 0.5), p99: quantile(took, 0.99)}, ctx.Err()
}

func quantile(took []time.Duration, p float64) float64 { return float64(bench.Quantile(took, p)) / 1e3 }

type passed struct{ direct, entered float64 } // microseconds

// pass measures placing with and without the queue in turns.
func pass(ctx context.Context, window time.Duration) (passed, error) {
	g, err := newGate()
	if err != nil {
		return passed{}, err
	}
	defer g.Close()
	type flight struct {
		attempt gate.Attempt
		request sched.Request
		wait    gate.Wait
	}
	flying := make([]*flight, workers*inFlight)
	var direct, entered []time.Duration
	for n, over := 0, time.Now().Add(window); ctx.Err() == nil && time.Now().Before(over); n++ {
		f := flying[n%len(flying)]
		if f != nil {
			g.Release(&f.attempt, prefix.Chain{}, fleet.Succeeded, true)
		}
		f = &flight{request: sched.Request{Model: model, PromptTokens: promptTokens, Bytes: 4 * promptTokens, MaxTokens: 200, Streamed: true, Generates: true}}
		flying[n%len(flying)] = f
		f.wait.Item = flow.Item{Tenant: fmt.Sprint("tenant ", n%tenants), Class: n % 3, Bytes: 8000}
		began := time.Now()
		if n%2 == 0 {
			err = g.PlaceIn(&f.attempt, &f.request)
			direct = append(direct, time.Since(began))
		} else {
			err = g.Enter(ctx, &f.attempt, &f.request, &f.wait)
			entered = append(entered, time.Since(began))
		}
		if err != nil {
			return passed{}, err
		}
		g.FirstToken(&f.attempt, time.Now())
	}
	return passed{quantile(direct, 0.5), quantile(entered, 0.5)}, ctx.Err()
}

// newGate is the rooms that decide, put together as the router does.
func newGate() (*gate.Gate, error) {
	f, x, b := fleet.New(fleet.DefaultOptions()), prefix.New(prefix.Options{}), cost.NewBook(cost.DefaultOptions())
	o, r := cost.NewOutputs(0), cost.NewRatio()
	g := gate.New(f, x, b, o, r, sched.New(f, x, b, o, r, sched.Options{Seed: 1, EnterMax: gate.EnterAtOnce}), upstream.DefaultOptions(), time.Now)
	for i := range workers {
		id := fmt.Sprintf("worker-%d", i)
		w, err := g.Add(gate.Worker{ID: id, URL: "http://" + id + ":8000"})
		if err != nil {
			return nil, err
		}
		g.Describe(id, w.Incarnation, fleet.Info{Engine: "vllm", Models: []fleet.Model{{ID: model, ContextMax: 100_000}}, BlockTokens: 16, KVTokensMax: 400_000, At: time.Now()})
	}
	return g, g.UseQueue(gate.QueueOptions{Options: roomy(), Heavy: heavy.DefaultRule()})
}
