package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/warmpath/warmpath/internal/lineup"
	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/sweep"
)

// replayLine is a run as --json and --csv print it. Times of sessions are in seconds, all others in milliseconds.
type replayLine struct {
	Policy        string  `json:"policy"`
	Fleet         string  `json:"fleet"`
	Workers       int     `json:"workers"`
	Rate          float64 `json:"rate"`
	AtOnce        int     `json:"at_once"`
	ViewDelay     float64 `json:"view_delay_ms"`
	Replicas      int     `json:"replicas"`
	Model         string  `json:"model,omitempty"`
	Caches        string  `json:"caches"`
	Constants     string  `json:"constants"`
	Seed          uint64  `json:"seed"`
	Requests      int     `json:"requests"`
	Refused       int     `json:"refused"`
	TurnedAway    int     `json:"turned_away"`
	TTFTMean      float64 `json:"ttft_mean_ms"`
	TTFTP50       float64 `json:"ttft_p50_ms"`
	TTFTP90       float64 `json:"ttft_p90_ms"`
	TTFTP99       float64 `json:"ttft_p99_ms"`
	TPOTMean      float64 `json:"tpot_mean_ms"`
	TPOTP99       float64 `json:"tpot_p99_ms"`
	E2EMean       float64 `json:"e2e_mean_ms"`
	E2EP99        float64 `json:"e2e_p99_ms"`
	SessionMean   float64 `json:"session_mean_s"`
	Makespan      float64 `json:"makespan_s"`
	HitRate       float64 `json:"hit_rate"`
	Declined      int     `json:"hits_declined"`
	BusiestMean   float64 `json:"busiest_over_mean"`
	Preemptions   int64   `json:"preemptions"`
	Prefilled     int64   `json:"prefilled_tokens"`
	Generated     int64   `json:"generated_tokens"`
	GoodShare     float64 `json:"good_share"`
	Goodput       float64 `json:"goodput_rps"`
	Price         float64 `json:"price"`
	BoundTTFTMean float64 `json:"bound_ttft_mean_ms"`
	BoundTPOTMean float64 `json:"bound_tpot_mean_ms"`
	BoundE2EMean  float64 `json:"bound_e2e_mean_ms"`
	BoundSession  float64 `json:"bound_session_mean_s"`
	BoundMakespan float64 `json:"bound_makespan_s"`
	BoundHit      float64 `json:"bound_hit_rate"`
	PooledHit     float64 `json:"pooled_lru_hit_rate"`
	BestHit       float64 `json:"pooled_best_hit_rate"`
	LeastPrefill  float64 `json:"least_prefill_s"`

	// With a queue, pools or tenants, in --json only: a table has no place for them.
	Tenants []tenantLine `json:"tenants,omitempty"`
	Pools   []poolLine   `json:"pools,omitempty"`
	Models  []modelLine  `json:"models,omitempty"`
}

func (p *replayPlan) line(r *sweep.Run) replayLine {
	x, b := r.Result, r.Result.Bounds
	const ms = 1e3
	return replayLine{
		Policy: x.Policy, Fleet: lineup.Name(r.At.Fleet), Workers: x.Workers, Rate: x.Rate, AtOnce: r.At.AtOnce,
		ViewDelay: r.At.ViewDelay.Seconds() * ms, Replicas: r.At.Replicas, Model: r.At.Model, Caches: p.options.caches, Constants: p.options.constants, Seed: x.Seed,
		Requests: x.Finished, Refused: x.Refused, TurnedAway: x.TurnedAway,
		TTFTMean: ms * x.TTFT.Mean(), TTFTP50: ms * x.TTFT.Quantile(0.5), TTFTP90: ms * x.TTFT.Quantile(0.9), TTFTP99: ms * x.TTFT.Quantile(0.99),
		TPOTMean: ms * x.TPOT.Mean(), TPOTP99: ms * x.TPOT.Quantile(0.99), E2EMean: ms * x.E2E.Mean(), E2EP99: ms * x.E2E.Quantile(0.99),
		SessionMean: x.Session.Mean(), Makespan: x.Makespan.Seconds(), HitRate: x.HitRate(), Declined: x.Declined, BusiestMean: x.Spread(),
		Preemptions: x.Preemptions, Prefilled: x.PrefilledTokens, Generated: x.GeneratedTokens, GoodShare: x.GoodShare(), Goodput: x.Goodput(), Price: p.price(x),
		BoundTTFTMean: ms * b.TTFT, BoundTPOTMean: ms * b.TPOT, BoundE2EMean: ms * b.E2E, BoundSession: b.Session, BoundMakespan: b.Makespan,
		BoundHit: b.HitRate, PooledHit: b.PooledHitRate, BestHit: b.BestHitRate, LeastPrefill: b.PrefillSeconds,
	}
}

// price is what the fleet cost while it was needed.
func (p *replayPlan) price(x *sim.Result) float64 {
	return p.options.workerPrice * float64(x.Workers) * x.Makespan.Hours()
}

// lines returns what prints a run as soon as it is done: for --json and --csv.
func (p *replayPlan) lines(w io.Writer) func(*sweep.Run) {
	switch {
	case p.options.json:
		out := json.NewEncoder(w)
		return func(r *sweep.Run) {
			l := p.line(r)
			l.Tenants, l.Pools, l.Models = tenantLines(r.Result), poolLines(r.Result), modelLines(r.Result)
			_ = out.Encode(l)
		}
	case p.options.csv:
		out := csv.NewWriter(w)
		headed := false
		return func(r *sweep.Run) {
			names, values := columns(p.line(r))
			if !headed {
				_ = out.Write(names)
				headed = true
			}
			_ = out.Write(values)
			out.Flush()
		}
	}
	return func(*sweep.Run) {}
}

