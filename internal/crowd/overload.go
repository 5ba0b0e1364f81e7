package crowd

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/traces"
)

// What five minutes of overload may do.
const (
	overloaded   = 1.5
	overloadEnds = 5 * time.Minute
	overloadTail = 90 * time.Second // watched after it
	topSlower    = 1.5
	againOff     = 0.25
	againShare   = 0.9 // of the times told that must be as near
	recoversIn   = 10 * time.Second
)

// overload asks for 1.5 times what the fleet carries, a fifth of it in the top class and half of it in the last, which ends after five minutes.
func (s *show) overload() error {
	q := s.usual
	q.Tenants = map[string]sim.Share{"top": {Class: q.Classes[0].Name}, "last": {Class: q.Classes[len(q.Classes)-1].Name}}
	q.SecondsMax = 240 // the usual hour of work would not fill up, so that nobody were refused
	top, middle, last := oneShots("top", 0.2*overloaded*carries), oneShots("middle", 0.3*overloaded*carries), oneShots("last", 0.5*overloaded*carries)
	last.Select(traces.Selection{Length: overloadEnds})
	spans := overloadEnds + overloadTail
	alone, err := s.play(scene{fleet: "h100-8b:8", parts: []traces.Part{top}, queue: &q, spans: spans, from: time.Minute})
	if err != nil {
		return err
	}
	r, err := s.play(scene{fleet: "h100-8b:8", parts: []traces.Part{top, middle, last}, queue: &q, spans: spans, from: time.Minute})
	if err != nil {
		return err
	}
	base, urgent := alone.Tenant("top"), r.Tenant("top")
	ratio := urgent.TTFT.Quantile(0.99) / base.TTFT.Quantile(0.99)
	s.that(Verdict{Case: "the top class under 1.5 times what the fleet carries", Pass: ratio <= topSlower && len(urgent.Refused) == 0,
		Figures: fmt.Sprintf("its p99 TTFT is %.2f times what it is alone (at most %.1f), %d of %d refused", ratio, topSlower, len(urgent.Refused), urgent.Came),
		Detail:  []string{fmt.Sprintf("%-26s %s", "alone", figures(base)), fmt.Sprintf("%-26s %s", "in the overload", figures(urgent))}})
	came, finished, refused := 0, 0, 0
	for _, t := range r.Tenants {
		came, finished, refused = came+t.Came, finished+t.Finished, refused+len(t.Refused)
	}
	s.that(Verdict{Case: "nothing is lost or answered twice", Pass: lossless(r.Tenants...),
		Figures: fmt.Sprintf("%d came, %d were answered, %d refused", came, finished, refused)})
	s.comeAgain(r.Tenant("last"))
	waited := time.Duration(0)
	for _, t := range []*sim.Tenant{urgent, r.Tenant("middle")} {
		for _, turn := range t.Turns {
			if turn.Came >= overloadEnds+recoversIn {
				waited = max(waited, turn.Waited)
			}
		}
	}
	s.that(Verdict{Case: "recovery after the overload", Pass: waited <= time.Second,
		Figures: fmt.Sprintf("those that came later than %v after it waited %.3f s at most (at most 1)", recoversIn, waited.Seconds())})
	return nil
}

// comeAgain holds the times after which refused requests were told to come again against what those waited that came next and were let in.
func (s *show) comeAgain(t *sim.Tenant) {
	turns := slices.Clone(t.Turns)
	slices.SortFunc(turns, func(a, b sim.Turn) int { return cmp.Compare(a.Came, b.Came) })
	var off []float64
	near := 0
	for _, refused := range t.Refused {
		i, _ := slices.BinarySearchFunc(turns, refused.At, func(t sim.Turn, at time.Duration) int { return cmp.Compare(t.Came, at) })
		if refused.After > 0 && i < len(turns) && turns[i].Came-refused.At < time.Second {
			one := refused.After.Seconds()/turns[i].Waited.Seconds() - 1
			if off = append(off, one); math.Abs(one) <= againOff {
				near++
			}
		}
	}
	v := Verdict{Case: "when refused requests are told to come again", Figures: fmt.Sprintf("none of %d refusals can be held against a wait", len(t.Refused))}
	if n := len(off); n > 0 {
		slices.Sort(off)
		share := float64(near) / float64(n)
		v.Pass = share >= againShare
		v.Figures = fmt.Sprintf("%.0f %% of %d times are within %.0f %% of what those waited that came next and were let in (at least %.0f %%); p10 %+.0f %%, median %+.0f %%, p90 %+.0f %%",
			100*share, n, 100*againOff, 100*againShare, 100*off[n/10], 100*off[n/2], 100*off[n*9/10])
	}
	s.that(v)
}
