package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/sweep"
)

// quantiles at which a distribution is drawn.
var quantiles = func() (list []float64) {
	for q := 0.01; q < 0.995; q += 0.01 {
		list = append(list, q)
	}
	return append(list, 0.995, 0.999, 1)
}()

// shares draws what share of requests took no longer, all seeds together.
func shares(rows []*sweep.Row, p palette, ours string, of func(*sim.Result) *sim.Distribution) template.HTML {
	d := drawing{x: axis{low: math.Inf(1), logarithmic: true}, y: axis{low: 0, high: 1}}
	for _, r := range rows {
		var all sim.Distribution
		for _, x := range r.Results {
			all.Merge(of(x))
		}
		if all.Count() == 0 {
			continue
		}
		c := curve{name: r.Policy, colour: p[r.Policy], heavy: r.Policy == ours}
		for _, q := range quantiles {
			v := max(all.Quantile(q), 1e-5)
			c.x, c.y = append(c.x, v), append(c.y, q)
			d.x.low, d.x.high = min(d.x.low, v), max(d.x.high, v)
		}
		d.curves = append(d.curves, c)
	}
	if len(d.curves) == 0 {
		d.x.low, d.x.high = 0.1, 10
	}
	d.x.high = max(d.x.high, d.x.low*1.5)
	return d.svg()
}

// hits draws a bar a policy, and lines for what was possible.
func hits(rows []*sweep.Row, p palette, b sim.Bounds) template.HTML {
	const bar, gap, names = 13.0, 5.0, 112.0
	tall := top + float64(len(rows))*(bar+gap) + bottom
	most := max(b.HitRate, 0.01)
	for _, r := range rows {
		most = max(most, mean(r, (*sim.Result).HitRate))
	}
	scale := axis{low: 0, high: most * 1.05}
	across := width - names - right
	var s strings.Builder
	fmt.Fprintf(&s, `<svg viewBox="0 0 %g %g" role="img">`, width, tall)
	for _, v := range scale.ticks() {
		x := names + across*scale.at(v)
		fmt.Fprintf(&s, `<line class="grid" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/><text x="%.1f" y="%g" text-anchor="middle">%s</text>`, x, x, top, tall-bottom, x, tall-9, number(v))
	}
	for i, r := range rows {
		y := top + float64(i)*(bar+gap)
		v := mean(r, (*sim.Result).HitRate)
		fmt.Fprintf(&s, `<text x="%g" y="%.1f" text-anchor="end">%s</text><rect x="%g" y="%.1f" width="%.1f" height="%g" style="fill:%s"><title>%.3f</title></rect>`,
			names-6, y+bar-2, template.HTMLEscapeString(r.Policy), names, y, across*scale.at(v), bar, p[r.Policy], v)
	}
	for _, limit := range []struct {
		name string
		at   float64
	}{{"cache without end", b.HitRate}, {"what is needed last goes first", b.BestHitRate}, {"oldest goes first", b.PooledHitRate}} {
		if limit.at > 0 {
			x := names + across*scale.at(limit.at)
			fmt.Fprintf(&s, `<line class="limit" x1="%.1f" x2="%.1f" y1="%g" y2="%g"><title>one cache for all, %s: %.3f</title></line>`, x, x, top-4, tall-bottom, limit.name, limit.at)
		}
	}
	s.WriteString("</svg>")
	return template.HTML(s.String())
}

// course draws the mean TTFT of requests by when they came.
func course(rows []*sweep.Row, p palette, ours string) template.HTML {
	d := drawing{y: axis{low: math.Inf(1), logarithmic: true}}
	for _, r := range rows {
		x := r.Results[0]
		c := curve{name: r.Policy, colour: p[r.Policy], heavy: r.Policy == ours}
		for i, s := range x.Slices {
			if s.Requests == 0 {
				continue
			}
			at, v := (float64(i)+0.5)*x.SampleEvery.Minutes(), max(s.TTFTSeconds/float64(s.Requests), 1e-4)
			c.x, c.y = append(c.x, at), append(c.y, v)
			d.x.high = max(d.x.high, at)
			d.y.low, d.y.high = min(d.y.low, v), max(d.y.high, v)
		}
		d.curves = append(d.curves, c)
	}
	if d.x.high == 0 {
		d.x.high, d.y.low, d.y.high = 1, 0.1, 10
	}
	d.y.high = max(d.y.high, 1.5*d.y.low)
	return d.svg()
}

// linesMax is how many workers are drawn one by one.
const linesMax = 32

// loads draws the requests on each worker over time, and their mean.
func loads(x *sim.Result) template.HTML {
	n := len(x.Samples[0])
	all := make([]curve, min(n, linesMax), linesMax+1)
	sum := curve{name: "mean", colour: "var(--ours)", heavy: true}
	for i, row := range x.Samples {
		at, total := float64(i)*x.SampleEvery.Minutes(), 0
		for w, v := range row {
			total += v
			if w < len(all) {
				all[w].x, all[w].y = append(all[w].x, at), append(all[w].y, float64(v))
			}
		}
		sum.x, sum.y = append(sum.x, at), append(sum.y, float64(total)/float64(n))
	}
	d := drawing{x: span(sum.x)}
	for w := range all {
		all[w].name, all[w].colour = fmt.Sprintf("w%d", w), fmt.Sprintf("var(--c%d)", w%coloured+1)
		d.y.high = max(d.y.high, span(all[w].y).high)
	}
	d.curves = append(all, sum)
	return d.svg()
}

// goodput draws the share of good requests over the rate, a chart for each fleet.
func goodput(in *Input, p palette) (charts []chart) {
	var fleets []string
	for _, r := range in.Rows {
		if f := sim.FleetName(r.At.Fleet); !slices.Contains(fleets, f) {
			fleets = append(fleets, f)
		}
	}
	for _, f := range fleets {
		d := drawing{y: axis{low: 0, high: 1}}
		for _, r := range in.Rows {
			if sim.FleetName(r.At.Fleet) != f {
				continue
			}
			i := slices.IndexFunc(d.curves, func(c curve) bool { return c.name == r.Policy })
			if i < 0 {
				d.curves = append(d.curves, curve{name: r.Policy, colour: p[r.Policy], heavy: r.Policy == in.Ours})
				i = len(d.curves) - 1
			}
			d.curves[i].x, d.curves[i].y = append(d.curves[i].x, r.At.Rate), append(d.curves[i].y, mean(r, (*sim.Result).GoodShare))
			if !slices.Contains(d.steps, r.At.Rate) {
				d.steps = append(d.steps, r.At.Rate)
			}
		}
		d.x = axis{low: slices.Min(d.steps), high: slices.Max(d.steps)}
		if d.x.low == d.x.high {
			d.x.low, d.x.high = d.x.low*0.9, d.x.high*1.1
		}
		charts = append(charts, chart{"share of requests that are good, over the rate: " + f, d.svg()})
	}
	return charts
}
