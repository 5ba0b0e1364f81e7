// Package reenact holds ghosts to replays: traffic is replayed under the default policy and told to ghosts as the router tells them of what it
// served, and then replayed under the policies that the ghosts go by. What the ghosts say these would have had cached is compared with what
// simulated engines found. Requests come in the replays when they came the first time: sessions would ask later where answers come later, and
// that is other traffic.
//
//	err := reenact.Show(ctx, reenact.Options{Seed: 1}, func(v reenact.Verdict) { fmt.Println(v.Pass, v.Case, v.Figures) })
package reenact

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/ghost"
	"github.com/warmpath/warmpath/internal/lineup"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/traces"
)

// offMax is by how much a ghost's hit rate may differ from its replay's.
const offMax = 0.03

// Options of Show.
type Options struct {
	Seed  uint64
	Brief bool // one short scene
}

// Verdict is one scene at one size of the sample, with what it was judged by.
type Verdict struct {
	Pass    bool
	Case    string
	Figures string
	Values  map[string]any
}

// scene is traffic before a fleet.
type scene struct {
	name, traffic, fleet string
	atOnce               int
}

// scenes differ in what is shared and in how tight caches are.
func (o Options) scenes() []scene {
	if o.Brief {
		return []scene{{name: "long documents", traffic: "documents:documents=300,questions=6,document=4000,question=100,output=100,rate=15", fleet: "h100-8b:3"}}
	}
	return []scene{
		{name: "conversations", traffic: "chats:chats=1500,turns=6,system=1200,question=250,output=300,think=8,rate=4", fleet: "h100-8b:8"},
		{name: "long conversations in tight caches", traffic: "chats:chats=2000,turns=6,system=3000,question=2500,output=400,think=40,rate=3", fleet: "h100-8b:8"},
		{name: "coding agents", traffic: "agents:sessions=120", fleet: "h100-8b:8", atOnce: 16},
		{name: "shared system prompts", traffic: "groups:groups=150,prompts=40,system=6000,question=1200,output=300,rate=12", fleet: "h100-8b:8"},
		{name: "long documents", traffic: "documents:documents=500,questions=8,document=20000,question=100,output=200,rate=4", fleet: "h100-8b:8"},
		{name: "workers of unlike caches", traffic: "groups:groups=200,prompts=30,system=8000,question=400,output=200,rate=8", fleet: "h100-32b-tp2:3,h100-8b:3"},
	}
}

// samples are the shares of blocks at which ghosts are held to replays.
var samples = []float64{1, 0.1}

