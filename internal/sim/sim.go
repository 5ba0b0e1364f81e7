// Package sim replays a trace against a simulated fleet in virtual time. What routes is production code: sched, fleet, cost and prefix
// as the router runs them; what is routed to is the engine's own step function.
//
//	fleet, err := lineup.Parse("h100-70b-tp4:8", nil)
//	result, err := sim.Run(ctx, sim.Config{Trace: trace, Fleet: fleet, Policy: "warm-cost", Rate: 1.5, Seed: 1})
//	fmt.Println(result.TTFT.Mean(), result.HitRate())
//
// A run starts no goroutine and reads no clock: the same Config gives the same Result.
package sim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/bounds"
	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/engine"
	"github.com/warmpath/warmpath/internal/forecast"
	"github.com/warmpath/warmpath/internal/lineup"
	"github.com/warmpath/warmpath/internal/pools"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/traces"
)

// Config is one run.
type Config struct {
	Trace  *traces.Trace
	Fleet  []lineup.Worker
	Policy string
	// Without are terms that the default policy leaves out; 0 none.
	Without sched.Terms
	// Rate divides the trace's times between arrivals; what sessions think about between requests stays. 0 is 1.
	Rate float64
	// Seed of arrivals within the grain of the trace's stamps, of synthetic traces, and of the chance that decides ties. Runs that
	// differ in policy only have the same arrivals.
	Seed uint64
	// Jitter spreads arrivals over so much of the trace's time; below 0 is the trace's own.
	Jitter time.Duration
	// AtOnce is how many sessions run at the same time, the next one starting when one ends; 0 starts them at the trace's times.
	AtOnce int
	// Assumed has the router assume what it sent, as without cache events; else it knows what each engine caches,
	// EventDelay after the engine does.
	Assumed    bool
	EventDelay time.Duration
	// Known gives the router the profiles' constants; else it learns them, as in production.
	Known bool
	// ViewDelay is how much later than it happens the router hears of first tokens, ends and counts.
	ViewDelay time.Duration
	// Replicas is how many routers share the fleet, each knowing of the others' load what the engines' counts tell; 0 is 1.
	Replicas int
	// Queue has requests wait for room on a worker; nil: they wait in the engines.
	Queue *Queue
	// Pools lead requests to some of the workers, by their labels; nil: every worker may take every request.
	Pools *pools.Set
	// Models have requests ask for one of several models; nil: all workers serve the same one.
	Models *Models
	// ByTenant tells the tenants' figures apart; with Models they always are.
	ByTenant bool
	// From leaves those that came before it out of the tenants' times to the first token and end to end.
	From time.Duration
	// SLO is what a request must meet to be counted as good.
	SLO SLO
	// SampleEvery is the time between samples of each worker's load; 0 takes none.
	SampleEvery time.Duration
	// Force makes one choice for the policy; nil is none.
	Force *Force
	// Told is called with each request that ended; may be nil.
	Told func(Told)
	// Progress is told the virtual time now and then; may be nil.
	Progress func(now time.Duration)
}

// Told is a request that ended, with the choice of its worker, what was expected of it then and what its engine did. Read only, until the call
// returns.
type Told struct {
	Request  *traces.Request
	Decision *sched.Decision
	Forecast *forecast.Forecast
	Sequence *engine.Sequence
}

// Force sends one request, counted from 0 as they are placed, to a worker, and ends the run Horizon later: what another choice would have
// come to, from the same state. A negative worker leaves the choice to the policy. From then on the chance that decides ties is Seed's: what
// comes after must not depend on how often a choice made before asked for it.
type Force struct {
	Request, Worker int
	Horizon         time.Duration
	Seed            uint64
}

// SLO is what users were promised; zero fields are no promise.
type SLO struct {
	TTFT, TPOT, E2E time.Duration
	// Share of requests that must meet it for a run to count as meeting it.
	Share float64
}

// Set says whether anything was promised.
func (s SLO) Set() bool { return s.TTFT > 0 || s.TPOT > 0 || s.E2E > 0 }

func (s SLO) met(ttft, tpot, e2e time.Duration) bool {
	return (s.TTFT == 0 || ttft <= s.TTFT) && (s.TPOT == 0 || tpot <= s.TPOT) && (s.E2E == 0 || e2e <= s.E2E)
}

func (c Config) withDefaults() Config {
	if c.Rate == 0 {
		c.Rate = 1
	}
	if c.Jitter < 0 {
		c.Jitter = c.Trace.Jitter
	}
	if c.Policy == "" {
		c.Policy = sched.DefaultPolicy
	}
	c.Replicas, c.ByTenant = max(1, c.Replicas), c.ByTenant || c.Models != nil
	return c
}

// check refuses what no run can be made of.
func (c Config) check() error {
	switch {
	case len(c.Fleet) == 0:
		return fmt.Errorf("the fleet has no workers (--fleet)")
	case sched.Policies[c.Policy] == nil:
		return fmt.Errorf("unknown policy %q; there are: %s (--policies)", c.Policy, strings.Join(sched.PolicyNames(), ", "))
	case (c.Queue != nil || c.Pools != nil || c.Models != nil) && c.Force != nil:
		return fmt.Errorf("with a queue, pools or several models there is no telling what other choices would have come to (--queue, --config, --model, --regret)")
	case c.Without != 0 && c.Policy != sched.DefaultPolicy:
		return fmt.Errorf("policy %q has no terms to leave out; %s has", c.Policy, sched.DefaultPolicy)
	case !(c.Rate > 0) || c.Rate > 1e6:
		return fmt.Errorf("a rate of %v; it is above 0 and at most a million (--rate)", c.Rate)
	}
	return nil
}

// FindBounds works out what was possible for a run.
func FindBounds(ctx context.Context, c Config) (bounds.Bounds, error) {
	c = c.withDefaults()
	return bounds.Find(ctx, bounds.Question{Trace: c.Trace, Fleet: c.Fleet, Rate: c.Rate, Jitter: c.Jitter, Seed: c.Seed, AtOnce: c.AtOnce})
}

// tickEvery is how many events lie between two looks at the context and calls of Progress.
const tickEvery = 2048

// Run replays the trace. An error of the context comes with what was done until then.
func Run(ctx context.Context, c Config) (*Result, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	l, err := newLab(c)
	if err != nil {
		return nil, err
	}
	reader, err := c.Trace.Reader(c.Seed)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	if err := l.start(reader); err != nil {
		return nil, err
	}
	for n := 0; ; n++ {
		if n%tickEvery == 0 {
			if c.Progress != nil {
				c.Progress(l.now)
			}
			if ctx.Err() != nil {
				return l.finish(), ctx.Err()
			}
		}
		more, err := l.step()
		if err != nil {
			return nil, err
		}
		if !more || l.until > 0 && l.now >= l.until {
			return l.finish(), nil
		}
	}
}

// blocksOf makes a profile keep its cache in the trace's blocks: what the trace names is what can be shared.
func blocksOf(p cost.Profile, blockTokens int) cost.Profile {
	page := p.BlockTokens
	if p.PageTokens > 0 {
		page = p.PageTokens
	}
	if blockTokens%page != 0 {
		page = 1
	}
	p.BlockTokens, p.PageTokens = blockTokens, page
	return p
}

// worker is one simulated engine.
type worker struct {
	number  int
	core    *engine.Core
	profile cost.Profile
	busy    bool
	begun   time.Duration
	end     time.Duration // of what is being computed
	flights []*flight     // in the engine
	waiting []*flight     // those of them that were not seen running yet
	steps   stepLog
	view    *blockView // of its cache, as routers see it; nil when at once or assumed
}
