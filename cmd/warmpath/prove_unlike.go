package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/engine"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/workload"
)

const (
	unlikeProfile = "h100-70b-tp4"
	// unlikeFactor is how many times as slow the second worker is. unlikeScale is how many times faster than its profile all runs: the
	// slow worker at unlikeScale, the fast one at unlikeFactor times that.
	unlikeFactor  = 3
	unlikeScale   = 2
	unlikeSeconds = 8 // of each run

	// What an answer must keep, in the time of the slow worker at its profile's own speed, which needs 0.3 s for the longest prompt.
	unlikeTTFT = 2 * time.Second
	unlikeTPOT = 250 * time.Millisecond
	// unlikeWithin is how much of the best static weighting's figures is enough.
	unlikeWithin = 0.95

	// unlikeFirst is how many requests of a fresh router it may take until the speeds are told apart, so many at once; unlikeApart how
	// many times as fast the fast worker must be taken to be.
	unlikeFirst, unlikeFirstAtOnce = 30, 8
	unlikeApart                    = 2.0
)

// unlikeSetting is how requests come: arrivals by themselves, at a share of what both workers can carry, or so many clients of which each
// asks again once it is answered.
type unlikeSetting struct {
	load    float64
	clients int
}

func (s unlikeSetting) String() string {
	if s.clients > 0 {
		return fmt.Sprintf("%d clients ask all the time", s.clients)
	}
	return fmt.Sprintf("arrivals at %.0f %% of what both carry", 100*s.load)
}

var unlikeSettings = []unlikeSetting{{load: 0.8}, {clients: 48}}

// unlikeWeights are the shares of the fast worker, to 1 of the slow, that are tried first; then those between the best and its neighbours.
var unlikeWeights = []float64{1, 2, 3, 5, 9}

var (
	unlikePrompt = workload.Range{Min: 512, Max: 4096}
	unlikeAnswer = workload.Range{Min: 24, Max: 160}
)

// unlikeRun is one weighting, or warm-cost, in one setting.
type unlikeRun struct {
	name          string
	weight        float64
	result        workload.Result
	goodput, rate float64 // requests a second that kept the SLO, and that were answered
	toFast        float64 // share
	slip          time.Duration
	late          bool // the slip is too much
}

func (r unlikeRun) String() string {
	late := ""
	if r.slip > 0 {
		late = fmt.Sprintf("  engines late by %v in all", r.slip.Round(time.Millisecond))
	}
	return fmt.Sprintf("%-9s  goodput %5.1f/s  throughput %5.1f/s  TTFT mean %5.1f p99 %6.1f ms  TPOT mean %5.2f p99 %6.2f ms  %2.0f %% to the fast%s", r.name, r.goodput, r.rate,
		ms(r.result.TTFT.Mean), ms(r.result.TTFT.P99), ms(r.result.TPOT.Mean), ms(r.result.TPOT.P99), 100*r.toFast, late)
}

func proveUnlike(ctx context.Context, p *proof) error {
	if err := p.unlikeLearned(ctx); err != nil {
		return err
	}
	for _, s := range unlikeSettings {
		all, rate := p.unlikeWorkload(s)
		p.note("%v, %.1f/s: %s, one at %dx and one at %dx, for %d s, seed %d", s, rate, unlikeProfile, unlikeFactor*unlikeScale, unlikeScale, unlikeSeconds, p.seed)
		ours, err := p.unlikeTry(ctx, func() (unlikeRun, error) { return p.unlikeRouted(ctx, s, all) })
		if err != nil {
			return err
		}
		static, err := p.unlikeSearch(ctx, s, all)
		if err != nil {
			return err
		}
		p.unlikeVerdict(s, ours, static)
	}
	return nil
}

// unlikeLearned shows how soon a fresh router knows which worker is the faster.
func (p *proof) unlikeLearned(ctx context.Context) error {
	f, err := startFleet(ctx, p.unlikeEngines(), sched.DefaultPolicy, p.err, nil)
	if err != nil {
		return err
	}
	defer f.close()
	all, _ := p.unlikeWorkload(unlikeSettings[0])
	if err := unlikeWarm(ctx, f, all); err != nil {
		return err
	}
	apart, err := speedsApart(ctx, f.router.AdminURL())
	if err != nil {
		return err
	}
	p.that(apart >= unlikeApart, fmt.Sprintf("speeds are told apart within %d requests", unlikeFirst), fmt.Sprintf("the fast worker is taken to prefill %.2f times as fast, really %d times (>= %g)", apart, unlikeFactor, unlikeApart),
		map[string]any{"apart": round(apart), "really": unlikeFactor, "requests": unlikeFirst})
	return nil
}

