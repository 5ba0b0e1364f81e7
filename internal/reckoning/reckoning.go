// Package reckoning holds what requests are foretold to cost against what they cost, by replays in virtual time: the router learns its
// costs on the way, as in production, and every request counts from the first on. What is real is told by the simulated engines.
//
//	err := reckoning.Show(ctx, reckoning.Options{Agents: "sessions.jsonl.gz", Seed: 1}, func(v reckoning.Verdict) { fmt.Println(v.Pass, v.Case, v.Figures) })
package reckoning

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/warmpath/warmpath/internal/forecast"
	"github.com/warmpath/warmpath/internal/lineup"
	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/traces"
)

// What forecasts are held to: the median prefill is off by so much of its real time at most, and the share of answers no longer than their
// P50 or P90 is off by so much at most.
const (
	prefillOffMax   = 0.10
	calibrationMost = 0.05
	// groupLeast is how many requests a tenant, or its requests of a size, must have to be judged apart: by chance alone shares of so many
	// are off by less than two hundredths.
	groupLeast = 1000
)

// AgentsMadeUp is the agents' traffic when no trace is given.
const AgentsMadeUp = "agents:sessions=200"

// Options of Show.
type Options struct {
	Agents string // a trace of agents' sessions, or a generator; "" AgentsMadeUp
	Seed   uint64
}

// Verdict is one scene with what it was judged by.
type Verdict struct {
	Pass    bool
	Case    string
	Figures string
	Values  map[string]any
	Detail  []string // a line each tenant and size of prompts
}

// scene is traffic before a fleet.
type scene struct {
	name, fleet string
	trace       *traces.Trace
	atOnce      int
	assumed     bool
}

// Show plays all scenes and tells each verdict as soon as it is there. queue is the one that requests wait in.
func Show(ctx context.Context, o Options, queue *sim.Queue, that func(Verdict)) error {
	name := cmp.Or(o.Agents, AgentsMadeUp)
	agents, err := traces.Open(name, traces.Options{})
	if err != nil {
		return err
	}
	if !agents.Sessions {
		return fmt.Errorf("%s: agents' traffic must be of sessions", name)
	}
	tenants, err := unlikeTenants()
	if err != nil {
		return err
	}
	for _, x := range []scene{
		{name: "agents on an 8B model, caches known by events", fleet: "h100-8b:8", trace: agents, atOnce: 48},
		{name: "agents on a 70B model, caches assumed", fleet: "h100-70b-tp4:8", trace: agents, atOnce: 48, assumed: true},
		{name: "agents on unlike GPUs, more than they carry", fleet: "h100-8b:3,a100-8b:3", trace: agents, atOnce: 72},
		{name: "three tenants of unlike answers", fleet: "h100-8b:4", trace: tenants},
	} {
		v, err := x.play(ctx, queue, o.Seed)
		if err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		that(v)
	}
	return nil
}

// unlikeTenants ask for short, middling and long answers.
func unlikeTenants() (*traces.Trace, error) {
	var parts []traces.Part
	for _, p := range []struct{ tenant, traffic string }{
		{"search", "bursts:requests=6000,burst=3,prompt=3000,output=24,rate=8"},
		{"support", "chats:chats=750,turns=6,system=2000,question=200,output=220,think=12,rate=1"},
		{"writers", "documents:documents=250,questions=6,document=12000,question=150,output=1400,rate=2"},
	} {
		t, err := traces.Open(p.traffic, traces.Options{})
		if err != nil {
			return nil, err
		}
		parts = append(parts, traces.Part{Tenant: p.tenant, Trace: t})
	}
	return traces.Mix(parts)
}

// group is requests that are judged together.
type group struct {
	tenant string
	size   int // of the prompt, 4^size tokens at most; -1 all
	forecast.Errors
}

