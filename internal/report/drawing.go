package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// Sizes of a drawing in its own units; the page scales it to its column.
const (
	width, height                    = 420.0, 240.0
	left, right, top, bottom         = 46.0, 12.0, 12.0, 26.0
	innerWidth, innerHeight          = width - left - right, height - top - bottom
	ticksWanted              float64 = 5
)

// axis maps values to 0..1.
type axis struct {
	low, high   float64
	logarithmic bool
}

func (a axis) at(v float64) float64 {
	if a.logarithmic {
		return math.Log(v/a.low) / math.Log(a.high/a.low)
	}
	return (v - a.low) / (a.high - a.low)
}

// ticks are round values within the axis.
func (a axis) ticks() (list []float64) {
	if a.logarithmic {
		for v := math.Pow(10, math.Floor(math.Log10(a.low))); v <= a.high*1.0001; v *= 10 {
			if v >= a.low*0.9999 {
				list = append(list, v)
			}
		}
		if len(list) < 3 {
			return append(append([]float64{}, a.low), append(list, a.high)...)
		}
		return list
	}
	step := math.Pow(10, math.Floor(math.Log10((a.high-a.low)/ticksWanted)))
	for _, f := range []float64{1, 2, 5, 10} {
		if (a.high-a.low)/(step*f) <= ticksWanted {
			step *= f
			break
		}
	}
	for v := math.Ceil(a.low/step-1e-9) * step; v <= a.high+step*1e-9; v += step {
		list = append(list, v)
	}
	return list
}

// curve is one line of a drawing.
type curve struct {
	name, colour string
	heavy        bool
	x, y         []float64
}

// drawing is a chart of curves.
type drawing struct {
	x, y   axis
	curves []curve
	// steps draws every tick of x where the values are few and given, as rates are.
	steps []float64
}

func (d *drawing) svg() template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img">`, width, height)
	xs := d.steps
	if xs == nil {
		xs = d.x.ticks()
	}
	for _, v := range xs {
		x := left + innerWidth*d.x.at(v)
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/><text x="%.1f" y="%g" text-anchor="middle">%s</text>`,
			x, x, top, top+innerHeight, x, height-9, number(v))
	}
	for _, v := range d.y.ticks() {
		y := top + innerHeight*(1-d.y.at(v))
		fmt.Fprintf(&b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text x="%g" y="%.1f" text-anchor="end">%s</text>`,
			left, left+innerWidth, y, y, left-6, y+4, number(v))
	}
	for _, heavy := range []bool{false, true} { // the heavy ones on top
		for _, c := range d.curves {
			if c.heavy == heavy {
				d.draw(&b, c)
			}
		}
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // numbers, and names that are escaped
}

func (d *drawing) draw(b *strings.Builder, c curve) {
	class := "curve"
	if c.heavy {
		class = "curve ours"
	}
	fmt.Fprintf(b, `<polyline class="%s" style="stroke:%s" points="`, class, c.colour)
	for i := range c.x {
		x, y := d.x.at(c.x[i]), d.y.at(c.y[i])
		if math.IsNaN(x) || math.IsNaN(y) || math.IsInf(x, 0) || math.IsInf(y, 0) {
			continue
		}
		fmt.Fprintf(b, "%.1f,%.1f ", left+innerWidth*min(max(x, 0), 1), top+innerHeight*(1-min(max(y, 0), 1)))
	}
	fmt.Fprintf(b, `"><title>%s</title></polyline>`, template.HTMLEscapeString(c.name))
}

// number writes a tick.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a < 1e-12:
		return "0"
	case a < 0.001 || a >= 1e6:
		return fmt.Sprintf("%.0e", v)
	case a >= 1000:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// span is an axis around values, from 0.
func span(values ...[]float64) axis {
	most := 0.0
	for _, list := range values {
		for _, v := range list {
			most = max(most, v)
		}
	}
	if most == 0 {
		most = 1
	}
	return axis{low: 0, high: most * 1.04}
}
