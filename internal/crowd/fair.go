package crowd

import (
	"fmt"
	"math"
	"time"

	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/traces"
)

// What a tenant that asks for ten times as much may do to another.
const (
	sharesOff   = 0.05
	quietSlower = 1.2
)

// The scenes of shares: how long they are, and from when on they are judged. A fleet that all enter at once is full of requests that began
// at one time.
const fairSpans, fairFrom = 3 * time.Minute, time.Minute

// fair has a loud tenant ask for ten times what a quiet one does, which asks for more than its share, by two weights, or for less.
func (s *show) fair() error {
	for _, weight := range []float64{1, 3} {
		q := s.usual
		q.Tenants = map[string]sim.Share{"quiet": {Weight: weight}}
		due := weight / (weight + 1)
		quiet := 1.25 * carries * due
		r, err := s.play(scene{fleet: "h100-8b:8", parts: []traces.Part{oneShots("quiet", quiet), oneShots("loud", 10*quiet)}, queue: &q, spans: fairSpans})
		if err != nil {
			return err
		}
		had, other := r.Tenant("quiet").Between(fairFrom, fairSpans), r.Tenant("loud").Between(fairFrom, fairSpans)
		share := had / (had + other)
		s.that(Verdict{Case: fmt.Sprintf("two tenants that both wait, weights %g and 1", weight), Pass: math.Abs(share/due-1) <= sharesOff && lossless(r.Tenants...),
			Figures: fmt.Sprintf("%.1f and %.1f s of engine time, a share of %.3f where %.3f is due (within %.0f %%)", had, other, share, due, 100*sharesOff)})
	}
	return s.within()
}

// within has the quiet one ask for less than its share: 35 requests a second are 64 % of what half of the workers carry.
func (s *show) within() error {
	quiet, loud := oneShots("quiet", 35), oneShots("loud", 350)
	alone, err := s.play(scene{fleet: "h100-8b:4", parts: []traces.Part{quiet}, queue: &s.usual, spans: fairSpans, from: fairFrom})
	if err != nil {
		return err
	}
	base := alone.Tenant("quiet")
	detail := []string{fmt.Sprintf("%-26s %s", "alone on half the workers", figures(base))}
	var r *sim.Result
	for i, q := range []*sim.Queue{s.plain(), &s.usual} {
		if r, err = s.play(scene{fleet: "h100-8b:8", parts: []traces.Part{quiet, loud}, queue: q, spans: fairSpans, from: fairFrom}); err != nil {
			return err
		}
		t := r.Tenant("quiet")
		detail = append(detail, fmt.Sprintf("%-26s %s; %d refused", []string{"first come, first served", "all of it"}[i], figures(t), len(t.Refused)))
	}
	ratio := r.Tenant("quiet").TTFT.Quantile(0.99) / base.TTFT.Quantile(0.99)
	s.that(Verdict{Case: "a tenant within its share beside one that asks for ten times as much", Pass: ratio <= quietSlower && lossless(r.Tenants...),
		Figures: fmt.Sprintf("its p99 TTFT is %.2f times what it is alone on its share (at most %.1f)", ratio, quietSlower), Detail: detail})
	return nil
}
