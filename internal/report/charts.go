package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/lineup"
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

// shares draws what share of requests took no longer, all seeds together, and what was promised.
func shares(rows []*sweep.Row, p palette, in *Input, caption string, promised time.Duration, of func(*sim.Result) *sim.Distribution) chart {
	d := drawing{label: caption, x: axis{low: math.Inf(1), logarithmic: true}, y: axis{low: 0, high: 1}, limitX: promised.Seconds()}
	for _, r := range rows {
		var all sim.Distribution
		for _, x := range r.Results {
			all.Merge(of(x))
		}
		if all.Count() == 0 {
			continue
		}
		c := curve{name: r.Policy, colour: p[r.Policy], heavy: r.Policy == in.Ours}
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
	c := chart{Caption: caption, Drawing: d.svg()}
	if promised > 0 {
		c.Note = fmt.Sprintf("dashed: %v of the SLO", promised)
	}
	return c
}

// courseSlices is in how many pieces of time the course is drawn at most.
const courseSlices = 50

// course draws the mean TTFT of requests by when they came, of those policies that have a colour: more cannot be told apart.
func course(rows []*sweep.Row, p palette, ours string) chart {
	c := chart{Caption: "mean time to the first token, s, by the minute of arrival"}
	d := drawing{label: c.Caption, y: axis{low: math.Inf(1), logarithmic: true}}
	for _, r := range rows {
		x := r.Results[0]
		if p[r.Policy] == rest {
			continue
		}
		c := curve{name: r.Policy, colour: p[r.Policy], heavy: r.Policy == ours}
		wide := (len(x.Slices) + courseSlices - 1) / courseSlices
		for i := 0; i < len(x.Slices); i += wide {
			var sum sim.Slice
			for _, s := range x.Slices[i:min(i+wide, len(x.Slices))] {
				sum.Requests += s.Requests
				sum.TTFTSeconds += s.TTFTSeconds
			}
			if sum.Requests == 0 {
				continue
			}
			at, v := (float64(i)+float64(wide)/2)*x.SampleEvery.Minutes(), max(sum.TTFTSeconds/float64(sum.Requests), 1e-4)
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
	c.Drawing = d.svg()
	if len(rows[0].Results) > 1 {
		c.Note = "first seed"
	}
	if len(d.curves) < len(rows) {
		c.Note = strings.TrimPrefix(c.Note+"; the best policies only", "; ")
	}
	return c
}

// loads draws the requests on each worker over time, ours and the best others, on one scale.
func loads(in *Input, rows []*sweep.Row) (charts []chart, most int) {
	drawn := slices.DeleteFunc(notable(in, rows), func(r *sweep.Row) bool { return len(r.Results[0].Samples) < 2 })
	for _, r := range drawn {
		most = max(most, busiest(r.Results[0]))
	}
	for _, r := range drawn {
		charts = append(charts, chart{Caption: r.Policy, Drawing: heat(r.Results[0], "requests on each worker over time under "+r.Policy, most)})
	}
	return charts, most
}

// goodput draws the share of good requests over the rate, a chart for each fleet. Of points that differ in more than their rate the
// first counts.
func goodput(in *Input, p palette) (charts []chart) {
	var fleets []string
	for _, r := range in.Rows {
		if f := lineup.Name(r.At.Fleet); !slices.Contains(fleets, f) {
			fleets = append(fleets, f)
		}
	}
	for _, f := range fleets {
		d := drawing{label: "share of good requests on " + f, y: axis{low: 0, high: 1}, limitY: in.SLO.Share}
		for _, r := range in.Rows {
			if lineup.Name(r.At.Fleet) != f {
				continue
			}
			i := slices.IndexFunc(d.curves, func(c curve) bool { return c.name == r.Policy })
			if i < 0 {
				d.curves = append(d.curves, curve{name: r.Policy, colour: p[r.Policy], heavy: r.Policy == in.Ours})
				i = len(d.curves) - 1
			}
			if c := &d.curves[i]; !slices.Contains(c.x, r.At.Rate) {
				c.x, c.y = append(c.x, r.At.Rate), append(c.y, mean(r, (*sim.Result).GoodShare))
			}
			if !slices.Contains(d.steps, r.At.Rate) {
				d.steps = append(d.steps, r.At.Rate)
			}
		}
		slices.Sort(d.steps)
		for i := range d.curves {
			d.curves[i].sort()
		}
		d.x = axis{low: d.steps[0], high: d.steps[len(d.steps)-1]}
		if d.x.low == d.x.high {
			d.x.low, d.x.high = d.x.low*0.9, d.x.high*1.1
		}
		charts = append(charts, chart{"share of requests that are good, over the rate: " + f, d.svg(), fmt.Sprintf("dashed: %g is the share that is asked for", in.SLO.Share)})
	}
	return charts
}

// sort puts the points of a curve in the order of x, however the rates were written.
func (c *curve) sort() {
	order := make([]int, len(c.x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if c.x[a] < c.x[b] {
			return -1
		}
		return 1
	})
	x, y := slices.Clone(c.x), slices.Clone(c.y)
	for i, from := range order {
		c.x[i], c.y[i] = x[from], y[from]
	}
}
