// Package report writes what came of a replay as one HTML page that needs nothing else: no script, no network, light and dark.
//
//	err := report.Write(w, report.Input{Command: "warmpath replay ...", Title: "mooncake.jsonl", Rows: rows, SLO: slo})
package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"

	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/sweep"
)

//go:embed page.html
var page string

// Input is what a report is made of.
type Input struct {
	Title   string
	Command string // that makes it again
	Ours    string // the policy that is set off from the others
	Rows    []*sweep.Row
	SLO     sim.SLO
	SLOText string
	Knees   []Knee   // where an SLO is set
	Savings []string // in words
}

// Knee is the highest rate at which a policy meets the SLO on so many workers, in words.
type Knee struct {
	Policy  string
	Workers int
	Rate    string
}

// line is a table's row.
type line struct {
	Name  string
	Cells []string
	Ours  bool
}

type chart struct {
	Caption string
	Drawing template.HTML
}

type key struct {
	Name   string
	Colour template.CSS
}

// point is the part of the page about one point.
type point struct {
	Name, Possible string
	Columns        []string
	Rows           []line
	Times          []chart
	Hits, Course   chart
	Loads          []chart
}

type view struct {
	Title, Headline, Command, SLO string
	Measures                      []string
	Standings                     []line
	Legend                        []key
	Goodput                       []chart
	Knees                         []line
	Savings                       []string
	Points                        []point
}

// coloured is how many policies have a colour of their own, beside ours: the best.
const coloured = 6

// palette gives each policy its colour.
type palette map[string]string

func colours(in *Input, standings []sweep.Standing) palette {
	p := palette{}
	n := 0
	for _, s := range standings {
		switch {
		case s.Policy == in.Ours:
			p[s.Policy] = "var(--ours)"
		case n < coloured:
			n++
			p[s.Policy] = fmt.Sprintf("var(--c%d)", n)
		default:
			p[s.Policy] = "var(--rest)"
		}
	}
	return p
}

// Write writes the page. Rows are in the order of their points.
func Write(w io.Writer, in Input) error {
	tree, err := template.New("page").Parse(page)
	if err != nil {
		return err
	}
	standings := sweep.Standings(in.Rows)
	p := colours(&in, standings)
	v := view{Title: in.Title, Command: in.Command, SLO: in.SLOText, Savings: in.Savings, Headline: headline(&in)}
	for _, m := range sweep.Measures {
		v.Measures = append(v.Measures, m.Name)
	}
	for _, s := range standings {
		l := line{Name: s.Policy, Ours: s.Policy == in.Ours}
		for i := range sweep.Measures {
			l.Cells = append(l.Cells, fmt.Sprintf("%.3f / %.2f", s.Geometric[i], s.Worst[i]))
		}
		v.Standings = append(v.Standings, l)
		name := s.Policy
		if p[name] == "var(--rest)" {
			name = "the others"
		}
		if n := len(v.Legend); n == 0 || v.Legend[n-1].Name != name {
			v.Legend = append(v.Legend, key{name, template.CSS(p[s.Policy])})
		}
	}
	if len(v.Standings) < 2 {
		v.Standings = nil
	}
	if in.SLO.Set() {
		v.Goodput = goodput(&in, p)
		for _, k := range in.Knees {
			v.Knees = append(v.Knees, line{k.Policy, []string{fmt.Sprint(k.Workers), k.Rate}, k.Policy == in.Ours})
		}
	}
	for _, rows := range byPoint(in.Rows) {
		v.Points = append(v.Points, describe(&in, rows, p))
	}
	return tree.Execute(w, v)
}

func byPoint(rows []*sweep.Row) (points [][]*sweep.Row) {
	for i, r := range rows {
		if i == 0 || rows[i-1].Point != r.Point {
			points = append(points, nil)
		}
		points[len(points)-1] = append(points[len(points)-1], r)
	}
	return points
}

// headline says what ours made of what was possible, at the first point.
func headline(in *Input) string {
	i := slices.IndexFunc(in.Rows, func(r *sweep.Row) bool { return r.Policy == in.Ours })
	if i < 0 {
		i = 0
	}
	r := in.Rows[i]
	b := r.Results[0].Bounds
	reachable := b.BestHitRate
	if reachable == 0 {
		reachable = b.HitRate
	}
	text := fmt.Sprintf("%s at %s: mean TTFT %.3f s, hit rate %.3f", r.Policy, r.At, mean(r, func(x *sim.Result) float64 { return x.TTFT.Mean() }), mean(r, (*sim.Result).HitRate))
	if reachable > 0 {
		text += fmt.Sprintf(" of %.3f reachable", reachable)
	}
	if b.TTFT > 0 {
		text += fmt.Sprintf(", mean TTFT %.2f times the bound", mean(r, func(x *sim.Result) float64 { return x.TTFT.Mean() })/b.TTFT)
	}
	return text + "."
}