// unlikeWarm asks the first requests; play asks those after them.
func unlikeWarm(ctx context.Context, f *embeddedFleet, all []workload.Session) error {
	result := workload.Run(ctx, f.router.DataURL(), all[:unlikeFirst], workload.RunOptions{AtOnce: unlikeFirstAtOnce})
	if result.Requests != unlikeFirst {
		return fmt.Errorf("%d of the first %d requests were answered: %s", result.Requests, unlikeFirst, result.FirstError)
	}
	return nil
}

// unlikeWorkload is requests that share nothing: unlikeFirst for a router to learn from, and those that count. Arrivals are a Poisson process; rate is theirs, and what both workers can carry where
// clients ask all the time, who find twice as many requests.
func (p *proof) unlikeWorkload(s unlikeSetting) (all []workload.Session, rate float64) {
	k := cost.Profiles[unlikeProfile].Constants
	prompt, answer := logMean(unlikePrompt), logMean(unlikeAnswer)
	one := k.Prefill(int(prompt), 0) + answer*(k.D1+k.D2*(prompt+answer/2))
	rate = (1 + unlikeFactor) * unlikeScale / one
	n := 2 * rate * unlikeSeconds
	if s.clients == 0 {
		rate *= s.load
		n = rate * unlikeSeconds
	}
	o := workload.Options{Seed: p.seed + 1, Model: demoModel, Sessions: unlikeFirst, Turns: workload.Range{Min: 1, Max: 1}, ContextTokens: unlikePrompt, OutputTokens: unlikeAnswer}
	first := workload.Generate(o)
	o.Seed, o.Sessions, o.Over = p.seed, int(math.Round(n)), unlikeSeconds*time.Second
	return append(first, workload.Generate(o)...), rate
}

// unlikeTry plays until the machine was quick enough, fallbackTries times at most, and returns the run in which it was quickest.
func (p *proof) unlikeTry(ctx context.Context, play func() (unlikeRun, error)) (best unlikeRun, err error) {
	for try := range fallbackTries {
		run, err := play()
		if err != nil {
			return run, err
		}
		p.note("  %s", run)
		if try == 0 || run.slip < best.slip {
			best = run
		}
		if !best.late || ctx.Err() != nil {
			break
		}
	}
	return best, ctx.Err()
}

func (p *proof) unlikeEngines() []engine.Options {
	o := demoOptions{profile: unlikeProfile, timeScale: unlikeFactor * unlikeScale, seed: p.seed}
	fast := o.engine()
	o.timeScale = unlikeScale
	return []engine.Options{fast, o.engine()}
}

// unlikeRouted plays a setting through a router that has seen unlikeFirst other requests: a static weighting knows the speeds from the
// start.
func (p *proof) unlikeRouted(ctx context.Context, s unlikeSetting, all []workload.Session) (unlikeRun, error) {
	f, err := startFleet(ctx, p.unlikeEngines(), sched.DefaultPolicy, p.err, nil)
	if err != nil {
		return unlikeRun{}, err
	}
	defer f.close()
	if err := unlikeWarm(ctx, f, all); err != nil {
		return unlikeRun{}, err
	}
	run := unlikeRun{name: sched.DefaultPolicy}
	return run, run.play(ctx, s, f.router.DataURL(), nil, all, f.embeddedEngines)
}

// speedsApart is the first worker's learned speed over the second's.
func speedsApart(ctx context.Context, admin string) (float64, error) {
	reply, err := get(ctx, admin+"/state")
	if err != nil {
		return 0, err
	}
	defer reply.Body.Close()
	var state struct{ Workers []struct{ Speed float64 } }
	if err := json.NewDecoder(reply.Body).Decode(&state); err != nil {
		return 0, err
	}
	if len(state.Workers) != 2 {
		return 0, fmt.Errorf("/state has %d workers", len(state.Workers))
	}
	return state.Workers[0].Speed / state.Workers[1].Speed, nil
}

// unlikeSearch plays static weightings: unlikeWeights, and then those half-way between the best and its neighbours.
func (p *proof) unlikeSearch(ctx context.Context, s unlikeSetting, all []workload.Session) (runs []unlikeRun, err error) {
	try := func(weight float64) error {
		run, err := p.unlikeTry(ctx, func() (unlikeRun, error) { return p.unlikeStatic(ctx, s, all, weight) })
		runs = append(runs, run)
		return err
	}
	for _, w := range unlikeWeights {
		if err := try(w); err != nil {
			return nil, err
		}
	}
	best := slices.Index(unlikeWeights, bestOf(runs, unlikeRun.keeping).weight)
	for _, i := range []int{best - 1, best + 1} {
		if i >= 0 && i < len(unlikeWeights) {
			if err := try(math.Sqrt(unlikeWeights[best] * unlikeWeights[i])); err != nil {
				return nil, err
			}
		}
	}
	return runs, nil
}

