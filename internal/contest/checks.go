package contest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/sweep"
)

const (
	// noReuseMax is how much longer than under least-tokens the mean TTFT may be where caches give nothing.
	noReuseMax = 1.01
	// spreadMax is the most loaded worker's requests over the mean, once a hot prefix needs neededMin workers.
	spreadMax = 1.3
	neededMin = 1.0
	// Mean TTFT grows when it is growthMax times as long in the last third of a run as in the middle one; a worker idles when it has
	// nothing to do for idleShare of the last third.
	growthMax = 1.25
	idleShare = 0.1
	// lateMax is how many times as long the mean TTFT may be when news is late.
	lateMax = 1.5
)

// Check is one thing that is held to.
type Check struct {
	Name    string   `json:"name"`
	Pass    bool     `json:"pass"`
	Figures string   `json:"figures"`
	Detail  []string `json:"detail,omitempty"`
}

// Judgement is what came of a verdict.
type Judgement struct {
	Rows      []*Row // all points
	Standings []Standing
	Families  map[string][]Standing
	Checks    []Check
	// Peers are the policies next to the default one.
	Peers []string
}

// Judge compares the runs that are done.
func (c *Contest) Judge(runs []*sweep.Run) *Judgement {
	j := &Judgement{Rows: c.rows(runs), Families: map[string][]Standing{}}
	var judged []*Row
	families := map[string][]*Row{}
	for _, r := range j.Rows {
		families[r.Family] = append(families[r.Family], r)
		if r.Judged {
			judged = append(judged, r)
		}
	}
	for name, rows := range families {
		j.Families[name] = standings(rows)
	}
	j.Standings = standings(judged)
	for _, s := range j.Standings {
		if s.Policy != sched.DefaultPolicy {
			j.Peers = append(j.Peers, s.Policy)
		}
	}
	j.check("all points were replayed", c.replayed(j.Rows))
	j.check("every policy finished the same requests", sameWork(j.Rows))
	j.bounds()
	j.noReuse()
	j.hot(families["hot"])
	j.late()
	return j
}

// check adds one that passes when nothing speaks against it.
func (j *Judgement) check(name string, against []string) {
	j.add(name, len(against) == 0, fmt.Sprintf("%d points", len(j.Rows)), against)
}

// Add takes in a check that was made elsewhere.
func (j *Judgement) Add(c Check) { j.Checks = append(j.Checks, c) }

func (j *Judgement) add(name string, pass bool, figures string, detail []string) {
	j.Add(Check{name, pass, figures, detail})
}

// missing names the points that are left out for want of a file.
func (c *Contest) missing() (missing []string) {
	for _, file := range slices.Sorted(maps.Keys(c.Missing)) {
		where := "no folder is given (--traces)"
		if c.options.Traces != "" {
			where = "it is not in " + c.options.Traces + " (--traces)"
		}
		missing = append(missing, fmt.Sprintf("%s: %s; %d points are left out, as %s", file, where, len(c.Missing[file]), c.Missing[file][0]))
	}
	return missing
}

// replayed names what is missing.
func (c *Contest) replayed(rows []*Row) (missing []string) {
	missing = c.missing()
	taken := 0
	for _, t := range c.taken {
		if t {
			taken++
		}
	}
	if taken > len(rows) {
		missing = append(missing, fmt.Sprintf("%d of %d points were not finished", taken-len(rows), taken))
	}
	return missing
}

// sameWork names points where policies finished different numbers of requests: their times would not compare.
func sameWork(rows []*Row) (unlike []string) {
	for _, r := range rows {
		for seed, first := range r.Cells[0].results {
			for _, c := range r.Cells[1:] {
				if x := c.results[seed]; x.Finished != first.Finished || x.Finished == 0 {
					unlike = append(unlike, fmt.Sprintf("%s: %s finished %d, %s %d", r.Name, c.Policy, x.Finished, r.Cells[0].Policy, first.Finished))
				}
			}
		}
	}
	return unlike
}

// bounds holds the default policy to its distance from the best of all, and to no other policy being better over all.
func (j *Judgement) bounds() {
	if len(j.Standings) < 2 {
		return
	}
	own, geometric, worst := ours(j.Standings)
	for m, x := range measures {
		of := func(kind string, value, limit, others float64, where string) {
			figures := fmt.Sprintf("%.3f, at most %.2f; least of the others %.3f%s", value, limit, others, where)
			j.add(x.name+", "+kind, value <= limit && value <= others, figures, nil)
		}
		of("geometric mean", own.Geometric[m], x.geometric, geometric[m], "")
		of("worst point", own.Worst[m], x.worst, worst[m], "; at "+own.At[m])
	}
}

// noReuse compares with least-tokens, which knows of no cache.
func (j *Judgement) noReuse() {
	const blind = "least-tokens"
	most, points := 0.0, 0
	var over []string
	for _, r := range j.Rows {
		own, other := r.cell(sched.DefaultPolicy), r.cell(blind)
		if !r.NoReuse || other == nil {
			continue
		}
		points++
		var ratio [3]float64
		for m := range measures {
			ratio[m] = own.Mean[m] / other.Mean[m]
		}
		if most = max(most, ratio[0]); ratio[0] > noReuseMax {
			over = append(over, fmt.Sprintf("%s: TTFT mean %.3f, p99 %.3f, E2E mean %.3f times that of %s", r.Name, ratio[0], ratio[1], ratio[2], blind))
		}
	}
	if points > 0 {
		j.add("no reuse: TTFT mean over "+blind, len(over) == 0, fmt.Sprintf("%.3f at most at %d points, limit %.2f", most, points, noReuseMax), over)
	}
}

