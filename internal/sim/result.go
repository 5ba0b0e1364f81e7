package sim

import (
	"time"

	"github.com/warmpath/warmpath/internal/bounds"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/sketch"
)

// Distribution is one of times in seconds.
type Distribution = sketch.Distribution

// Result is what came of a run.
type Result struct {
	Policy  string
	Rate    float64
	Seed    uint64
	Workers int

	// Placed and Finished count requests, Refused those that fit on no worker, TurnedAway those that the queue refused or that waited in
	// it in vain. A refused one ends its session.
	Placed, Finished, Refused, TurnedAway int
	// TTFT, TPOT and E2E are of finished requests, in seconds; TPOT of those with two tokens or more. Session is from its begin to the
	// end of its last request.
	TTFT, TPOT, E2E, Session Distribution
	SessionsBroken           int // by a refused request

	// PromptTokens of finished requests, CachedTokens of those found cached; GeneratedTokens of their answers.
	PromptTokens, CachedTokens, GeneratedTokens int64
	// PrefilledTokens were computed, again after a preemption too.
	PrefilledTokens, Preemptions, Evictions int64
	// Preempted is how often work gave way to more urgent requests, WastedSeconds the engine time spent on it until then as routers reckon,
	// and LostSeconds what the engines had spent.
	Preempted                  int
	WastedSeconds, LostSeconds float64
	// Waited is request-seconds of all requests that were placed, up to the end of the run. Chosen is the worker that took the request
	// of Config.Force.
	Waited time.Duration
	Chosen int
	// Declined counts choices against a clearly longer match elsewhere.
	Declined int
	// Good counts requests that met the SLO.
	Good int

	// Makespan is from the first arrival to the last end. Busy is each worker's time at work, Served its finished requests.
	Makespan time.Duration
	Busy     []time.Duration
	Served   []int
	Held     []time.Duration // request-seconds: what its requests stayed, together
	// Samples are each worker's requests over time, SampleEvery apart; Slices the requests' times by when they came.
	SampleEvery time.Duration
	Samples     [][]int
	Slices      []Slice

	// Tenants are told apart where that was asked for, in the order of their names. Pools are those that were configured, in their order,
	// and that of requests that no rule leads to one; none without pools.
	Tenants []*Tenant
	Pools   []*Pool
	Models  []*Model // by name; none without Config.Models
	// Bounds are what was possible.
	Bounds bounds.Bounds

	slo   SLO
	first time.Duration
	err   error
}

// Slice is the requests that came within one SampleEvery.
type Slice struct {
	Requests    int
	TTFTSeconds float64 // their sum
}

func newResult(c Config) *Result {
	return &Result{
		Policy: c.Policy, Rate: c.Rate, Seed: c.Seed, Workers: len(c.Fleet), slo: c.SLO, first: -1,
		Served: make([]int, len(c.Fleet)), Held: make([]time.Duration, len(c.Fleet)), SampleEvery: c.SampleEvery,
	}
}

// HitRate is the share of prompt tokens that were found cached.
func (r *Result) HitRate() float64 { return ratio(float64(r.CachedTokens), float64(r.PromptTokens)) }

// Spread is the most loaded worker's request-seconds over the mean. Time at work would not tell: an engine with one request to decode is
// at work all the time.
func (r *Result) Spread() float64 {
	var sum, most time.Duration
	for _, b := range r.Held {
		sum += b
		most = max(most, b)
	}
	return ratio(float64(most)*float64(len(r.Held)), float64(sum))
}

// GoodShare is the share of requests that met the SLO; those that were refused did not.
func (r *Result) GoodShare() float64 {
	return ratio(float64(r.Good), float64(r.Finished+r.Refused+r.TurnedAway))
}

// Goodput is the requests a second that met the SLO, over the whole run.
func (r *Result) Goodput() float64 { return ratio(float64(r.Good), r.Makespan.Seconds()) }

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func (r *Result) decided(l *lab, d *sched.Decision) {
	r.Placed++
	if r.first < 0 {
		r.first = l.now
	}
	if d.Hit == sched.Declined {
		r.Declined++
	}
}

// finished takes in a request that got its last token.
func (r *Result) finished(l *lab, f *flight, worker int) {
	s := f.sequence
	ttft, e2e, tpot := s.FirstToken-f.came, s.Finished-f.came, time.Duration(0)
	if !f.want.Streamed {
		ttft = e2e // the client sees nothing before
	}
	r.Finished++
	r.Served[worker]++
	r.Held[worker] += e2e
	r.Waited += e2e
	r.TTFT.Add(ttft.Seconds())
	r.E2E.Add(e2e.Seconds())
	if s.Generated > 1 {
		tpot = (s.Finished - s.FirstToken) / time.Duration(s.Generated-1)
		r.TPOT.Add(tpot.Seconds())
	}
	if r.Models != nil {
		r.answered(f, ttft.Seconds(), e2e.Seconds())
	}
	if p := f.pool; p != nil {
		p.TTFT.Add(ttft.Seconds())
		p.E2E.Add(e2e.Seconds())
	}
	if t := f.tenant; t != nil {
		t.Finished++
	}
	if t := f.tenant; t != nil && f.came >= l.config.From {
		t.TTFT.Add(ttft.Seconds())
		t.E2E.Add(e2e.Seconds())
	}
	if r.slo.met(ttft, tpot, e2e) {
		r.Good++
	}
	r.PromptTokens += int64(s.PromptTokens)
	r.CachedTokens += int64(s.CachedTokens)
	r.GeneratedTokens += int64(s.Generated)
	if r.SampleEvery > 0 {
		n := int(f.came / r.SampleEvery)
		for len(r.Slices) <= n {
			r.Slices = append(r.Slices, Slice{})
		}
		r.Slices[n].Requests++
		r.Slices[n].TTFTSeconds += ttft.Seconds()
	}
	r.Makespan = l.now - max(0, r.first)
}

func (r *Result) sessionEnded(took time.Duration, broken bool) {
	if broken {
		r.SessionsBroken++
		return
	}
	r.Session.Add(took.Seconds())
}

func (r *Result) sample(workers []*worker) {
	row := make([]int, len(workers))
	for i, w := range workers {
		row[i] = len(w.flights)
	}
	r.Samples = append(r.Samples, row)
}

func (r *Result) close(l *lab) {
	r.gaveWay(l)
	for _, w := range l.workers {
		for _, f := range w.flights {
			r.Waited += l.now - f.came
		}
		n := w.core.Counts()
		r.Busy = append(r.Busy, n.BusyTime)
		r.PrefilledTokens += int64(n.PrefilledTokens)
		r.Preemptions += int64(n.Preemptions)
		r.Evictions += int64(n.Evictions)
	}
}
