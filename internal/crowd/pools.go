package crowd

import (
	"fmt"
	"time"

	"github.com/warmpath/warmpath/internal/pools"
	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/traces"
)

// What a pool of their own may cost long prompts, and when short ones must be back from there after a surge.
const (
	longsSlower = 3
	surgeAt     = 2 * time.Minute
	surgeEnds   = surgeAt + 20*time.Second
	surgeBack   = 20 * time.Second
)

// longPrompt is from which length on prompts go to the pool of long ones.
const longPrompt = 16_384

// pooled are six workers for short prompts and two for long ones; spill lets short ones go there too once they would wait for so long.
func pooled(spill time.Duration) *pools.Set {
	o := pools.Options{
		Pools:   []pools.Pool{{Name: "short"}, {Name: "long"}},
		Rules:   []pools.Rule{{Name: "long prompts", Prompt: pools.Range{Min: longPrompt}, To: []string{"long"}}},
		Default: "short",
	}
	if spill > 0 {
		o.Pools[0].Overflow = pools.Overflow{To: "long", Wait: spill}
	}
	set, wrong := pools.New(o)
	if len(wrong) > 0 {
		panic(wrong[0]) // they are this room's own
	}
	return set
}

const pooledFleet, wholeFleet = "h100-8b:6@short,h100-8b:2@long", "h100-8b:8"

// pools has long prompts come several at a time among short ones, on eight workers: all for all, and six for short ones and two for long ones.
func (s *show) pools() error {
	// About 40,000 tokens each, eight at a time every 40 s. Prefills of one alone take 1.6 s.
	short, long := oneShots("short", 0.5*carries), asks("long", "bursts:requests=100000,burst=8,prompt=40000,output=200,rate=0.2")
	var detail []string
	var last [2][2]*sim.Tenant
	for i, x := range []struct {
		name string
		scene
	}{
		{"all for all, no queue here", scene{fleet: wholeFleet}},
		{"all for all, first come", scene{fleet: wholeFleet, queue: s.plain()}},
		{"all for all, the queue", scene{fleet: wholeFleet, queue: &s.usual}},
		{"pools, first come", scene{fleet: pooledFleet, queue: s.plain(), pools: pooled(0)}},
		{"pools, the queue", scene{fleet: pooledFleet, queue: &s.usual, pools: pooled(0)}},
	} {
		x.parts, x.spans, x.from = []traces.Part{short, long}, 5*time.Minute, time.Minute
		r, err := s.play(x.scene)
		if err != nil {
			return err
		}
		a, b := r.Tenant("short"), r.Tenant("long")
		detail = append(detail, fmt.Sprintf("%-26s short: %s; long: mean end to end %.1f s", x.name, figures(a), b.E2E.Mean()))
		last[i/3] = [2]*sim.Tenant{a, b}
	}
	without, with := last[0], last[1]
	mine, other, slower := with[0].TTFT.Quantile(0.99), without[0].TTFT.Quantile(0.99), with[1].E2E.Mean()/without[1].E2E.Mean()
	s.that(Verdict{Case: "a pool for long prompts, the same workers", Pass: mine <= other && slower <= longsSlower && lossless(with[:]...) && lossless(without[:]...),
		Figures: fmt.Sprintf("p99 TTFT of short prompts is %.3f s with the pool and %.3f s without (at most that), long ones take %.2f times as long (at most %d)", mine, other, slower, longsSlower),
		Detail:  detail})
	return s.spill()
}

// spill has short prompts come faster for twenty seconds than their workers carry.
func (s *show) spill() error {
	long := asks("long", "bursts:requests=100000,burst=1,prompt=40000,output=200,rate=0.1")
	usual, surge := oneShots("short", 0.5*carries), oneShots("surge", 0.7*carries)
	surge.Select(traces.Selection{Length: surgeEnds - surgeAt})
	surge.Map(func(q *traces.Request) { q.At += surgeAt })
	one := func(set *pools.Set) (*sim.Result, error) {
		return s.play(scene{fleet: pooledFleet, parts: []traces.Part{usual, long, surge}, queue: &s.usual, pools: set, spans: 4 * time.Minute})
	}
	shut, err := one(pooled(0))
	if err != nil {
		return err
	}
	r, err := one(pooled(time.Second))
	if err != nil {
		return err
	}
	to, end := r.Pool("long"), surgeEnds+surgeBack
	during, after := to.SpilledBetween(surgeAt, end), to.SpilledBetween(end, 1<<62)
	var detail []string
	for i, x := range []*sim.Result{shut, r} {
		detail = append(detail, fmt.Sprintf("%-26s surge: %s; long: mean end to end %.1f s", []string{"without overflow", "with overflow after 1 s"}[i], figures(x.Tenant("surge")), x.Tenant("long").E2E.Mean()))
	}
	mine, other := r.Tenant("surge").TTFT.Quantile(0.99), shut.Tenant("surge").TTFT.Quantile(0.99)
	s.that(Verdict{Case: "overflow into the long pool, and back", Pass: during > 0 && during == to.Spilled && after == 0 && mine <= other && lossless(r.Tenants...) && lossless(shut.Tenants...),
		Figures: fmt.Sprintf("of %d short prompts %d spilled, all that came within the surge of %v or %v after it, %d later; p99 TTFT of the surge is %.2f s, %.2f s without overflow (at most that)",
			r.Tenant("short").Came+r.Tenant("surge").Came, to.Spilled, surgeEnds-surgeAt, surgeBack, after, mine, other),
		Detail: detail})
	return nil
}
