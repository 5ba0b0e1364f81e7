// Package contest holds the default policy against all others, over many fleets, loads and kinds of traffic, by replays:
//
//	c, err := contest.New(contest.Options{Traces: "/srv/traces", Half: "odd"})
//	runs := c.Runs()
//	err = sweep.Do(ctx, runs, 0, func(*sweep.Run) {})
//	result := c.Judge(runs)
//	result.Print(os.Stdout)
//
// Traffic has two halves: what is tuned on the even one is judged on the odd one. A trace is split as traces.Selection does; made-up
// traffic by the lowest bit of the seed that it is made from.
package contest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/lineup"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/sweep"
	"github.com/warmpath/warmpath/internal/traces"
)

// Options of a verdict.
type Options struct {
	// Traces is the folder of the trace files; points whose file is not there are left out.
	Traces string
	// Half is odd, even or all.
	Half string
	// Quick takes a part of the points and one seed; it is for tuning.
	Quick bool
	// Only takes the points whose names match; nil is all.
	Only *regexp.Regexp
	// Policies are those to compare, all where it is empty. The default policy is always one of them.
	Policies []string
}

// seedsCount is how many seeds a point is run with: the same arrivals for all policies.
const seedsCount = 3

// traceBytesMax is the most memory of one trace; those here take a tenth.
const traceBytesMax = 1 << 30

// Contest is what is to be run.
type Contest struct {
	options  Options
	points   []Point // indexes of runs are into it; those that are left out stay
	taken    []bool
	policies []string
	seeds    []uint64
	traces   map[string]*traces.Trace
	// Missing are the files that are not there, and the points that are left out for it.
	Missing map[string][]string
}

// New chooses the points and opens their traces.
func New(o Options) (*Contest, error) {
	c := &Contest{options: o, points: scenarios(), policies: policies(o.Policies), traces: map[string]*traces.Trace{}, Missing: map[string][]string{}}
	switch o.Half {
	case "odd":
		c.seeds = []uint64{1, 3, 5}
	case "even":
		c.seeds = []uint64{2, 4, 6}
	case "all":
		c.seeds = []uint64{1, 2, 3}
	default:
		return nil, fmt.Errorf("half %q is none of odd, even and all", o.Half)
	}
	if o.Quick {
		c.seeds = c.seeds[:1]
	}
	c.taken = c.choose()
	if !slices.Contains(c.taken, true) {
		return nil, fmt.Errorf("no point's name matches %q; the first is %q", o.Only, c.points[0].Name)
	}
	for i, p := range c.points {
		if !c.taken[i] {
			continue
		}
		there, err := c.open(p.Trace)
		if err != nil {
			return nil, err
		}
		if !there {
			c.taken[i] = false
			c.Missing[p.Trace] = append(c.Missing[p.Trace], p.Name)
		}
	}
	return c, nil
}

// policies is the default policy and those that are asked for.
func policies(asked []string) []string {
	if len(asked) == 0 {
		asked = sched.PolicyNames()
	}
	all := []string{sched.DefaultPolicy}
	for _, name := range asked {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// choose says which points are run: those that are asked for, and the fresh ones of those with late news.
func (c *Contest) choose() []bool {
	taken := make([]bool, len(c.points))
	for i, p := range c.points {
		if c.options.Quick && !p.quick || c.options.Only != nil && !c.options.Only.MatchString(p.Name) {
			continue
		}
		taken[i] = true
		if p.Fresh >= 0 {
			taken[p.Fresh] = true
		}
	}
	return taken
}

// open reads a trace's half into memory; there is false where its file is missing.
func (c *Contest) open(name string) (there bool, err error) {
	if _, known := c.traces[name]; known {
		return true, nil
	}
	path := name
	madeUp := strings.Contains(name, ":")
	if !madeUp {
		if c.options.Traces == "" {
			return false, nil
		}
		path = filepath.Join(c.options.Traces, name)
	}
	t, err := traces.Open(path, traces.Options{})
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !madeUp && c.options.Half != "all" {
		t.Select(traces.Selection{Half: c.options.Half})
	}
	c.traces[name] = t
	return true, t.Load(traceBytesMax)
}

// Conversations is the file of the trace that a replay is timed with.
const Conversations = mooncake

// Whole says that nothing was left out on request: what is judged is the verdict.
func (c *Contest) Whole() bool {
	return !c.options.Quick && c.options.Only == nil && len(c.policies) == len(sched.Policies)
}

// Runs are all replays: by point, seed and policy.
func (c *Contest) Runs() (runs []*sweep.Run) {
	for i, p := range c.points {
		if !c.taken[i] {
			continue
		}
		for _, seed := range c.seeds {
			for _, policy := range c.policies {
				runs = append(runs, sweep.NewRun(i, c.config(p, policy, seed)))
			}
		}
	}
	return runs
}

func (c *Contest) config(p Point, policy string, seed uint64) sim.Config {
	fleet, err := lineup.Parse(p.Fleet, nil)
	if err != nil {
		panic(err) // the table's own
	}
	return sim.Config{
		Trace: c.traces[p.Trace], Fleet: fleet, Policy: policy, Rate: p.Rate, Seed: seed, Jitter: -1, AtOnce: p.AtOnce,
		ViewDelay: p.Delay, Replicas: p.Replicas, SampleEvery: p.SampleEvery,
	}
}

// Variant is another way in which the router knows engines.
type Variant struct {
	Name           string
	Assumed, Known bool
}

// Variants are beside exact caches and learned constants.
var Variants = []Variant{{"assumed caches", true, false}, {"known constants", false, true}}

// VariantRuns are the judged points under some policies with one seed, for information.
func (c *Contest) VariantRuns(x Variant, policies []string) (runs []*sweep.Run) {
	for i, p := range c.points {
		if !c.taken[i] || !p.Judged {
			continue
		}
		for _, policy := range policies {
			run := c.config(p, policy, c.seeds[0])
			run.Assumed, run.Known = x.Assumed, x.Known
			runs = append(runs, sweep.NewRun(i, run))
		}
	}
	return runs
}