// hot looks at the default policy's runs with a hot prefix, one by one.
func (j *Judgement) hot(rows []*Row) {
	if len(rows) == 0 {
		return
	}
	var uneven, clinging, growing []string
	most, runs, fewest := 0.0, 0, 1<<30
	for _, r := range rows {
		for _, x := range r.cell(sched.DefaultPolicy).results {
			runs++
			name := fmt.Sprintf("%s, seed %d", r.Name, x.Seed)
			end := spreadAtEnd(x)
			if r.Needed > neededMin {
				if most = max(most, end); end > spreadMax {
					uneven = append(uneven, fmt.Sprintf("%s: %.2f in the last third, %.2f over all", name, end, x.Spread()))
				}
			}
			if fewest = min(fewest, x.Declined); x.Declined == 0 {
				clinging = append(clinging, fmt.Sprintf("%s: none; %.2f workers needed, busiest/mean %.2f", name, r.Needed, end))
			}
			middle, last := thirds(x)
			if idle := idlest(x); last > growthMax*middle && idle >= idleShare {
				growing = append(growing, fmt.Sprintf("%s: TTFT mean %.3f s, then %.3f s in the last third, in which a worker idles %.0f %%", name, middle, last, 100*idle))
			}
		}
	}
	j.add("hot prefix: busiest/mean at the end", len(uneven) == 0, fmt.Sprintf("%.2f at most, limit %.1f", most, spreadMax), uneven)
	j.add("hot prefix: hits are declined", len(clinging) == 0, fmt.Sprintf("%d at least in a run", fewest), clinging)
	j.add("hot prefix: TTFT does not grow while a worker idles", len(growing) == 0, fmt.Sprintf("%d of %d runs", runs-len(growing), runs), growing)
}

// lastThird is the samples of the last third of the arrivals.
func lastThird(x *sim.Result) [][]int {
	n := min(len(x.Slices), len(x.Samples))
	return x.Samples[n-n/3 : n]
}

// spreadAtEnd is the most loaded worker's requests over the mean in the last third.
func spreadAtEnd(x *sim.Result) float64 {
	sums := make([]int, x.Workers)
	total := 0
	for _, row := range lastThird(x) {
		for i, n := range row {
			sums[i] += n
			total += n
		}
	}
	if total == 0 {
		return 1
	}
	return float64(slices.Max(sums)) * float64(x.Workers) / float64(total)
}

// idlest is the largest share of the last third that a worker has nothing to do.
func idlest(x *sim.Result) float64 {
	rows := lastThird(x)
	most := 0
	for i := range x.Workers {
		idle := 0
		for _, row := range rows {
			if row[i] == 0 {
				idle++
			}
		}
		most = max(most, idle)
	}
	return float64(most) / float64(max(1, len(rows)))
}

// thirds is the mean TTFT in seconds of those who came in the middle and in the last third.
func thirds(x *sim.Result) (middle, last float64) {
	mean := func(all []sim.Slice) float64 {
		n, sum := 0, 0.0
		for _, s := range all {
			n += s.Requests
			sum += s.TTFTSeconds
		}
		return sum / float64(max(1, n))
	}
	n := len(x.Slices)
	return mean(x.Slices[n/3 : n-n/3]), mean(x.Slices[n-n/3:])
}

// late compares the default policy with itself where news is at once, and with all others where it is as late.
func (j *Judgement) late() {
	for _, kind := range []struct{ family, name string }{{"late", "seen 0.5 s late"}, {"routers", "four routers"}} {
		var slow, beaten []string
		most, points := 0.0, 0
		for _, r := range j.Rows {
			i := slices.IndexFunc(j.Rows, func(o *Row) bool { return o.Index == r.Fresh })
			if i < 0 || r.Family != kind.family {
				continue
			}
			points++
			own, fresh := r.cell(sched.DefaultPolicy), j.Rows[i].cell(sched.DefaultPolicy)
			ratio := own.Mean[0] / fresh.Mean[0]
			if most = max(most, ratio); ratio > lateMax {
				slow = append(slow, fmt.Sprintf("%s: TTFT mean %.3f s, %.2f times that of news at once", r.Name, own.Mean[0], ratio))
			}
			if best := r.best(0); best.Policy != sched.DefaultPolicy {
				beaten = append(beaten, fmt.Sprintf("%s: TTFT mean %.3f s, %.3f s under %s", r.Name, own.Mean[0], best.Mean[0], best.Policy))
			}
		}
		if points == 0 {
			continue
		}
		j.add(kind.name+": TTFT mean over that of news at once", len(slow) == 0, fmt.Sprintf("%.2f at most at %d points, limit %.1f", most, points, lateMax), slow)
		all := j.Families[kind.family]
		if own, geometric, _ := ours(all); len(all) > 1 {
			j.add(kind.name+": TTFT mean to the best, geometric mean", own.Geometric[0] <= geometric[0],
				fmt.Sprintf("%.3f; least of the others %.3f", own.Geometric[0], geometric[0]), beaten)
		}
	}
}

// Passed says that all checks do.
func (j *Judgement) Passed() bool {
	return !slices.ContainsFunc(j.Checks, func(c Check) bool { return !c.Pass })
}