// unlikeStatic plays a setting straight to the workers, in turn by weight.
func (p *proof) unlikeStatic(ctx context.Context, s unlikeSetting, all []workload.Session, weight float64) (unlikeRun, error) {
	run := unlikeRun{name: fmt.Sprintf("%.1f : 1", weight), weight: weight}
	engines, err := startEngines(ctx, p.unlikeEngines())
	if err != nil {
		return run, err
	}
	defer engines.close()
	transport := &http.Transport{MaxIdleConnsPerHost: len(all) + 1, IdleConnTimeout: embeddedKeepAlive / 2, DisableCompression: true}
	defer transport.CloseIdleConnections()
	turns := &weighedTurns{next: transport, weights: []float64{weight, 1}, owed: make([]float64, 2)}
	for _, e := range engines.engines {
		turns.hosts = append(turns.hosts, strings.TrimPrefix(e.url, "http://"))
	}
	return run, run.play(ctx, s, engines.engines[0].url, &http.Client{Transport: turns}, all, engines)
}

// weighedTurns sends requests to hosts in turn, each as often as its weight says and as evenly as that allows (smooth weighted round robin).
type weighedTurns struct {
	next    http.RoundTripper
	hosts   []string
	weights []float64

	mu   sync.Mutex
	owed []float64
}

func (t *weighedTurns) RoundTrip(r *http.Request) (*http.Response, error) {
	own := r.Clone(r.Context())
	own.URL.Host = t.hosts[t.turn()]
	return t.next.RoundTrip(own)
}

func (t *weighedTurns) turn() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	most, sum := 0, 0.0
	for i, w := range t.weights {
		t.owed[i] += w
		sum += w
		if t.owed[i] > t.owed[most] {
			most = i
		}
	}
	t.owed[most] -= sum
	return most
}

// play plays a setting. Clients that ask all the time are cut off at its end; arrivals have as long again to be answered.
func (r *unlikeRun) play(ctx context.Context, s unlikeSetting, base string, client *http.Client, all []workload.Session, engines *embeddedEngines) error {
	limit := unlikeSeconds * time.Second
	if s.clients == 0 {
		limit *= 2
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	before := engines.engines[0].Stats().Finished
	r.result = workload.Run(limited, base, all[unlikeFirst:], workload.RunOptions{Client: client, AtOnce: s.clients, SLO: workload.SLO{TTFT: unlikeTTFT / unlikeScale, TPOT: unlikeTPOT / unlikeScale}})
	if r.result.Requests == 0 || r.result.Errors > 0 {
		return fmt.Errorf("%s: %d requests were answered, %d failed: %s", r.name, r.result.Requests, r.result.Errors, r.result.FirstError)
	}
	r.goodput = float64(r.result.Met) / unlikeSeconds
	r.rate = float64(r.result.Requests) / r.result.Elapsed.Seconds()
	r.toFast = float64(engines.engines[0].Stats().Finished-before) / float64(r.result.Requests)
	r.slip = engines.slip()
	r.late = r.slip.Seconds() > fallbackSlipMax*float64(len(engines.engines))*r.result.Elapsed.Seconds()
	return nil
}

func (r unlikeRun) keeping() float64   { return r.goodput }
func (r unlikeRun) answering() float64 { return r.rate }

// bestOf is the run with the most of something, the first of several.
func bestOf(runs []unlikeRun, of func(unlikeRun) float64) unlikeRun {
	return slices.MaxFunc(runs, func(a, b unlikeRun) int { return cmp.Compare(of(a), of(b)) })
}

// unlikeVerdict holds goodput against the best static weighting's. Plain throughput is one of clients that ask all the time: arrivals are
// answered as they come, by any weighting that can carry them.
func (p *proof) unlikeVerdict(s unlikeSetting, ours unlikeRun, static []unlikeRun) {
	kept, answered := bestOf(static, unlikeRun.keeping), bestOf(static, unlikeRun.answering)
	goodput, rate := ours.goodput/max(kept.goodput, 1e-9), ours.rate/max(answered.rate, 1e-9)
	late := ours.late || kept.late || answered.late
	pass := !late && goodput >= unlikeWithin && (s.clients == 0 || rate >= unlikeWithin)
	figures := fmt.Sprintf("goodput %.1f/s, %.3f of the best static weighting's (%s)", ours.goodput, goodput, kept.name)
	if s.clients > 0 {
		figures += fmt.Sprintf(", throughput %.1f/s, %.3f (%s)", ours.rate, rate, answered.name)
	}
	figures += fmt.Sprintf("; %.0f %% went to the fast worker; kept is a first token within %v and a mean gap within %v", 100*ours.toFast, unlikeTTFT/unlikeScale, unlikeTPOT/unlikeScale)
	if late {
		figures += "; measured on a machine that was too busy"
	}
	values := map[string]any{"goodput_per_second": round(ours.goodput), "goodput_ratio": round(goodput), "throughput_per_second": round(ours.rate), "throughput_ratio": round(rate),
		"best_weight": round(kept.weight), "machine_too_busy": late}
	p.that(pass, s.String(), figures, values)
}
