package contest

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/sched"
)

// farthest is how many points are shown for each measure at which the default policy is farthest from the best.
const farthest = 12

// Print writes the standings, by family what the default policy is, where it is farthest from the best, and the checks.
func (j *Judgement) Print(w io.Writer) {
	if len(j.Standings) > 0 {
		fmt.Fprintf(w, "%d points, ratio to the best policy of each point and seed, its mean over the seeds: geometric mean / worst point\n", j.Standings[0].Points)
		printStandings(w, j.Standings)
		own, _, _ := ours(j.Standings)
		fmt.Fprintf(w, "%s against the least mean of a point: %s; the worst single seed: %s\n\n", own.Policy,
			figures(func(m int) string { return fmt.Sprintf("%.3f / %.2f", own.MeanGeometric[m], own.MeanWorst[m]) }),
			figures(func(m int) string { return fmt.Sprintf("%.2f", own.SeedWorst[m]) }))
	}
	j.printFamilies(w)
	printFarthest(w, j.Rows)
	for _, c := range j.Checks {
		word := "pass"
		if !c.Pass {
			word = "FAIL"
		}
		fmt.Fprintf(w, "%s  %s: %s\n", word, c.Name, c.Figures)
		for _, line := range c.Detail {
			fmt.Fprintf(w, "      %s\n", line)
		}
	}
}

func figures(of func(measure int) string) string {
	parts := make([]string, len(measures))
	for m, x := range measures {
		parts[m] = x.name + " " + of(m)
	}
	return strings.Join(parts, ", ")
}

func printStandings(w io.Writer, all []Standing) {
	fmt.Fprintf(w, "%-16s", "policy")
	for _, x := range measures {
		fmt.Fprintf(w, " %16s", x.name)
	}
	fmt.Fprintln(w)
	for _, s := range all {
		fmt.Fprintf(w, "%-16s", s.Policy)
		for m := range measures {
			fmt.Fprintf(w, " %16s", fmt.Sprintf("%.3f / %.2f", s.Geometric[m], s.Worst[m]))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

// printFamilies shows, for each family, the default policy and the one that has the least geometric mean of the others.
func (j *Judgement) printFamilies(w io.Writer) {
	fmt.Fprintf(w, "%-12s %6s", "by family", "points")
	for _, x := range measures {
		fmt.Fprintf(w, " %38s", x.name+", next best")
	}
	fmt.Fprintln(w)
	seen := map[string]bool{}
	for _, r := range j.Rows {
		if seen[r.Family] {
			continue
		}
		seen[r.Family] = true
		all := j.Families[r.Family]
		own, _, _ := ours(all)
		fmt.Fprintf(w, "%-12s %6d", r.Family, own.Points)
		for m := range measures {
			fmt.Fprintf(w, " %38s", fmt.Sprintf("%.3f / %.2f, %s", own.Geometric[m], own.Worst[m], next(all, m)))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

// next is the best of the other policies.
func next(all []Standing, measure int) string {
	var best *Standing
	for i := range all {
		if s := &all[i]; s.Policy != sched.DefaultPolicy && (best == nil || s.Geometric[measure] < best.Geometric[measure]) {
			best = s
		}
	}
	if best == nil {
		return "-"
	}
	return fmt.Sprintf("%s %.3f", best.Policy, best.Geometric[measure])
}

func printFarthest(w io.Writer, all []*Row) {
	for m, x := range measures {
		rows := slices.Clone(all)
		ratio := func(r *Row) float64 { return r.cell(sched.DefaultPolicy).Ratio[m] }
		slices.SortStableFunc(rows, func(a, b *Row) int { return cmp.Compare(ratio(b), ratio(a)) })
		fmt.Fprintf(w, "%s is farthest from the best %s at\n", sched.DefaultPolicy, x.name)
		for _, r := range rows[:min(farthest, len(rows))] {
			own, best := r.cell(sched.DefaultPolicy), r.best(m)
			if own.Ratio[m] < 1.005 {
				break
			}
			fmt.Fprintf(w, "  %-48s %6.3f  %9.3f s", r.Name, own.Ratio[m], own.Mean[m])
			if best != own {
				fmt.Fprintf(w, ", %.3f s under %s", best.Mean[m], best.Policy)
			}
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w)
	}
}

// PrintVariant writes how the default policy and its peers do when the router knows engines in another way.
func (j *Judgement) PrintVariant(w io.Writer, x Variant) {
	fmt.Fprintf(w, "with %s, one seed, against the best of these: geometric mean / worst point\n", x.Name)
	printStandings(w, j.Standings)
}
