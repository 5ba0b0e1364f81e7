package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/sweep"
)

// tenantLine is what came of one tenant, or of one class, as --json prints it.
type tenantLine struct {
	Tenant        string         `json:"tenant"`
	Class         string         `json:"class,omitempty"`
	Requests      int            `json:"requests"`
	Refused       int            `json:"refused"`
	Why           map[string]int `json:"refused_by_reason,omitempty"`
	Waited        int            `json:"waited"`
	WaitMean      float64        `json:"wait_mean_ms"` // of all that were placed
	WaitP99       float64        `json:"wait_p99_ms"`
	TTFTMean      float64        `json:"ttft_mean_ms"`
	TTFTP50       float64        `json:"ttft_p50_ms"`
	TTFTP99       float64        `json:"ttft_p99_ms"`
	GapP50        float64        `json:"gap_p50_ms"`
	GapP99        float64        `json:"gap_p99_ms"`
	E2EMean       float64        `json:"e2e_mean_ms"`
	EngineSeconds float64        `json:"engine_s"`
}

// poolLine is what came of one pool.
type poolLine struct {
	Pool     string  `json:"pool"`
	Workers  int     `json:"workers"`
	Requests int     `json:"requests"`
	Spilled  int     `json:"spilled"` // of these
	TTFTMean float64 `json:"ttft_mean_ms"`
	TTFTP99  float64 `json:"ttft_p99_ms"`
	E2EMean  float64 `json:"e2e_mean_ms"`
}

// modelLine is what came of one model.
type modelLine struct {
	Model         string         `json:"model"`
	Workers       int            `json:"workers"`
	Requests      int            `json:"requests"`
	Reasons       map[string]int `json:"reasons"`
	Money         float64        `json:"money"`
	EngineSeconds float64        `json:"engine_s"`
	TTFTMean      float64        `json:"ttft_mean_ms"`
	TTFTP99       float64        `json:"ttft_p99_ms"`
	E2EMean       float64        `json:"e2e_mean_ms"`
}

// tenantLines are the tenants in the order of their names; behind them each class that has several.
func tenantLines(r *sim.Result) (lines []tenantLine) {
	classes := map[string][]*sim.Tenant{}
	var order []string
	for _, t := range r.Tenants {
		lines = append(lines, lineOfTenant(t))
		if classes[t.Class] == nil {
			order = append(order, t.Class)
		}
		classes[t.Class] = append(classes[t.Class], t)
	}
	slices.Sort(order)
	for _, class := range order {
		if all := classes[class]; class != "" && len(all) > 1 {
			sum := sim.Together(all)
			sum.Name = "(all of them)"
			lines = append(lines, lineOfTenant(&sum))
		}
	}
	return lines
}

func lineOfTenant(t *sim.Tenant) tenantLine {
	const ms = 1e3
	l := tenantLine{
		Tenant: t.Name, Class: t.Class, Requests: t.Finished, Refused: len(t.Refused), Waited: len(t.Turns),
		TTFTMean: ms * t.TTFT.Mean(), TTFTP50: ms * t.TTFT.Quantile(0.5), TTFTP99: ms * t.TTFT.Quantile(0.99),
		GapP50: ms * t.ITL.Quantile(0.5), GapP99: ms * t.ITL.Quantile(0.99), E2EMean: ms * t.E2E.Mean(), EngineSeconds: t.Between(0, math.MaxInt64),
	}
	for _, refused := range t.Refused {
		if l.Why == nil {
			l.Why = map[string]int{}
		}
		l.Why[string(refused.Reason)]++
	}
	waits := make([]time.Duration, max(t.Finished, len(t.Turns)))
	for i, turn := range t.Turns {
		waits[i] = turn.Waited
		l.WaitMean += ms * turn.Waited.Seconds() / float64(len(waits))
	}
	if n := len(waits); n > 0 {
		slices.Sort(waits)
		l.WaitP99 = ms * waits[(99*n-1)/100].Seconds()
	}
	return l
}

func poolLines(r *sim.Result) (lines []poolLine) {
	const ms = 1e3
	for _, p := range r.Pools {
		if p.Name == anyPool && p.Placed == 0 {
			continue
		}
		lines = append(lines, poolLine{p.Name, p.Workers, p.Placed, p.Spilled, ms * p.TTFT.Mean(), ms * p.TTFT.Quantile(0.99), ms * p.E2E.Mean()})
	}
	return lines
}

// anyPool is what requests are counted under that no rule leads to a pool.
const anyPool = "any"

// across averages a figure of the same line over a row's seeds. A line that a seed does not have counts as 0 there.
func across[T any](r *sweep.Row, lines func(*sim.Result) []T, same func(T) bool, f func(T) float64) float64 {
	return r.Of(func(x *sim.Result) float64 {
		for _, l := range lines(x) {
			if same(l) {
				return f(l)
			}
		}
		return 0
	}).Mean
}

