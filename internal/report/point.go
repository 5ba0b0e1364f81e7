package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/sweep"
)

func ttft(x *sim.Result) float64 { return x.TTFT.Mean() }

// ours is the row that is set off, or the first.
func ours(in *Input, rows []*sweep.Row) *sweep.Row {
	return rows[max(0, slices.IndexFunc(rows, func(r *sweep.Row) bool { return r.Policy == in.Ours }))]
}

// ofReachable is a hit rate beside what one cache of the fleet's size reaches that serves all, the oldest going first: a fleet keeps copies.
func ofReachable(r *sweep.Row) string {
	b := r.Results[0].Bounds
	text := fmt.Sprintf("%.3f", mean(r, (*sim.Result).HitRate))
	if reachable := cmp.Or(b.PooledHitRate, b.HitRate); reachable > 0 {
		text += fmt.Sprintf(" of %.3f", reachable)
	}
	return text
}

// overBound is how many times the bound the mean TTFT is.
func overBound(r *sweep.Row) string {
	bound := mean(r, func(x *sim.Result) float64 { return x.Bounds.TTFT })
	if bound == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", mean(r, ttft)/bound)
}

// verdict says in a sentence what ours made of what was possible.
func verdict(r *sweep.Row) string {
	text := fmt.Sprintf("%s at %s: hit rate %s", r.Policy, r.At, ofReachable(r))
	switch b := r.Results[0].Bounds; {
	case b.PooledHitRate > 0:
		text += fmt.Sprintf(" reachable by one cache as large as the fleet's (%.3f with foresight)", b.BestHitRate)
	case b.HitRate > 0:
		text += " reachable by one cache without end"
	}
	text += fmt.Sprintf(", mean TTFT %.3f s", mean(r, ttft))
	if over := overBound(r); over != "-" {
		text += ", " + over + " times the bound"
	}
	return text + "."
}

// describe makes a point's part of the page; policies stand in the order of their mean TTFT.
func describe(in *Input, rows []*sweep.Row, p palette) point {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b *sweep.Row) int { return cmp.Compare(mean(a, ttft), mean(b, ttft)) })
	first, own := rows[0].Results[0], ours(in, rows)
	b := first.Bounds
	v := point{
		Name: rows[0].At.String(), Verdict: verdict(own), Possible: possible(rows[0]),
		Summary: []string{rows[0].Policy, fmt.Sprintf("%.3f", mean(own, ttft)), overBound(own), ofReachable(own)},
		Columns: []string{"policy", "TTFT mean s", "p50", "p99", "/ bound", "TPOT ms", "E2E s", "hit rate", "declined", "busiest / mean"},
	}
	if first.Session.Count() > 0 {
		v.Columns = append(v.Columns, "session s", "all min")
	}
	if in.SLO.Set() {
		v.Columns = append(v.Columns, "good", "good a second")
	}
	for _, r := range rows {
		v.Rows = append(v.Rows, cells(in, r))
	}
	v.Charts = []chart{firsts(rows, p, b), hits(rows, p, b), course(rows, p, in.Ours)}
	for _, t := range []struct {
		caption  string
		promised time.Duration
		of       func(*sim.Result) *sim.Distribution
	}{
		{"time to the first token, s", in.SLO.TTFT, func(x *sim.Result) *sim.Distribution { return &x.TTFT }},
		{"time per output token, s", in.SLO.TPOT, func(x *sim.Result) *sim.Distribution { return &x.TPOT }},
		{"end to end, s", in.SLO.E2E, func(x *sim.Result) *sim.Distribution { return &x.E2E }},
	} {
		v.Times = append(v.Times, shares(rows, p, in, t.caption, t.promised, t.of))
	}
	v.Loads, v.Most = loads(in, rows)
	return v
}

// possible says what was asked, and the limits that no policy passes.
func possible(r *sweep.Row) string {
	first := r.Results[0]
	b := first.Bounds
	text := fmt.Sprintf("%d requests", first.Finished)
	if first.Refused > 0 {
		text += fmt.Sprintf(", %d refused that fit on no worker", first.Refused)
	}
	if n := len(r.Results); n > 1 {
		text += fmt.Sprintf(", %d seeds; ± and whiskers are the 95 %% interval of the mean", n)
	}
	text += "."
	if b.TTFT == 0 {
		return text
	}
	text += fmt.Sprintf(" Possible: mean TTFT above %.3f s, TPOT %.1f ms, E2E %.2f s; hit rate %.3f", b.TTFT, 1e3*b.TPOT, b.E2E, b.HitRate)
	if b.BestHitRate > 0 {
		text += fmt.Sprintf(", %.3f in the room there is, %.3f by age", b.BestHitRate, b.PooledHitRate)
	}
	if b.Session > 0 {
		text += fmt.Sprintf("; a session in %.1f s", b.Session)
	}
	if b.Makespan > 0 {
		text += fmt.Sprintf(", all in %.1f min", b.Makespan/60)
	}
	if b.Utilisation > 0 {
		text += fmt.Sprintf("; prefill fills at least %.0f %% of the time", 100*b.Utilisation)
	}
	return text + "."
}

// notableMax is for how many policies the load of each worker is drawn.
const notableMax = 6

// notable are ours and the best others by mean TTFT, of which the rows are in the order.
func notable(in *Input, rows []*sweep.Row) []*sweep.Row {
	best := slices.Clone(rows)
	slices.SortStableFunc(best, func(a, b *sweep.Row) int {
		switch own := in.Ours; {
		case a.Policy == own && b.Policy != own:
			return -1
		case b.Policy == own && a.Policy != own:
			return 1
		}
		return 0
	})
	return best[:min(len(best), notableMax)]
}

func cells(in *Input, r *sweep.Row) line {
	plain := func(digits int, of func(*sim.Result) float64) string { return fmt.Sprintf("%.*f", digits, mean(r, of)) }
	l := line{Name: r.Policy, Ours: r.Policy == in.Ours, Cells: []string{
		figure(r.Of(ttft), 3),
		plain(3, func(x *sim.Result) float64 { return x.TTFT.Quantile(0.5) }),
		plain(2, func(x *sim.Result) float64 { return x.TTFT.Quantile(0.99) }), overBound(r),
		figure(r.Of(func(x *sim.Result) float64 { return 1e3 * x.TPOT.Mean() }), 1),
		figure(r.Of(func(x *sim.Result) float64 { return x.E2E.Mean() }), 2),
		plain(3, (*sim.Result).HitRate),
		plain(0, func(x *sim.Result) float64 { return float64(x.Declined) }),
		plain(2, (*sim.Result).Spread),
	}}
	if r.Results[0].Session.Count() > 0 {
		l.Cells = append(l.Cells, plain(1, func(x *sim.Result) float64 { return x.Session.Mean() }), plain(1, func(x *sim.Result) float64 { return x.Makespan.Minutes() }))
	}
	if in.SLO.Set() {
		l.Cells = append(l.Cells, plain(3, (*sim.Result).GoodShare), plain(2, (*sim.Result).Goodput))
	}
	return l
}

func figure(f sweep.Figure, digits int) string {
	if f.Spread > 0 {
		return fmt.Sprintf("%.*f ±%.*f", digits, f.Mean, digits, f.Spread)
	}
	return fmt.Sprintf("%.*f", digits, f.Mean)
}
