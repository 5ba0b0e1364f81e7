package bench

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/prompt"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/upstream"
)

// decision is one line of the table: a body's size, a fleet's, and the most that deciding may take.
type decision struct {
	bytes, workers int
	most           time.Duration
}

var decisions = []decision{
	{431_000, 8, 450 * time.Microsecond},
	{207_000, 8, 250 * time.Microsecond},
	{35_000, 8, 80 * time.Microsecond},
	{1_200, 8, 30 * time.Microsecond},
	{1_200, 500, 120 * time.Microsecond},
}

const (
	decideWarmup   = 400 // decisions before the first that is timed: caches are full by then and have to evict
	decideInFlight = 4   // requests in flight a worker, while another is placed
	engineTokens   = 400_000
)

// Decide measures the time from a body in memory to a reservation on a worker, in this process, with the rooms that serve requests.
func Decide(ctx context.Context, o Options) (Report, error) {
	o = o.WithDefaults()
	s := Section{Name: "decide",
		Method: fmt.Sprintf("from a body in memory to a worker reserved: scan, block keys, match, score, reserve, enter the first %d blocks (the rest once the request has left); in process, %d requests in flight a worker, caches full; bodies all distinct, one third share a prefix; median of %d rounds of medians",
			gate.EnterAtOnce, decideInFlight, o.Rounds),
		Columns: []string{"body KB", "workers", "p50 us", "p99 us", "of it scan us", "keys us", "place us", "entered after us", "least share"}}
	seen := make([][]decided, len(decisions))
	for range o.Rounds {
		for i, d := range decisions {
			fmt.Fprintf(o.Progress, "decide: %d bytes, %d workers\n", d.bytes, d.workers)
			got, err := d.run(ctx, o.Window)
			if err != nil {
				return Report{}, err
			}
			seen[i] = append(seen[i], got)
		}
	}
	for i, d := range decisions {
		of := func(pick func(decided) float64) float64 {
			var v []float64
			for _, r := range seen[i] {
				v = append(v, pick(r))
			}
			return Median(v)
		}
		p50, share := of(func(r decided) float64 { return r.p50 }), of(func(r decided) float64 { return r.share })
		s.Rows = append(s.Rows, Row{nameOurs, []Value{Value(float64(d.bytes) / 1000), Value(d.workers), Value(p50), Value(of(func(r decided) float64 { return r.p99 })),
			Value(of(func(r decided) float64 { return r.scan })), Value(of(func(r decided) float64 { return r.keys })), Value(of(func(r decided) float64 { return r.place })), Value(of(func(r decided) float64 { return r.after })), Value(share)}})
		s.Checks = append(s.Checks, Most(fmt.Sprintf("%v KB, %d workers", float64(d.bytes)/1000, d.workers), p50, microseconds(d.most), "us"))
	}
	return Report{Part: "decide", Sections: []Section{s}}, nil
}

// decided is what one round showed, in microseconds; share is that of the worker that got fewest, times the number of workers.
type decided struct{ p50, p99, scan, keys, place, after, share float64 }

// turnstile is the rooms that decide, put together as the router does, and the requests in flight.
type turnstile struct {
	gate   *gate.Gate
	keyer  *prompt.Keyer
	req    llmapi.Request
	flying []flight
	next   int
	placed map[string]int
}

type flight struct {
	attempt *gate.Attempt
	chain   prefix.Chain
}

