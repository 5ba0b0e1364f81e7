// Package bench measures what the router costs, beside the proxies that people would otherwise put there. Every figure comes from the
// whole product in a process of its own, as `warmpath serve` runs it; workers are cheap mocks in another process, so that two cores
// suffice for load, workers and contestant.
//
//	report, err := bench.Proxy(ctx, bench.Options{Self: "/usr/bin/warmpath"})
//	if !report.Passed() { ... }
//
// Contestants take turns in each of five rounds, and a figure is the median of the five. Ratios are taken within a round, so that a
// machine whose speed drifts spoils neither side. CPU is the contestant's own processes', user and system.
package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// Options of a run. Self must be set; zero fields take the value of DefaultOptions.
type Options struct {
	Self     string        // path of the warmpath binary that serves and plays the workers
	Peers    string        // folder with the installed rival routers; "" leaves them out
	Rounds   int           // of which the median is taken
	Window   time.Duration // one measurement of one contestant, about
	Progress io.Writer     // what is going on, one line a step; nil is silent
	Pprof    string        // folder for CPU profiles of the router in its saturated runs; "" writes none
}

// DefaultOptions are those of the published figures.
func DefaultOptions() Options {
	return Options{Rounds: 5, Window: 2 * time.Second, Progress: io.Discard}
}

// WithDefaults fills in what is not set.
func (o Options) WithDefaults() Options {
	d := DefaultOptions()
	o.Rounds, o.Window = cmp.Or(o.Rounds, d.Rounds), cmp.Or(o.Window, d.Window)
	o.Progress = cmp.Or(o.Progress, d.Progress)
	return o
}

// Part is one kind of measurement.
type Part func(context.Context, Options) (Report, error)

// Parts by name. Each states its method in its report.
var Parts = map[string]Part{"proxy": Proxy, "streams": Streams, "decide": Decide, "idle": Idle, "profile": Profile}

// PartNames are the parts in the order in which all of them are run; a profile is taken only by itself.
var PartNames = []string{"decide", "proxy", "streams", "idle"}

// Report is what one part measured.
type Report struct {
	Part     string    `json:"part"`
	Sections []Section `json:"sections"`
}

// Section is one table and what is demanded of it.
type Section struct {
	Name    string   `json:"name"`
	Method  string   `json:"method"`
	Columns []string `json:"columns"` // units in their names
	Rows    []Row    `json:"rows"`
	Checks  []Check  `json:"checks"`
}

// Row is one contestant's medians, in the order of the columns. NaN is unknown.
type Row struct {
	Contestant string  `json:"contestant"`
	Values     []Value `json:"values"`
}

// Value is a figure that is null in JSON when it is not known.
type Value float64

// MarshalJSON writes NaN as null.
func (v Value) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(v)) {
		return []byte("null"), nil
	}
	return fmt.Appendf(nil, "%.6g", float64(v)), nil
}

// Check is one demand: Value must not be above Limit, or not below it when Least.
type Check struct {
	Name  string `json:"name"`
	Value Value  `json:"value"`
	Limit Value  `json:"limit"`
	Least bool   `json:"least,omitempty"`
	Unit  string `json:"unit"`
	Pass  bool   `json:"pass"`
}

// Most makes a check for value <= limit.
func Most(name string, value, limit float64, unit string) Check {
	return Check{Name: name, Value: Value(value), Limit: Value(limit), Unit: unit, Pass: value <= limit}
}

// least makes a check for value >= limit.
func least(name string, value, limit float64, unit string) Check {
	return Check{Name: name, Value: Value(value), Limit: Value(limit), Unit: unit, Least: true, Pass: value >= limit}
}

// Passed says whether every demand was met.
func (r Report) Passed() bool {
	for _, s := range r.Sections {
		if slices.ContainsFunc(s.Checks, func(c Check) bool { return !c.Pass }) {
			return false
		}
	}
	return true
}

// Median is that of what the rounds gave; those that gave nothing are left out.
func Median(values []float64) float64 {
	v := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

func ratio(x, y float64) float64 { return x / y }
func less(x, y float64) float64  { return x - y }

// rounds puts what two contestants gave together, round by round.
func rounds(a, b []float64, of func(x, y float64) float64) (out []float64) {
	for i := range min(len(a), len(b)) {
		out = append(out, of(a[i], b[i]))
	}
	return out
}

// Quantile of durations, which it sorts; 0 of none.
func Quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[min(len(d)-1, int(q*float64(len(d))))]
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
