package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/engine"
	"github.com/warmpath/warmpath/internal/sched"
)

const (
	loadProfile     = "h100-8b" // at its own speed
	loadLongContext = 100_000   // tokens
	loadLongAnswer  = 2000
	loadShorts      = 50
	loadAnswer      = 256 // that the next request asks for; its client leaves after loadRead
	loadRead        = 48
	loadRounds      = 5
	loadNextID      = "prove-next" // the requests that are placed beside the load
	loadCounting    = "least-requests"
)

// loadCase is one direction.
type loadCase struct {
	name                     string
	promptTokens, maxTokens  int  // of each of the fifty
	lessOnMany, countingErrs bool // where the next request's tokens come sooner, and whether least-requests goes elsewhere
}

var loadCases = []loadCase{
	{name: "fifty of 100 tokens are less than one of 100,000", promptTokens: 100, maxTokens: 700, lessOnMany: true, countingErrs: true},
	{name: "fifty of 3,000 tokens are more than one of 100,000", promptTokens: 3000, maxTokens: 500},
}

// loadSeen is what the next requests met.
type loadSeen struct {
	one, many      string                   // the workers: of the one long stream, of the fifty
	warm, counting map[string]int           // where the next request went, under warm-cost and least-requests
	rows           map[string]declog.Row    // of warm-cost's last decision
	gaps           map[string]time.Duration // mean time between tokens there, measured at the engine itself
	slip           time.Duration
}

