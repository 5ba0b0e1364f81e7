package sched

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/engine"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/prefix"
)

// arrival is one request of a simulated workload.
type arrival struct {
	at             time.Duration
	chain          prefix.Chain
	session        uint64
	tokens, output int
}

// outcome is what a workload met under one policy.
type outcome struct {
	ttft, tpot      float64 // mean seconds
	prefilled, hits int     // tokens computed, hits declined
	share           float64 // of the busiest worker
}

// rig runs simulated engines in virtual time behind a scheduler that learns as a router does, from what it can see. It takes them for
// three times as slow at first.
type rig struct {
	*scene
	cores   []*engine.Core
	ends    []time.Duration // of each core's step, 0 idle
	outputs *cost.Outputs
	zero    time.Time
	res     map[*engine.Sequence]*fleet.Reservation
	placed  map[string]int
	out     outcome
	ttft    []float64
	tpot    []float64
}

func newRig(t *testing.T, workers int, policy string) *rig {
	r := &rig{scene: newScene(t, policy, 7), outputs: cost.NewOutputs(0), res: map[*engine.Sequence]*fleet.Reservation{}, placed: map[string]int{}}
	r.s = New(r.f, r.x, cost.NewBook(cost.Options{Prior: cost.Profiles["h100-8b"].Scaled(3)}), r.outputs, nil, Options{Policy: policy, Seed: 7})
	r.zero = r.now
	profile := cost.Profiles["h100-8b"]
	for i := range workers {
		w := r.worker(string(rune('a' + i)))
		w.SetInfo(fleet.Info{Engine: "sim", Models: []fleet.Model{{ID: "m"}}, BlockTokens: 16, KVTokensMax: profile.KVTokensMax, SlotsMax: profile.BatchMax})
		r.x.SetCapacity(w.Slot, int64(4*profile.KVTokensMax))
		r.cores = append(r.cores, engine.NewCore(profile))
	}
	r.ends = make([]time.Duration, workers)
	return r
}

func (r *rig) run(load []arrival) outcome {
	for len(load) > 0 || len(r.res) > 0 {
		next, who := time.Duration(math.MaxInt64), -1
		if len(load) > 0 {
			next = load[0].at
		}
		for i, end := range r.ends {
			if end > 0 && end <= next {
				next, who = end, i
			}
		}
		r.now = r.zero.Add(next)
		if who < 0 {
			r.arrive(load[0], next)
			load = load[1:]
			continue
		}
		r.step(who, next)
	}
	r.out.ttft, r.out.tpot = mean(r.ttft), mean(r.tpot)
	busiest, all := 0, 0
	for i, c := range r.cores {
		r.out.prefilled += int(c.Counts().PrefilledTokens)
		n := r.placed[r.f.Workers()[i].ID]
		busiest, all = max(busiest, n), all+n
	}
	r.out.share = float64(busiest) / float64(all)
	for _, w := range r.f.Workers() {
		if l := w.Load(r.now); l.InFlight != 0 || l.ContextTokens != 0 || l.QueuedSeconds != 0 {
			r.t.Errorf("worker %s ends with %+v", w.ID, l)
		}
	}
	return r.out
}

