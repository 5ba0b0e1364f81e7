package sweep

import (
	"math"
	"slices"

	"github.com/warmpath/warmpath/internal/sim"
)

// Figure is a mean over seeds and how far it may be off.
type Figure struct {
	Mean float64
	// Spread is half of the 95 % confidence interval, by Student's t; 0 of one seed.
	Spread float64
}

// Row is one policy at one point, over all its seeds.
type Row struct {
	Point   int
	At      Point
	Policy  string
	Results []*sim.Result
}

// Of takes a figure of each result.
func (r *Row) Of(f func(*sim.Result) float64) Figure {
	values := make([]float64, len(r.Results))
	for i, x := range r.Results {
		values[i] = f(x)
	}
	return figure(values)
}

// student is the 97.5 % quantile of Student's t, by degrees of freedom from 1.
var student = []float64{12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23}

func figure(values []float64) Figure {
	n := float64(len(values))
	var sum, squares float64
	for _, v := range values {
		sum += v
	}
	mean := sum / n
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	if n < 2 {
		return Figure{Mean: mean}
	}
	t := 1.96
	if len(values)-2 < len(student) {
		t = student[len(values)-2]
	}
	return Figure{mean, t * math.Sqrt(squares/(n-1)/n)}
}

// Compare gathers what is done: by point, then by policy in the order of the sweep.
func Compare(runs []*Run) (rows []*Row) {
	for _, r := range runs {
		if r.Result == nil {
			continue
		}
		i := slices.IndexFunc(rows, func(x *Row) bool { return x.Point == r.Point && x.Policy == r.Config.Policy })
		if i < 0 {
			rows = append(rows, &Row{Point: r.Point, At: r.At, Policy: r.Config.Policy})
			i = len(rows) - 1
		}
		rows[i].Results = append(rows[i].Results, r.Result)
	}
	return rows
}

// Measure is a time by which policies are judged; less is better.
type Measure struct {
	Name string
	Of   func(*sim.Result) float64
}

// Measures are those of a verdict.
var Measures = []Measure{
	{"TTFT mean", func(r *sim.Result) float64 { return r.TTFT.Mean() }},
	{"TTFT p99", func(r *sim.Result) float64 { return r.TTFT.Quantile(0.99) }},
	{"E2E mean", func(r *sim.Result) float64 { return r.E2E.Mean() }},
}

// Standing is how a policy did against the best one of each point and seed.
type Standing struct {
	Policy string
	// Geometric is the geometric mean over points of the ratio to the best, Worst the largest of a point; each is a point's mean over
	// its seeds. By Measures.
	Geometric, Worst []float64
	WorstAt          []Point
}

// Standings judges all policies over all points, the best by the product of its geometric means first.
func Standings(rows []*Row) (all []Standing) {
	names := []string{}
	for _, r := range rows {
		if !slices.Contains(names, r.Policy) {
			names = append(names, r.Policy)
		}
	}
	for _, name := range names {
		s := Standing{Policy: name}
		for _, m := range Measures {
			geometric, worst, at := against(rows, name, m)
			s.Geometric, s.Worst, s.WorstAt = append(s.Geometric, geometric), append(s.Worst, worst), append(s.WorstAt, at)
		}
		all = append(all, s)
	}
	product := func(s Standing) float64 {
		p := 1.0
		for _, g := range s.Geometric {
			p *= g
		}
		return p
	}
	slices.SortStableFunc(all, func(a, b Standing) int {
		switch x, y := product(a), product(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return all
}

func against(rows []*Row, name string, m Measure) (geometric, worst float64, at Point) {
	var logs float64
	points := 0
	for _, r := range rows {
		if r.Policy != name {
			continue
		}
		sum := 0.0
		for seed, x := range r.Results {
			best := math.Inf(1)
			for _, o := range rows {
				if o.Point == r.Point && seed < len(o.Results) {
					best = min(best, m.Of(o.Results[seed]))
				}
			}
			if best > 0 {
				sum += m.Of(x) / best
			} else {
				sum++
			}
		}
		ratio := sum / float64(len(r.Results))
		logs += math.Log(ratio)
		points++
		if ratio > worst {
			worst, at = ratio, r.At
		}
	}
	return math.Exp(logs / float64(points)), worst, at
}