func proveLoad(ctx context.Context, p *proof) error {
	for _, c := range loadCases {
		p.note("%s: %s, one stream of %d tokens on one worker, fifty of %d on the other", c.name, loadProfile, loadLongAnswer, c.maxTokens)
		seen, err := p.loadPlay(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		p.loadVerdict(c, seen)
	}
	return nil
}

func (p *proof) loadPlay(ctx context.Context, c loadCase) (seen loadSeen, err error) {
	log := ""
	f, err := startFleet(ctx, alike(2, engine.Options{Profile: cost.Profiles[loadProfile], Model: demoModel, Seed: p.seed}), sched.DefaultPolicy, p.err,
		func(c *config.Config, folder string) {
			log = filepath.Join(folder, "decisions.jsonl")
			c.DecisionLog.File = log
		})
	if err != nil {
		return seen, err
	}
	defer f.close()
	l := &loadStage{f: f, client: newProveClient(), random: rand.New(rand.NewPCG(p.seed, 2)), one: f.engines[0], many: f.engines[1]}
	ctx, l.leave = context.WithCancel(ctx)
	defer l.end()
	if err := l.set(ctx, c); err != nil {
		return seen, err
	}
	for range loadRounds {
		for _, policy := range []string{sched.DefaultPolicy, loadCounting} {
			if err := l.next(ctx, policy); err != nil {
				return seen, err
			}
		}
	}
	if seen.gaps, err = l.measure(ctx); err != nil {
		return seen, err
	}
	if l.ended.Load() > 0 {
		return seen, fmt.Errorf("%d of the streams that make the load ended before the measurement did: this machine is too slow", l.ended.Load())
	}
	l.end()
	f.closeRouter()
	seen.one, seen.many, seen.slip = l.one.id, l.many.id, f.slip()
	return seen, seen.read(log)
}

// read finds the next requests in the decision log.
func (s *loadSeen) read(log string) error {
	s.warm, s.counting, s.rows = map[string]int{}, map[string]int{}, map[string]declog.Row{}
	return eachDecision(log, func(r *declog.Record) {
		switch {
		case r.ID != loadNextID:
		case r.Policy == loadCounting:
			s.counting[r.Worker]++
		default:
			s.warm[r.Worker]++
			for _, row := range r.Rows {
				s.rows[row.Worker] = row
			}
		}
	})
}

// loadStage holds the load up while the next request is tried.
type loadStage struct {
	f         *embeddedFleet
	client    proveClient
	random    *rand.Rand
	one, many *embeddedEngine
	leave     context.CancelFunc
	streams   sync.WaitGroup
	ended     atomic.Int64 // streams of the load
}

// set puts the long stream on one worker and the fifty on the other, and returns when all of them decode.
func (l *loadStage) set(ctx context.Context, c loadCase) error {
	if err := l.drained(ctx, l.many, func() error { return l.hold(ctx, 1, loadLongContext, loadLongAnswer) }); err != nil {
		return err
	}
	return l.drained(ctx, l.one, func() error { return l.hold(ctx, loadShorts, c.promptTokens, c.maxTokens) })
}

// drained calls f while the router gives nothing new to e.
func (l *loadStage) drained(ctx context.Context, e *embeddedEngine, f func() error) error {
	admin := l.f.router.AdminURL()
	if status, _, err := l.client.status(ctx, admin+"/workers/"+e.id+"/drain", struct{}{}); err != nil || status != http.StatusOK {
		return fmt.Errorf("draining %s: status %d %v", e.id, status, err)
	}
	if err := f(); err != nil {
		return err
	}
	// A worker that is added while it drains stays.
	if status, _, err := l.client.status(ctx, admin+"/workers", map[string]string{"id": e.id, "url": e.url}); err != nil || status != http.StatusCreated {
		return fmt.Errorf("adding %s again: status %d %v", e.id, status, err)
	}
	return nil
}

// hold opens n streams and returns when each has its first token.
func (l *loadStage) hold(ctx context.Context, n, promptTokens, maxTokens int) error {
	first := make(chan error, 2*n)
	for range n {
		ask := askStream{prompt: l.words(promptTokens), maxTokens: maxTokens, first: func() { first <- nil }}
		l.streams.Go(func() {
			if _, err := l.client.stream(ctx, l.f.router.DataURL(), ask); ctx.Err() == nil {
				l.ended.Add(1)
				first <- err
			}
		})
	}
	for range n {
		select {
		case err := <-first:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// words is a prompt of that many tokens that nobody has seen before.
func (l *loadStage) words(tokens int) string {
	var b strings.Builder
	for range tokens {
		fmt.Fprintf(&b, "%03x ", l.random.IntN(1<<12))
	}
	return b.String()
}

// next sends one request under a policy. Its client leaves after a few tokens, and the call returns when the router has noticed.
func (l *loadStage) next(ctx context.Context, policy string) error {
	if status, _, err := l.client.status(ctx, l.f.router.AdminURL()+"/policy", map[string]string{"policy": policy}); err != nil || status != http.StatusOK {
		return fmt.Errorf("switching the policy to %s: status %d %v", policy, status, err)
	}
	if _, err := l.client.stream(ctx, l.f.router.DataURL(), askStream{prompt: l.words(60), maxTokens: loadAnswer, readMax: 2, id: loadNextID}); err != nil {
		return err
	}
	if ok, _ := until(ctx, time.Second, func() bool { return l.f.router.proxy.Running() == loadShorts+1 }); !ok {
		return fmt.Errorf("%d requests are running instead of %d", l.f.router.proxy.Running(), loadShorts+1)
	}
	return nil
}

// measure asks both engines themselves how fast tokens come there.
func (l *loadStage) measure(ctx context.Context) (map[string]time.Duration, error) {
	both := []*embeddedEngine{l.one, l.many}
	seen, errs := make([]streamed, 2), make([]error, 2)
	var asked sync.WaitGroup
	for i, e := range both {
		ask := askStream{prompt: l.words(60), maxTokens: loadAnswer, readMax: loadRead}
		asked.Go(func() { seen[i], errs[i] = l.client.stream(ctx, e.url, ask) })
	}
	asked.Wait()
	return map[string]time.Duration{both[0].id: seen[0].gap(), both[1].id: seen[1].gap()}, errors.Join(errs...)
}

func (l *loadStage) end() {
	l.leave()
	l.streams.Wait()
	l.client.CloseIdleConnections()
}

func (p *proof) loadVerdict(c loadCase, seen loadSeen) {
	right, wrong := seen.one, seen.many
	if c.lessOnMany {
		right, wrong = wrong, right
	}
	truth := seen.gaps[right] < seen.gaps[wrong]
	pass := truth && seen.warm[right] == loadRounds && seen.rows[seen.one].InFlight == 1 && seen.rows[seen.many].InFlight == loadShorts && seen.counting[seen.one] == loadRounds
	name := map[string]string{seen.one: "the one", seen.many: "the fifty"}
	figures := fmt.Sprintf("tokens come every %.1f ms beside %s, %.1f ms beside %s; warm-cost joins %s in %d of %d, least-requests %s in %d of %d",
		ms(seen.gaps[right]), name[right], ms(seen.gaps[wrong]), name[wrong], name[right], seen.warm[right], loadRounds, name[seen.one], seen.counting[seen.one], loadRounds)
	if c.countingErrs {
		figures += " and errs"
	}
	if seen.slip > 0 {
		figures += fmt.Sprintf(" (engines late by %v)", seen.slip.Round(time.Millisecond))
	}
	var lines []string
	for _, id := range []string{seen.one, seen.many} {
		lines = append(lines, fmt.Sprintf("beside %-9s  %s", name[id], rowLine(seen.rows[id])))
	}
	p.that(pass, c.name, figures, map[string]any{"gap_ms_one": round(ms(seen.gaps[seen.one])), "gap_ms_fifty": round(ms(seen.gaps[seen.many])), "in_flight_one": seen.rows[seen.one].InFlight,
		"in_flight_fifty": seen.rows[seen.many].InFlight, "right": seen.warm[right], "rounds": loadRounds}, lines...)
}

func round(v float64) float64 { return math.Round(v*1000) / 1000 }