// Show plays all scenes and tells each verdict as soon as it is there.
func Show(ctx context.Context, o Options, that func(Verdict)) error {
	for _, s := range o.scenes() {
		if err := s.play(ctx, o, that); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// watcher is ghosts at one size of the sample, and what they took.
type watcher struct {
	intake *ghost.Intake
	ghosts *ghost.Ghosts
	sample float64
	added  time.Duration // on the request's path
	noted  time.Duration // elsewhere
	peak   int64
	told   int
}

func (s scene) play(ctx context.Context, o Options, that func(Verdict)) error {
	trace, err := traces.Open(s.traffic, traces.Options{})
	if err != nil {
		return err
	}
	fleet, err := lineup.Parse(s.fleet, nil)
	if err != nil {
		return err
	}
	c := sim.Config{Trace: trace, Fleet: fleet, Seed: o.Seed, Jitter: -1}
	if trace.Sessions && trace.Untimed {
		c.AtOnce = s.atOnce
	}
	var all []*watcher
	for _, sample := range samples {
		w := &watcher{ghosts: ghost.New(ghost.Options{Sample: sample, BytesMax: 256 << 20, Seed: o.Seed}), sample: sample}
		w.ghosts.SetWorkers(workersOf(fleet))
		w.intake = ghost.NewIntake(w.ghosts.Threshold())
		all = append(all, w)
	}
	talks, came := map[uint64][]prefix.Range{}, []traces.Request(nil)
	c.Told = func(t sim.Told) {
		came = append(came, *t.Request)
		one := &came[len(came)-1]
		one.At, one.Follows, one.Think = t.Sequence.Arrived, false, 0
		q := asServed(&t, trace.BlockTokens, talks)
		for _, w := range all {
			w.tell(&q)
		}
	}
	real, err := sim.Run(ctx, c)
	if err != nil {
		return err
	}
	for _, w := range all {
		w.note()
	}
	slices.SortStableFunc(came, func(a, b traces.Request) int { return cmp.Compare(a.At, b.At) })
	c = sim.Config{Trace: traces.Recorded(s.name, trace.BlockTokens, came), Fleet: fleet, Seed: o.Seed}
	var replayed [ghost.Reachable]float64
	for rule := range ghost.Reachable {
		c.Policy = ghost.Names[rule]
		r, err := sim.Run(ctx, c)
		if err != nil {
			return err
		}
		replayed[rule] = r.HitRate()
	}
	pooled := 0.0
	if !trace.Sessions { // the bound knows prompts alone: an answer is new to it in the next prompt
		b, err := sim.FindBounds(ctx, c)
		if err != nil {
			return err
		}
		pooled = b.PooledHitRate
	}
	for _, w := range all {
		that(w.judge(s.name, real, replayed, pooled))
	}
	return nil
}

// workersOf is the fleet as ghosts are told of it.
func workersOf(fleet []lineup.Worker) (all []ghost.Worker) {
	for i, p := range fleet {
		all = append(all, ghost.Worker{Slot: i, ID: fmt.Sprintf("w%d", i+1), Incarnation: 1, KVTokens: int64(p.KVTokensMax), Up: true, Models: []string{"m"}, B: p.B, C: p.C})
	}
	return all
}

// asServed is a request that ended as the router would know it: the blocks of its prompt, and which of them are earlier answers, as the roles
// of its messages tell.
func asServed(t *sim.Told, block int, talks map[uint64][]prefix.Range) ghost.Request {
	s := t.Sequence
	n := min(len(s.Keys), s.PromptTokens/block)
	q := ghost.Request{Model: "m", Start: int64(s.Arrived), End: int64(s.Finished), Session: t.Request.Session, PromptTokens: s.PromptTokens, AnswerTokens: s.Generated,
		TextBytes: s.PromptTokens, Predicted: t.Forecast.CachedTokens, Cached: s.CachedTokens, Reported: true, Slot: -1}
	q.Chain.Keys = s.Keys[:n]
	for i := range n {
		q.Chain.Ends = append(q.Chain.Ends, int32((i+1)*block))
	}
	if t.Request.Session == 0 {
		return q
	}
	if !t.Request.Follows {
		delete(talks, t.Request.Session)
	}
	q.Chain.Replies = talks[t.Request.Session]
	if len(s.Keys) > n {
		talks[t.Request.Session] = append(q.Chain.Replies, prefix.Range{First: int32(n), Last: int32(len(s.Keys))})
	}
	return q
}

// noteEvery is after how many requests they are placed, as after a moment in the router, if not before because so much waits.
const noteEvery = 64

func (w *watcher) tell(q *ghost.Request) {
	began := time.Now()
	w.intake.Add(q)
	w.added += time.Since(began)
	w.told++
	select {
	case <-w.intake.Ready():
		w.note()
	default:
		if w.told%noteEvery == 0 {
			w.note()
		}
	}
}

func (w *watcher) note() {
	began := time.Now()
	w.ghosts.Note(w.intake.Take())
	w.intake.SetThreshold(w.ghosts.Threshold())
	w.noted += time.Since(began)
	w.peak = max(w.peak, w.ghosts.Bytes())
}

// judge holds what ghosts say to what replays found. pooled is 0 where it is not known.
func (w *watcher) judge(name string, real *sim.Result, replayed [ghost.Reachable]float64, pooled float64) Verdict {
	r := w.ghosts.Report(0)
	sums := &r.Total
	v := Verdict{Case: fmt.Sprintf("%s, sample %g", name, w.sample), Values: map[string]any{"sample": r.Rate, "requests": sums.Requests}}
	worst := 0.0
	for rule := range ghost.Reachable {
		is := sums.Rate(sums.Of(rule))
		worst = max(worst, math.Abs(is-replayed[rule]))
		v.Figures += fmt.Sprintf("%s %.1f %% (replay %.1f), ", ghost.Names[rule], 100*is, 100*replayed[rule])
		v.Values[ghost.Names[rule]], v.Values[ghost.Names[rule]+"_replay"] = is, replayed[rule]
	}
	reachable := sums.Rate(sums.Of(ghost.Reachable))
	v.Figures += fmt.Sprintf("reachable %.1f %%", 100*reachable)
	v.Values["reachable"] = reachable
	if pooled > 0 {
		worst = max(worst, math.Abs(reachable-pooled))
		v.Figures += fmt.Sprintf(" (bound %.1f)", 100*pooled)
		v.Values["reachable_bound"] = pooled
	}
	nanos := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / max(1, float64(w.told)) }
	v.Figures += fmt.Sprintf("; fleet %.1f %%; off by %.1f points at most; %.1f us a request on its path and %.1f us beside it, %.1f MB", 100*real.HitRate(), 100*worst,
		nanos(w.added)/1000, nanos(w.noted)/1000, float64(w.peak)/(1<<20))
	v.Values["fleet"], v.Values["off"], v.Values["path_nanos"], v.Values["note_nanos"], v.Values["bytes"] = real.HitRate(), worst, nanos(w.added), nanos(w.noted), w.peak
	v.Pass = worst <= offMax && sums.Requests == float64(real.Finished) && r.Dropped+r.Unplaced == 0
	return v
}
