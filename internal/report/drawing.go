package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// Sizes of a drawing in its own units; the page scales it to its column. Letters are 13 high, so that they are 11 px and more on a
// telephone, where a column is 370 px wide.
const (
	width, height                    = 400.0, 236.0
	left, right, top, bottom         = 50.0, 16.0, 12.0, 28.0
	innerWidth, innerHeight          = width - left - right, height - top - bottom
	ticksWanted              float64 = 5
	// labels nearer to one another than this are left out, of an axis across and of one upwards
	labelAcross, labelUp = 46.0, 17.0
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

// within is at, kept on the axis.
func (a axis) within(v float64) float64 { return min(max(a.at(v), 0), 1) }

// ticks are round values within the axis.
func (a axis) ticks() (list []float64) {
	if a.logarithmic {
		return a.powers()
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

// powers are powers of ten; where those are few, numbers between them too.
func (a axis) powers() (list []float64) {
	for _, between := range [][]float64{{1}, {1, 2, 5}, {1, 1.5, 2, 3, 4, 5, 6, 8}} {
		list = list[:0]
		for ten := math.Pow(10, math.Floor(math.Log10(a.low))); ten <= a.high; ten *= 10 {
			for _, f := range between {
				if v := ten * f; v >= a.low*0.9999 && v <= a.high*1.0001 {
					list = append(list, v)
				}
			}
		}
		if len(list) >= 3 {
			return list
		}
	}
	return []float64{a.low, a.high}
}

// curve is one line of a drawing.
type curve struct {
	name, colour string
	heavy        bool
	x, y         []float64
}

// drawing is a chart of curves.
type drawing struct {
	label  string // for those who do not see it
	x, y   axis
	curves []curve
	// steps draws every tick of x where the values are few and given, as rates are.
	steps []float64
	// limitX and limitY are values to be held, if above 0: dashed lines.
	limitX, limitY float64
}

// begin writes the head of an image.
func begin(b *strings.Builder, label string, tall float64) {
	fmt.Fprintf(b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, width, tall, template.HTMLEscapeString(label))
}

func (d *drawing) svg() template.HTML {
	var b strings.Builder
	begin(&b, d.label, height)
	xs := d.steps
	if xs == nil {
		xs = d.x.ticks()
	}
	across(&b, d.x, xs, left, innerWidth, top, top+innerHeight)
	last := math.Inf(1)
	for _, v := range d.y.ticks() {
		y := top + innerHeight*(1-d.y.at(v))
		fmt.Fprintf(&b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/>`, left, left+innerWidth, y, y)
		if last-y >= labelUp {
			fmt.Fprintf(&b, `<text x="%g" y="%.1f" text-anchor="end">%s</text>`, left-6, y+4, number(v))
			last = y
		}
	}
	for _, heavy := range []bool{false, true} { // the heavy ones on top
		for _, c := range d.curves {
			if c.heavy == heavy {
				d.draw(&b, c)
			}
		}
	}
	if d.limitX > 0 && d.x.at(d.limitX) > 0 && d.x.at(d.limitX) < 1 {
		x := left + innerWidth*d.x.at(d.limitX)
		fmt.Fprintf(&b, `<line class="limit" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/>`, x, x, top, top+innerHeight)
	}
	if d.limitY > 0 {
		y := top + innerHeight*(1-d.y.within(d.limitY))
		fmt.Fprintf(&b, `<line class="limit" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/>`, left, left+innerWidth, y, y)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // numbers, and names that are escaped
}

// across draws an axis from left to right with its lines, between two heights; labels stand below.
func across(b *strings.Builder, a axis, ticks []float64, from, wide, high, low float64) {
	last := math.Inf(-1)
	for _, v := range ticks {
		x := from + wide*a.at(v)
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/>`, x, x, high, low)
		if x-last < labelAcross {
			continue
		}
		text, half := number(v), 4.2*float64(len(number(v)))
		fmt.Fprintf(b, `<text x="%.1f" y="%g" text-anchor="middle">%s</text>`, min(x, width-3-half), low+17, text)
		last = x
	}
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
	if len(c.x) == 1 { // no line, but a result
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3.5" style="fill:%s"/>`, left+innerWidth*d.x.within(c.x[0]), top+innerHeight*(1-d.y.within(c.y[0])), c.colour)
	}
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