func (r *rig) arrive(a arrival, now time.Duration) {
	d, res, err := r.s.Place(r.now, Request{
		Model: "m", Chain: a.chain, Bytes: 4 * a.tokens, PromptTokens: a.tokens, SessionKey: a.session, Streamed: true, Generates: true,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if d.Hit == Declined {
		r.out.hits++
	}
	r.placed[d.Worker.ID]++
	q := &engine.Sequence{PromptTokens: a.tokens, OutputTokens: a.output, Owner: res}
	q.Keys = append(q.Keys, a.chain.Keys...)
	i := slices.Index(r.f.Workers(), d.Worker)
	if err := r.cores[i].Submit(q, now); err != nil {
		r.t.Fatal(err)
	}
	r.res[q] = res
	if r.ends[i] == 0 {
		r.begin(i, now)
	}
}

// begin starts a step, and learns from it as from the gap between tokens when no prefill is in it.
func (r *rig) begin(i int, now time.Duration) {
	w, c := r.f.Workers()[i], r.cores[i]
	alone := w.Load(r.now).Prefilling == 0
	batch, context := float64(c.Running()), float64(c.ContextTokens())
	end, busy := c.Begin(now)
	r.ends[i] = 0
	if busy {
		r.ends[i] = end
		if alone && batch > 0 {
			r.s.book.Of(w).LearnStep(batch, context, (end - now).Seconds())
		}
	}
}

func (r *rig) step(i int, now time.Duration) {
	for _, e := range r.cores[i].End() {
		q := e.Sequence
		res := r.res[q]
		if e.First {
			prompt, cached := res.Need()
			if clean, took := res.FirstToken(r.now); clean {
				r.s.book.Of(res.Worker()).LearnPrefill(prompt-cached, cached, took.Seconds())
			}
			r.ttft = append(r.ttft, (now - q.Arrived).Seconds())
		} else {
			res.Generated(1)
		}
		if e.Finished {
			r.tpot = append(r.tpot, (now-q.FirstToken).Seconds()/float64(max(1, q.OutputTokens-1)))
			r.outputs.Learn("m", "", q.OutputTokens)
			res.Release(r.now, fleet.Succeeded)
			delete(r.res, q)
		}
	}
	r.begin(i, now)
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// hotPrefix is a Poisson stream of questions about one document: a prefix of that many tokens, a tail and an answer of their own.
func hotPrefix(seed uint64, n int, perSecond float64, shared int) (load []arrival) {
	chance := rand.New(rand.NewPCG(seed, 2))
	at := 0.0
	for i := range n {
		at += chance.ExpFloat64() / perSecond
		tokens := shared + 64 + chance.IntN(200)
		c := chainOf(1, tokens)
		for k := shared / 16; k < len(c.Keys); k++ {
			c.Keys[k] = prefix.Key(uint64(i+2)<<32 | uint64(k+1))
		}
		load = append(load, arrival{time.Duration(at * 1e9), c, uint64(i + 1), tokens, 32 + chance.IntN(200)})
	}
	return load
}

// chats is a Poisson stream of conversations over a few system prompts, their turns some seconds apart.
func chats(seed uint64, n int, perSecond float64) (load []arrival) {
	chance := rand.New(rand.NewPCG(seed, 3))
	at := 0.0
	for i := range n {
		at += chance.ExpFloat64() / perSecond
		system, tokens, when := 1+chance.Uint64N(4), 1200, at
		for range 1 + chance.IntN(8) {
			tokens += 50 + chance.IntN(400)
			output := 30 + chance.IntN(300)
			c := chainOf(uint64(i+100), tokens)
			copy(c.Keys, chainOf(system, 1200).Keys)
			load = append(load, arrival{time.Duration(when * 1e9), c, uint64(i + 1), tokens, output})
			tokens += output
			when += 4 + 6*chance.Float64()
		}
	}
	slices.SortStableFunc(load, func(a, b arrival) int { return int(a.at - b.at) })
	return load
}

// compare runs a workload under our policy and under those that make much of affinity, of load and of neither. It returns ours and the
// best of the others.
func compare(t *testing.T, name string, workers int, load []arrival) (ours, best outcome) {
	t.Helper()
	best = outcome{ttft: math.Inf(1), tpot: math.Inf(1), prefilled: math.MaxInt}
	for _, policy := range []string{DefaultPolicy, "session-hash", "least-tokens", "round-robin"} {
		o := newRig(t, workers, policy).run(load)
		t.Logf("%-20s %-14s TTFT %7.4f s  TPOT %7.5f s  prefilled %8d  declined %4d  busiest %.2f", name, policy, o.ttft, o.tpot, o.prefilled, o.hits, o.share)
		if policy == DefaultPolicy {
			ours = o
			continue
		}
		best.ttft, best.tpot, best.prefilled = min(best.ttft, o.ttft), min(best.tpot, o.tpot), min(best.prefilled, o.prefilled)
	}
	return ours, best
}