func mean(r *sweep.Row, f func(*sim.Result) float64) float64 { return r.Of(f).Mean }

// describe makes a point's part of the page.
func describe(in *Input, rows []*sweep.Row, p palette) point {
	first := rows[0].Results[0]
	b := first.Bounds
	v := point{
		Name:     rows[0].At.String(),
		Possible: fmt.Sprintf("%d requests, %d refused that fit on no worker, %d seeds.", first.Finished, first.Refused, len(rows[0].Results)),
		Columns:  []string{"policy", "TTFT mean s", "p50", "p99", "/ bound", "TPOT ms", "E2E s", "hit rate", "declined", "busiest / mean"},
	}
	if b.TTFT > 0 {
		v.Possible += fmt.Sprintf(" Possible: mean TTFT above %.3f s, TPOT %.1f ms, E2E %.2f s; hit rate %.3f", b.TTFT, 1e3*b.TPOT, b.E2E, b.HitRate)
		if b.BestHitRate > 0 {
			v.Possible += fmt.Sprintf(", %.3f in the room there is, %.3f by age", b.BestHitRate, b.PooledHitRate)
		}
		v.Possible += "."
	}
	if in.SLO.Set() {
		v.Columns = append(v.Columns, "good")
	}
	for _, r := range rows {
		v.Rows = append(v.Rows, cells(in, r))
	}
	for _, t := range []struct {
		caption string
		of      func(*sim.Result) *sim.Distribution
		bound   float64
	}{
		{"time to the first token, s", func(x *sim.Result) *sim.Distribution { return &x.TTFT }, 0},
		{"time per output token, s", func(x *sim.Result) *sim.Distribution { return &x.TPOT }, b.TPOT},
		{"end to end, s", func(x *sim.Result) *sim.Distribution { return &x.E2E }, 0},
	} {
		v.Times = append(v.Times, chart{t.caption, shares(rows, p, in.Ours, t.of)})
	}
	v.Hits = chart{"hit rate", hits(rows, p, b)}
	v.Course = chart{"mean TTFT of the requests that came then, s, over minutes", course(rows, p, in.Ours)}
	for _, r := range notable(in, rows) {
		if len(r.Results[0].Samples) > 1 {
			v.Loads = append(v.Loads, chart{r.Policy, loads(r.Results[0])})
		}
	}
	return v
}

// notableMax is for how many policies the load of each worker is drawn: with all of them the page would be megabytes.
const notableMax = 4

// notable are ours and the best others by mean TTFT.
func notable(in *Input, rows []*sweep.Row) []*sweep.Row {
	best := slices.Clone(rows)
	slices.SortStableFunc(best, func(a, b *sweep.Row) int {
		if (a.Policy == in.Ours) != (b.Policy == in.Ours) {
			return map[bool]int{true: -1, false: 1}[a.Policy == in.Ours]
		}
		ttft := func(x *sim.Result) float64 { return x.TTFT.Mean() }
		return cmp.Compare(mean(a, ttft), mean(b, ttft))
	})
	return best[:min(len(best), notableMax)]
}

func cells(in *Input, r *sweep.Row) line {
	ttft := mean(r, func(x *sim.Result) float64 { return x.TTFT.Mean() })
	over := "-"
	if b := r.Results[0].Bounds.TTFT; b > 0 {
		over = fmt.Sprintf("%.2f", ttft/b)
	}
	l := line{Name: r.Policy, Ours: r.Policy == in.Ours, Cells: []string{
		figure(r.Of(func(x *sim.Result) float64 { return x.TTFT.Mean() }), 3),
		fmt.Sprintf("%.3f", mean(r, func(x *sim.Result) float64 { return x.TTFT.Quantile(0.5) })),
		fmt.Sprintf("%.2f", mean(r, func(x *sim.Result) float64 { return x.TTFT.Quantile(0.99) })), over,
		figure(r.Of(func(x *sim.Result) float64 { return 1e3 * x.TPOT.Mean() }), 1),
		figure(r.Of(func(x *sim.Result) float64 { return x.E2E.Mean() }), 2),
		fmt.Sprintf("%.3f", mean(r, (*sim.Result).HitRate)),
		fmt.Sprintf("%.0f", mean(r, func(x *sim.Result) float64 { return float64(x.Declined) })),
		fmt.Sprintf("%.2f", mean(r, (*sim.Result).Spread)),
	}}
	if in.SLO.Set() {
		l.Cells = append(l.Cells, fmt.Sprintf("%.3f", mean(r, (*sim.Result).GoodShare)))
	}
	return l
}

func figure(f sweep.Figure, digits int) string {
	if f.Spread > 0 {
		return fmt.Sprintf("%.*f ±%.*f", digits, f.Mean, digits, f.Spread)
	}
	return fmt.Sprintf("%.*f", digits, f.Mean)
}