func (x scene) play(ctx context.Context, queue *sim.Queue, seed uint64) (Verdict, error) {
	var groups []*group
	of := func(tenant string, size int) *group {
		for _, g := range groups {
			if g.tenant == tenant && g.size == size {
				return g
			}
		}
		groups = append(groups, &group{tenant: tenant, size: size})
		return groups[len(groups)-1]
	}
	whole := of("", -1)
	c := sim.Config{Trace: x.trace, AtOnce: x.atOnce, Assumed: x.assumed, Queue: queue, Seed: seed, Jitter: -1, Told: func(t sim.Told) {
		in := []*group{whole, of(t.Request.Tenant, size(t.Request.Prompt))}
		if t.Request.Tenant != "" {
			in = append(in, of(t.Request.Tenant, -1))
		}
		for _, g := range in {
			g.Output(t.Forecast, t.Sequence.Generated)
			g.Prefill(t.Forecast.PrefillSeconds, (t.Sequence.FirstToken - t.Sequence.Admitted).Seconds())
		}
	}}
	var err error
	if c.Fleet, err = lineup.Parse(x.fleet, nil); err != nil {
		return Verdict{}, err
	}
	if _, err = sim.Run(ctx, c); err != nil {
		return Verdict{}, err
	}
	slices.SortFunc(groups, func(a, b *group) int { return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.size, b.size)) })
	return x.judge(whole, groups), nil
}

// size tells prompts apart by powers of four, as answers' lengths are learned.
func size(tokens int) (n int) {
	for n = 0; tokens > 1; n++ {
		tokens = (tokens + 3) / 4
	}
	return n
}

func (g *group) p50() float64        { return float64(g.WithinP50) / float64(max(g.Requests, 1)) }
func (g *group) p90() float64        { return float64(g.WithinP90) / float64(max(g.Requests, 1)) }
func (g *group) prefillOff() float64 { return g.PrefillOff.Quantile(0.5) }

// holds says whether the group is as it was foretold.
func (g *group) holds() bool {
	near := func(share, want float64) bool { return share >= want-calibrationMost && share <= want+calibrationMost }
	return g.Requests > 0 && g.prefillOff() <= prefillOffMax && near(g.p50(), 0.5) && near(g.p90(), 0.9)
}

func (g *group) String() string {
	name := "all"
	if g.tenant != "" {
		name = g.tenant
	}
	if g.size >= 0 {
		name += fmt.Sprintf(", prompts to %s", thousand(1<<(2*g.size)))
	}
	return fmt.Sprintf("%-28s %6d requests, prefill off by %4.1f %% (p50) %5.1f %% (p90), answers to P50 %4.1f %%, to P90 %4.1f %%, %5.0f tokens for %5.0f", name, g.Requests,
		100*g.prefillOff(), 100*g.PrefillOff.Quantile(0.9), 100*g.p50(), 100*g.p90(), g.OutputExpected/float64(max(g.Requests, 1)), g.OutputTokens/float64(max(g.Requests, 1)))
}

func thousand(tokens int) string {
	if tokens >= 1024 {
		return fmt.Sprintf("%dk", tokens/1024)
	}
	return fmt.Sprint(tokens)
}

func (x scene) judge(whole *group, groups []*group) Verdict {
	v := Verdict{Case: x.name, Pass: whole.holds()}
	apart := 0
	for _, g := range groups {
		line := g.String()
		if g.Requests >= groupLeast {
			apart++
			if !g.holds() {
				v.Pass = false
				line += "  <-- off"
			}
		}
		v.Detail = append(v.Detail, line)
	}
	v.Figures = fmt.Sprintf("%d requests on %s: prefill seconds off by %.1f %% at the median (at most %.0f), %.1f %% of the answers within their P50 and %.1f %% within their P90 (5 points off at most), and so each of %d groups of %d or more",
		whole.Requests, x.fleet, 100*whole.prefillOff(), 100*prefillOffMax, 100*whole.p50(), 100*whole.p90(), apart-1, groupLeast)
	v.Values = map[string]any{"requests": whole.Requests, "fleet": x.fleet, "prefill_off_p50": whole.prefillOff(), "prefill_off_p90": whole.PrefillOff.Quantile(0.9),
		"within_p50": whole.p50(), "within_p90": whole.p90(), "output_tokens": whole.OutputTokens, "output_tokens_expected": whole.OutputExpected}
	return v
}