// columns are a line's fields as they stand in its JSON.
func columns(l replayLine) (names, values []string) {
	text, err := json.Marshal(l)
	if err != nil {
		panic(err) // numbers and names
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for n := 0; ; n++ {
		token, err := d.Token()
		if err != nil {
			return names, values
		}
		if _, brace := token.(json.Delim); brace {
			n--
			continue
		}
		if s := fmt.Sprint(token); n%2 == 0 {
			names = append(names, s)
		} else {
			values = append(values, s)
		}
	}
}

// table prints all points, and what they say together.
func (p *replayPlan) table(w io.Writer, rows []*sweep.Row) {
	first := 0
	for i, r := range rows {
		if i == 0 || rows[i-1].Point != r.Point {
			p.heading(w, r)
			first = i
		}
		p.row(w, r)
		if i+1 == len(rows) || rows[i+1].Point != r.Point {
			fmt.Fprintln(w)
			tenantTable(w, rows[first:i+1])
			poolTable(w, rows[first:i+1])
			modelTable(w, rows[first:i+1])
		}
	}
	if len(p.sweep.Policies) > 1 {
		printStandings(w, sweep.Standings(rows))
	}
	if p.sweep.Base.SLO.Set() {
		p.printKnees(w, rows)
	}
}

func (p *replayPlan) heading(w io.Writer, r *sweep.Row) {
	first := r.Results[0]
	b := first.Bounds
	fmt.Fprintf(w, "%s: %s requests", r.At, thousands(first.Finished))
	if first.Refused > 0 {
		fmt.Fprintf(w, ", %d refused that fit on no worker", first.Refused)
	}
	if first.TurnedAway > 0 {
		fmt.Fprintf(w, ", %d turned away", first.TurnedAway)
	}
	if n := len(r.Results); n > 1 {
		fmt.Fprintf(w, ", %d seeds", n)
	}
	fmt.Fprintln(w)
	if b.HitRate > 0 || b.TTFT > 0 {
		fmt.Fprintf(w, "possible: TTFT above %.3f s, TPOT %.1f ms, E2E %.2f s; hit rate %.3f", b.TTFT, 1e3*b.TPOT, b.E2E, b.HitRate)
		if b.BestHitRate > 0 {
			fmt.Fprintf(w, ", %.3f in the room there is, %.3f by age", b.BestHitRate, b.PooledHitRate)
		}
		if b.Session > 0 {
			fmt.Fprintf(w, "; a session in %.1f s", b.Session)
		}
		if b.Makespan > 0 {
			fmt.Fprintf(w, ", all in %.1f min", b.Makespan/60)
		}
		if b.Utilisation > 0 {
			fmt.Fprintf(w, "; prefill fills %.0f %% of the time", 100*b.Utilisation)
		}
		fmt.Fprintln(w)
	}
	good := ""
	if p.trace.Sessions {
		good = "  session s  all min"
	}
	if p.sweep.Base.SLO.Set() {
		good += "   good"
	}
	fmt.Fprintf(w, "%-16s %17s %8s %8s %7s %16s %14s %6s %8s %8s%s\n", "policy", "TTFT mean s", "p50", "p99", "/bound", "TPOT ms", "E2E s", "hits", "declined", "busiest", good)
}

func (p *replayPlan) row(w io.Writer, r *sweep.Row) {
	mean := func(f func(*sim.Result) float64) float64 { return r.Of(f).Mean }
	ttft := r.Of(func(x *sim.Result) float64 { return x.TTFT.Mean() })
	over := "-"
	if b := mean(func(x *sim.Result) float64 { return x.Bounds.TTFT }); b > 0 {
		over = fmt.Sprintf("%.2f", ttft.Mean/b)
	}
	fmt.Fprintf(w, "%-16s %17s %8.3f %8.2f %7s %16s %14s %6.3f %8.0f %8.2f", r.Policy, figure(ttft, 3),
		mean(func(x *sim.Result) float64 { return x.TTFT.Quantile(0.5) }), mean(func(x *sim.Result) float64 { return x.TTFT.Quantile(0.99) }), over,
		figure(r.Of(func(x *sim.Result) float64 { return 1e3 * x.TPOT.Mean() }), 1), figure(r.Of(func(x *sim.Result) float64 { return x.E2E.Mean() }), 2),
		mean((*sim.Result).HitRate), mean(func(x *sim.Result) float64 { return float64(x.Declined) }), mean((*sim.Result).Spread))
	if p.trace.Sessions {
		fmt.Fprintf(w, " %10.1f %8.1f", mean(func(x *sim.Result) float64 { return x.Session.Mean() }), mean(func(x *sim.Result) float64 { return x.Makespan.Minutes() }))
	}
	if p.sweep.Base.SLO.Set() {
		fmt.Fprintf(w, " %6.3f", mean((*sim.Result).GoodShare))
	}
	fmt.Fprintln(w)
}

// figure is a mean with its interval, where there is one.
func figure(f sweep.Figure, digits int) string {
	s := strconv.FormatFloat(f.Mean, 'f', digits, 64)
	if f.Spread > 0 {
		s += " ±" + strconv.FormatFloat(f.Spread, 'f', digits, 64)
	}
	return s
}

func printStandings(w io.Writer, all []sweep.Standing) {
	fmt.Fprintf(w, "against the best policy of each point and seed: geometric mean / worst point\n%-16s", "policy")
	for _, m := range sweep.Measures {
		fmt.Fprintf(w, " %16s", m.Name)
	}
	fmt.Fprintln(w)
	for _, s := range all {
		fmt.Fprintf(w, "%-16s", s.Policy)
		for i := range sweep.Measures {
			fmt.Fprintf(w, " %16s", fmt.Sprintf("%.3f / %.2f", s.Geometric[i], s.Worst[i]))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}