func newTurnstile(workers int) (*turnstile, error) {
	f, x, b := fleet.New(fleet.DefaultOptions()), prefix.New(prefix.Options{}), cost.NewBook(cost.DefaultOptions())
	o, r := cost.NewOutputs(0), cost.NewRatio()
	t := &turnstile{placed: map[string]int{}, flying: make([]flight, workers*decideInFlight)}
	t.gate = gate.New(f, x, b, o, r, sched.New(f, x, b, o, r, sched.Options{Seed: 1, EnterMax: gate.EnterAtOnce}), upstream.DefaultOptions(), time.Now)
	t.keyer = prompt.New(prefix.NewSeed([]byte("bench")), prompt.DefaultOptions())
	for i := range workers {
		id := fmt.Sprintf("worker-%d", i)
		w, err := t.gate.Add(gate.Worker{ID: id, URL: "http://" + id + ":8000"})
		if err != nil {
			return nil, err
		}
		t.gate.Describe(id, w.Incarnation, fleet.Info{Engine: "vllm", Models: []fleet.Model{{ID: modelName, ContextMax: 1_000_000}},
			BlockTokens: 16, KVTokensMax: engineTokens, UsageOption: true, At: time.Now()})
	}
	return t, nil
}

// decide places one request and ends the oldest in flight.
func (t *turnstile) decide(body []byte) (scan, keys, place, after time.Duration, err error) {
	f := &t.flying[t.next%len(t.flying)]
	t.next++
	t.end(f)
	start := time.Now()
	if err := t.req.Scan(llmapi.Chat, body); err != nil {
		return 0, 0, 0, 0, err
	}
	scanned := time.Now()
	f.chain = t.keyer.Chain(&t.req, body, f.chain)
	keyed := time.Now()
	want := sched.Request{Model: t.req.Model, Chain: f.chain, Bytes: t.req.TextBytes, MaxTokens: t.req.MaxTokens, Streamed: true, Generates: true}
	want.PromptTokens = t.gate.Estimate(t.req.Model, t.req.TextBytes)
	f.attempt, err = t.gate.Place(want)
	done := time.Now()
	if err != nil {
		return 0, 0, 0, 0, err
	}
	t.gate.EnterRest(f.attempt, f.chain)
	entered := time.Now()
	t.placed[f.attempt.Worker.ID]++
	t.gate.FirstToken(f.attempt, entered)
	return scanned.Sub(start), keyed.Sub(scanned), done.Sub(keyed), entered.Sub(done), nil
}

func (t *turnstile) end(f *flight) {
	if f.attempt == nil {
		return
	}
	t.gate.Release(f.attempt, f.chain, fleet.Succeeded, true)
	tokens := f.chain.Bytes() / 4
	t.gate.Learn(f.attempt, gate.Lesson{Model: modelName, Chain: f.chain, Streamed: true, Whole: true, PromptTokens: tokens, Counted: true,
		TextBytes: f.chain.Bytes(), CachedTokens: f.attempt.Decision.MatchedTokens, Reported: true, Generated: 64, Ended: time.Now()})
	f.attempt = nil
}

func (d decision) run(ctx context.Context, window time.Duration) (decided, error) {
	t, err := newTurnstile(d.workers)
	if err != nil {
		return decided{}, err
	}
	requests := newBodies(uint64(d.bytes), d.bytes, true)
	var total, scan, keys, place, after []time.Duration
	var buf []byte
	over := time.Now().Add(window)
	for i := uint64(0); ctx.Err() == nil && (i < 2*decideWarmup || time.Now().Before(over)); i++ {
		var from int
		buf, from = requests.next(buf, i)
		s, k, p, a, err := t.decide(buf[from:])
		if err != nil {
			return decided{}, err
		}
		if i >= decideWarmup {
			total, scan, keys, place = append(total, s+k+p), append(scan, s), append(keys, k), append(place, p)
			after = append(after, a)
		}
	}
	fewest, all := math.MaxInt, 0
	for _, n := range t.placed {
		fewest, all = min(fewest, n), all+n
	}
	if len(t.placed) < d.workers {
		fewest = 0
	}
	at := func(v []time.Duration, q float64) float64 { return microseconds(Quantile(v, q)) }
	return decided{p50: at(total, 0.5), p99: at(total, 0.99), scan: at(scan, 0.5), keys: at(keys, 0.5), place: at(place, 0.5), after: at(after, 0.5),
		share: float64(fewest) * float64(d.workers) / float64(all)}, ctx.Err()
}
