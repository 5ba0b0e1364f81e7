package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"

	"github.com/warmpath/warmpath/internal/bounds"
	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/sweep"
)

// A row of a chart of one figure a policy: its name, the figure drawn, the figure written.
const (
	rowTall, rowGap = 14.0, 6.0
	nameWide        = 118.0
	figureWide      = 56.0
	rowWide         = width - nameWide - figureWide
)

// ranked draws one figure a policy.
type ranked struct {
	label  string
	scale  axis
	limits []float64 // dashed lines
	format string
}

func (k ranked) svg(rows []*sweep.Row, p palette, of func(*sim.Result) float64) template.HTML {
	var b strings.Builder
	low := top + float64(len(rows))*(rowTall+rowGap)
	begin(&b, k.label, low+bottom)
	across(&b, k.scale, k.scale.ticks(), nameWide, rowWide, top-4, low)
	for i, r := range rows {
		y, f := top+float64(i)*(rowTall+rowGap), r.Of(of)
		x := nameWide + rowWide*k.scale.within(f.Mean)
		fmt.Fprintf(&b, `<text x="%g" y="%.1f" text-anchor="end">%s</text><text x="%g" y="%.1f" text-anchor="end">`+k.format+`</text>`,
			nameWide-7, y+11.5, template.HTMLEscapeString(r.Policy), width-4, y+11.5, f.Mean)
		if k.scale.logarithmic { // without a zero the length of a bar says nothing
			fmt.Fprintf(&b, `<path class="grid" d="M%g %.1fH%.1f"/><circle cx="%.1f" cy="%.1f" r="5" style="fill:%s"/>`, nameWide, y+rowTall/2, x, x, y+rowTall/2, p[r.Policy])
		} else {
			fmt.Fprintf(&b, `<rect x="%g" y="%.1f" width="%.1f" height="%g" rx="2" style="fill:%s"/>`, nameWide, y, max(x-nameWide, 1), rowTall, p[r.Policy])
		}
		if f.Spread > 0 {
			from, to := nameWide+rowWide*k.scale.within(max(f.Mean-f.Spread, k.scale.low)), nameWide+rowWide*k.scale.within(f.Mean+f.Spread)
			fmt.Fprintf(&b, `<path class="spread" d="M%.1f %.1fH%.1f"/>`, from, y+rowTall/2, to)
		}
	}
	for _, v := range k.limits {
		if v > 0 {
			x := nameWide + rowWide*k.scale.within(v)
			fmt.Fprintf(&b, `<line class="limit" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/>`, x, x, top-4, low)
		}
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // numbers, and names that are escaped
}

// hits draws the hit rates, and what was possible.
func hits(rows []*sweep.Row, p palette, b bounds.Bounds) chart {
	most := max(b.HitRate, 0.01)
	for _, r := range rows {
		most = max(most, mean(r, (*sim.Result).HitRate))
	}
	c := chart{Caption: "share of prompt tokens found cached"}
	k := ranked{c.Caption, axis{low: 0, high: most * 1.03}, []float64{b.HitRate, b.BestHitRate, b.PooledHitRate}, "%.3f"}
	c.Drawing = k.svg(rows, p, (*sim.Result).HitRate)
	if b.HitRate > 0 {
		c.Note = fmt.Sprintf("dashed: %.3f one cache for all, without end", b.HitRate)
	}
	if b.BestHitRate > 0 {
		c.Note += fmt.Sprintf("; %.3f as large as the fleet's, what is needed last goes first; %.3f the same, oldest first", b.BestHitRate, b.PooledHitRate)
	}
	return c
}

// firsts draws the mean times to the first token over the bound.
func firsts(rows []*sweep.Row, p palette, b bounds.Bounds) chart {
	of := func(x *sim.Result) float64 { return x.TTFT.Mean() }
	least, most := math.Inf(1), 0.0
	if b.TTFT > 0 {
		least = b.TTFT
	}
	for _, r := range rows {
		v := max(mean(r, of), 1e-5)
		least, most = min(least, v), max(most, v)
	}
	c := chart{Caption: "mean time to the first token, s"}
	k := ranked{c.Caption, axis{low: least * 0.8, high: max(most, least) * 1.15, logarithmic: true}, []float64{b.TTFT}, "%.3f"}
	c.Drawing = k.svg(rows, p, of)
	if b.TTFT > 0 {
		c.Note = fmt.Sprintf("dashed: %.3f s, which no policy's mean is below", b.TTFT)
	}
	return c
}

// The load of workers is drawn in so many rows, columns and shades at most.
const heatRows, heatColumns, heatShades = 64, 240, 8

// busiest is the most requests on one worker that a result has a sample of.
func busiest(x *sim.Result) (most int) {
	for _, row := range x.Samples {
		for _, v := range row {
			most = max(most, v)
		}
	}
	return most
}

// heat draws the requests on each worker over time, the stronger the more, most the strongest. Where there are more workers or samples
// than fit, one field is the most of several.
func heat(x *sim.Result, label string, most int) template.HTML {
	workers, samples := len(x.Samples[0]), len(x.Samples)
	rows, columns := min(workers, heatRows), min(samples, heatColumns)
	shade := make([][]int, rows)
	for r := range shade {
		shade[r] = make([]int, columns)
	}
	for i, sample := range x.Samples {
		for w, v := range sample {
			at := &shade[w*rows/workers][i*columns/samples]
			*at = max(*at, (v*heatShades+most-1)/max(most, 1))
		}
	}
	tall := min(max(150/float64(rows), 3), 20)
	low := top + tall*float64(rows)
	var b strings.Builder
	begin(&b, label, low+bottom)
	scale := axis{high: max(float64(samples)*x.SampleEvery.Minutes(), 1e-9)}
	across(&b, scale, scale.ticks(), left, innerWidth, top, low)
	named := math.Inf(-1)
	for r := range rows {
		if y := top + tall*(float64(r)+0.5); y-named >= labelUp {
			fmt.Fprintf(&b, `<text x="%g" y="%.1f" text-anchor="end">w%d</text>`, left-6, y+4.5, r*workers/rows)
			named = y
		}
	}
	for s := 1; s <= heatShades; s++ {
		fmt.Fprintf(&b, `<path class="heat" fill-opacity="%.2f" d="`, float64(s)/heatShades)
		for r, row := range shade {
			for from := 0; from < columns; {
				to := from + 1
				for to < columns && row[to] == row[from] {
					to++
				}
				if row[from] == s {
					x0, x1 := left+innerWidth*float64(from)/float64(columns), left+innerWidth*float64(to)/float64(columns)
					fmt.Fprintf(&b, "M%.1f %.1fH%.1fv%.1fH%.1fz", x0, top+tall*float64(r)+0.4, x1, tall-0.8, x0)
				}
				from = to
			}
		}
		b.WriteString(`"/>`)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // numbers
}
