package contest

import (
	"fmt"
	"io"
	"slices"

	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/sweep"
)

// Part is the default policy, whole or without a term, over the judged points with one seed.
type Part struct {
	Without  string // "" is the whole
	Standing        // to the best policy of each point; it is below 1 where the term does harm
	// HurtsMost is the most times as long as under the whole that any measure is without the term, Measure which, HurtsAt where.
	HurtsMost        float64
	Measure, HurtsAt string
}

// Ablation is what each term of the default policy is good for.
type Ablation struct {
	Parts   []Part   // the whole first
	Missing []string // points that are left out, and why
	Rows    []*Row   // the points, under all policies and without each term
}

// AblationRuns are the judged points with one seed: under every policy, and under the default one without each of some terms.
func (c *Contest) AblationRuns(terms []sched.Terms) (runs []*sweep.Run) {
	for i, p := range c.points {
		if !c.taken[i] || !p.Judged {
			continue
		}
		for _, policy := range c.policies {
			runs = append(runs, sweep.NewRun(i, c.config(p, policy, c.seeds[0])))
		}
		for _, t := range terms {
			run := c.config(p, sched.DefaultPolicy, c.seeds[0])
			run.Without = t
			runs = append(runs, sweep.NewRun(i, run))
		}
	}
	return runs
}

// ruleName is what a run's figures are filed under.
func ruleName(c *sim.Config) string {
	if c.Without == 0 {
		return c.Policy
	}
	return "without " + c.Without.String()
}

// Ablate compares the runs of AblationRuns that are done.
func (c *Contest) Ablate(runs []*sweep.Run, terms []sched.Terms) *Ablation {
	rows := c.rows(runs)
	a := &Ablation{Missing: c.missing(), Rows: rows}
	all := standings(rows)
	for _, t := range append([]sched.Terms{0}, terms...) {
		name := ruleName(&sim.Config{Policy: sched.DefaultPolicy, Without: t})
		for _, s := range all {
			if s.Policy == name {
				part := Part{Without: t.String(), Standing: s}
				part.hurts(rows)
				a.Parts = append(a.Parts, part)
			}
		}
	}
	return a
}

// hurts finds where a part is farthest from the whole.
func (p *Part) hurts(rows []*Row) {
	for _, r := range rows {
		whole, part := r.cell(sched.DefaultPolicy), r.cell(p.Policy)
		for m, x := range measures {
			if times := part.Mean[m] / whole.Mean[m]; times > p.HurtsMost {
				p.HurtsMost, p.Measure, p.HurtsAt = times, x.name, r.Name
			}
		}
	}
}

// Print writes a line a part, and where the whole is farthest from the best.
func (a *Ablation) Print(w io.Writer) {
	if len(a.Parts) > 0 {
		fmt.Fprintf(w, "%d points, one seed, ratio to the best of all policies: geometric mean / worst point; where leaving the term out hurts most\n", a.Parts[0].Points)
		fmt.Fprintf(w, "%-20s", "rule")
		for _, x := range measures {
			fmt.Fprintf(w, " %14s", x.name)
		}
		fmt.Fprintln(w)
	}
	for _, p := range a.Parts {
		fmt.Fprintf(w, "%-20s", p.Policy)
		for m := range measures {
			fmt.Fprintf(w, " %14s", fmt.Sprintf("%.3f / %.2f", p.Geometric[m], p.Worst[m]))
		}
		if p.Without != "" {
			fmt.Fprintf(w, "  %.2f times the %s of the whole at %s", p.HurtsMost, p.Measure, p.HurtsAt)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
	printFarthest(w, a.Rows)
	for _, line := range a.Missing {
		fmt.Fprintf(w, "left out: %s\n", line)
	}
}

// Terms reads the names of terms to leave out, each for itself; all is every one.
func Terms(names []string) (terms []sched.Terms, err error) {
	if slices.Equal(names, []string{"all"}) {
		names = sched.TermNames()
	}
	for _, name := range names {
		t, err := sched.ParseTerms(name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(terms, t) {
			terms = append(terms, t)
		}
	}
	return terms, nil
}
