package contest

import (
	"cmp"
	"math"
	"slices"

	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/sweep"
)

// measures are what policies are judged by, less is better, and how far the default policy may be from the best of all.
var measures = []struct {
	name             string
	of               func(*sim.Result) float64
	geometric, worst float64
}{
	{"TTFT mean", func(r *sim.Result) float64 { return r.TTFT.Mean() }, 1.06, 1.3},
	{"TTFT p99", func(r *sim.Result) float64 { return r.TTFT.Quantile(0.99) }, 1.10, 1.6},
	{"E2E mean", func(r *sim.Result) float64 { return r.E2E.Mean() }, 1.03, 1.2},
}

// Cell is one policy at one point, over the seeds.
type Cell struct {
	Policy string
	// Mean is each measure's in seconds, over the seeds. Ratio is to the best policy of each seed, their mean; Worst the largest of a
	// seed; MeanRatio of Mean to the least Mean.
	Mean, Ratio, Worst, MeanRatio [3]float64
	results                       []*sim.Result
	part                          bool // not a policy, but a part of one: it is compared, and nobody with it
}

// Row is one point under all policies.
type Row struct {
	Index int
	Point
	Cells []Cell
}

// cell is a policy's.
func (r *Row) cell(policy string) *Cell {
	i := slices.IndexFunc(r.Cells, func(c Cell) bool { return c.Policy == policy })
	if i < 0 {
		return nil
	}
	return &r.Cells[i]
}

// best is the policy with the least mean.
func (r *Row) best(measure int) *Cell {
	best := &r.Cells[0]
	for i := range r.Cells {
		if c := &r.Cells[i]; !c.part && c.Mean[measure] < best.Mean[measure] {
			best = c
		}
	}
	return best
}

// rows gathers runs that are done, in the order of points. Points that lack a run are left out: interrupted, they compare nothing.
func (c *Contest) rows(runs []*sweep.Run) (rows []*Row) {
	byPoint := map[int][]*sweep.Run{}
	for _, r := range runs {
		byPoint[r.Point] = append(byPoint[r.Point], r)
	}
	for i, p := range c.points {
		of := byPoint[i]
		if len(of) == 0 || slices.ContainsFunc(of, func(r *sweep.Run) bool { return r.Result == nil }) {
			continue
		}
		row := &Row{Index: i, Point: p}
		for _, r := range of {
			name := ruleName(&r.Config)
			c := row.cell(name)
			if c == nil {
				row.Cells = append(row.Cells, Cell{Policy: name, part: r.Config.Without != 0})
				c = &row.Cells[len(row.Cells)-1]
			}
			c.results = append(c.results, r.Result)
		}
		row.compare()
		rows = append(rows, row)
	}
	return rows
}

// compare fills in the figures of all cells, which have the same seeds.
func (r *Row) compare() {
	seeds := len(r.Cells[0].results)
	for m := range measures {
		of := measures[m].of
		for seed := range seeds {
			best := math.Inf(1)
			for i := range r.Cells {
				if c := &r.Cells[i]; !c.part {
					best = min(best, of(c.results[seed]))
				}
			}
			for i := range r.Cells {
				c := &r.Cells[i]
				value := of(c.results[seed])
				c.Mean[m] += value / float64(seeds)
				c.Ratio[m] += value / best / float64(seeds)
				c.Worst[m] = max(c.Worst[m], value/best)
			}
		}
		best := r.best(m).Mean[m]
		for i := range r.Cells {
			r.Cells[i].MeanRatio[m] = r.Cells[i].Mean[m] / best
		}
	}
}

// Standing is how far a policy is from the best ones, over points.
type Standing struct {
	Policy string
	Points int
	// Geometric is the geometric mean over points of Cell.Ratio, Worst the largest, At that point; SeedWorst is the largest of one seed.
	// MeanGeometric and MeanWorst are of Cell.MeanRatio.
	Geometric, Worst, SeedWorst, MeanGeometric, MeanWorst [3]float64
	At                                                    [3]string
}

// standings of all policies over rows, the best product of geometric means first.
func standings(rows []*Row) (all []Standing) {
	if len(rows) == 0 {
		return nil
	}
	for _, c := range rows[0].Cells {
		s := Standing{Policy: c.Policy, Points: len(rows)}
		for m := range measures {
			logs, meanLogs := 0.0, 0.0
			for _, r := range rows {
				c := r.cell(s.Policy)
				logs += math.Log(c.Ratio[m])
				meanLogs += math.Log(c.MeanRatio[m])
				if c.Ratio[m] > s.Worst[m] {
					s.Worst[m], s.At[m] = c.Ratio[m], r.Name
				}
				s.SeedWorst[m] = max(s.SeedWorst[m], c.Worst[m])
				s.MeanWorst[m] = max(s.MeanWorst[m], c.MeanRatio[m])
			}
			s.Geometric[m], s.MeanGeometric[m] = math.Exp(logs/float64(len(rows))), math.Exp(meanLogs/float64(len(rows)))
		}
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b Standing) int { return cmp.Compare(a.product(), b.product()) })
	return all
}

func (s Standing) product() float64 { return s.Geometric[0] * s.Geometric[1] * s.Geometric[2] }

// ours is the default policy's standing, others the best of all others: of geometric means and worst cases, each its own.
func ours(all []Standing) (own Standing, geometric, worst [3]float64) {
	for m := range measures {
		geometric[m], worst[m] = math.Inf(1), math.Inf(1)
	}
	for _, s := range all {
		if s.Policy == sched.DefaultPolicy {
			own = s
			continue
		}
		for m := range measures {
			geometric[m], worst[m] = min(geometric[m], s.Geometric[m]), min(worst[m], s.Worst[m])
		}
	}
	return own, geometric, worst
}