// tenantTable prints the tenants under each policy of a point.
func tenantTable(w io.Writer, rows []*sweep.Row) {
	if all := rows[0].Results[0].Tenants; len(all) == 0 || len(all) == 1 && all[0].Name == "" && all[0].Class == "" {
		return // nobody is named and nobody waits: the first table has it all
	}
	fmt.Fprintf(w, "%-16s %-16s %-12s %9s %8s %8s %10s %12s %8s %9s %11s %7s %9s\n", "policy", "tenant", "class", "requests", "refused", "waited", "wait p99 s", "TTFT mean s", "p50", "p99", "gap p99 ms", "E2E s", "engine s")
	for _, r := range rows {
		for _, l := range tenantLines(r.Results[0]) {
			of := func(f func(tenantLine) float64) float64 {
				return across(r, tenantLines, func(x tenantLine) bool { return x.Tenant == l.Tenant && x.Class == l.Class }, f)
			}
			fmt.Fprintf(w, "%-16s %-16s %-12s %9.0f %8.0f %8.0f %10.2f %12.3f %8.3f %9.2f %11.1f %7.2f %9.0f\n", r.Policy, plain(orDash(l.Tenant)), plain(orDash(l.Class)),
				of(func(x tenantLine) float64 { return float64(x.Requests) }), of(func(x tenantLine) float64 { return float64(x.Refused) }),
				of(func(x tenantLine) float64 { return float64(x.Waited) }), of(func(x tenantLine) float64 { return x.WaitP99 / 1e3 }),
				of(func(x tenantLine) float64 { return x.TTFTMean / 1e3 }), of(func(x tenantLine) float64 { return x.TTFTP50 / 1e3 }),
				of(func(x tenantLine) float64 { return x.TTFTP99 / 1e3 }), of(func(x tenantLine) float64 { return x.GapP99 }),
				of(func(x tenantLine) float64 { return x.E2EMean / 1e3 }), of(func(x tenantLine) float64 { return x.EngineSeconds }))
		}
	}
	fmt.Fprintln(w)
}

// poolTable prints the pools under each policy of a point.
func poolTable(w io.Writer, rows []*sweep.Row) {
	if len(rows[0].Results[0].Pools) == 0 {
		return
	}
	fmt.Fprintf(w, "%-16s %-16s %8s %9s %8s %12s %9s %7s\n", "policy", "pool", "workers", "requests", "spilled", "TTFT mean s", "p99", "E2E s")
	for _, r := range rows {
		for _, l := range poolLines(r.Results[0]) {
			of := func(f func(poolLine) float64) float64 {
				return across(r, poolLines, func(x poolLine) bool { return x.Pool == l.Pool }, f)
			}
			fmt.Fprintf(w, "%-16s %-16s %8d %9.0f %8.0f %12.3f %9.2f %7.2f\n", r.Policy, l.Pool, l.Workers,
				of(func(x poolLine) float64 { return float64(x.Requests) }), of(func(x poolLine) float64 { return float64(x.Spilled) }),
				of(func(x poolLine) float64 { return x.TTFTMean / 1e3 }), of(func(x poolLine) float64 { return x.TTFTP99 / 1e3 }), of(func(x poolLine) float64 { return x.E2EMean / 1e3 }))
		}
	}
	fmt.Fprintln(w)
}

func modelLines(r *sim.Result) (lines []modelLine) {
	const ms = 1e3
	for _, m := range r.Models {
		lines = append(lines, modelLine{m.Name, m.Workers, m.Requests, m.Reasons, m.Money, m.Seconds, ms * m.TTFT.Mean(), ms * m.TTFT.Quantile(0.99), ms * m.E2E.Mean()})
	}
	return lines
}

// modelTable prints what each model answered under each policy of a point, and what all of it came to.
func modelTable(w io.Writer, rows []*sweep.Row) {
	if len(rows[0].Results[0].Models) == 0 {
		return
	}
	fmt.Fprintf(w, "%-16s %-16s %8s %9s %12s %12s %9s %8s  %s\n", "policy", "model", "workers", "requests", "money", "TTFT mean s", "p99", "E2E s", "why")
	for _, r := range rows {
		for _, l := range modelLines(r.Results[0]) {
			of := func(f func(modelLine) float64) float64 {
				return across(r, modelLines, func(x modelLine) bool { return x.Model == l.Model }, f)
			}
			var why []string
			for _, reason := range slices.Sorted(maps.Keys(l.Reasons)) {
				why = append(why, fmt.Sprintf("%s %d", reason, l.Reasons[reason]))
			}
			fmt.Fprintf(w, "%-16s %-16s %8d %9.0f %12.4f %12.3f %9.2f %8.2f  %s\n", r.Policy, l.Model, l.Workers, of(func(x modelLine) float64 { return float64(x.Requests) }),
				of(func(x modelLine) float64 { return x.Money }), of(func(x modelLine) float64 { return x.TTFTMean / 1e3 }), of(func(x modelLine) float64 { return x.TTFTP99 / 1e3 }),
				of(func(x modelLine) float64 { return x.E2EMean / 1e3 }), strings.Join(why, ", "))
		}
		mean := func(f func(*sim.Result) float64) float64 { return r.Of(f).Mean }
		fmt.Fprintf(w, "%-16s %-16s %8d %9.0f %12.4f %12.3f %9.2f %8.2f\n", r.Policy, "(all of them)", len(r.At.Fleet), mean(func(x *sim.Result) float64 { return float64(x.Finished) }), mean((*sim.Result).Money),
			mean(func(x *sim.Result) float64 { return x.TTFT.Mean() }), mean(func(x *sim.Result) float64 { return x.TTFT.Quantile(0.99) }), mean(func(x *sim.Result) float64 { return x.E2E.Mean() }))
	}
	fmt.Fprintln(w)
}
