package series

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Table is what came of a time, by columns.
type Table struct {
	StepSeconds int
	Times       []int64 // when each step began, in Unix seconds, the oldest first
	Columns     []Column
}

// Column is one quantity, a value a step; NaN where there is none.
type Column struct {
	Name   string
	Values []float64
}

// pointsMax bounds the steps of a table.
const pointsMax = 1440

// pointsWanted is how many steps a table has at most when nobody says how wide they are to be.
const pointsWanted = 180

// quantiles are told of all times.
var quantiles = [...]struct {
	name string
	q    float64
}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}}

// Table is the last window, in steps that are whole multiples of those that are kept for so long; step 0 leaves their width to it. only
// keeps the columns that are named, or begin with a name and a dot; nil keeps all. Steps before the beginning, and the one under way, are left out.
func (s *Series) Table(window, step time.Duration, only []string) (*Table, error) {
	i, err := levelOf(window)
	if err != nil {
		return nil, err
	}
	base := widths[i].Step
	if step == 0 {
		step = base
		for _, wide := range []time.Duration{time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute} {
			if step = wide; wide >= base && window/wide <= pointsWanted {
				break
			}
		}
	}
	switch {
	case step < base || step%base != 0:
		return nil, fmt.Errorf("step=%v: of a window of %v steps are kept of %v; write %v or a multiple of it", step, window, base, base)
	case step > window:
		return nil, fmt.Errorf("step=%v is longer than window=%v", step, window)
	case window/step > pointsMax:
		return nil, fmt.Errorf("step=%v: a window of %v would have %d such steps, the limit is %d", step, window, window/step, pointsMax)
	}
	per := int64(step / base)
	steps, begins, ends, columns := s.kept(i, int64(window/step), per)
	columns, err = chosen(columns, only)
	if err != nil {
		return nil, err
	}
	t := &Table{StepSeconds: int(step / time.Second), Times: []int64{}}
	for _, c := range columns {
		t.Columns = append(t.Columns, Column{Name: c.name, Values: []float64{}})
	}
	var o open
	for p := begins; p < ends; p++ {
		for ; len(steps) > 0 && steps[0].at < (p+1)*per; steps = steps[1:] {
			o.put(&steps[0])
		}
		t.Times = append(t.Times, p*int64(t.StepSeconds))
		for n, c := range columns {
			t.Columns[n].Values = append(t.Columns[n].Values, c.of(&o))
		}
		o.reset()
	}
	return t, nil
}

// levelOf is the finest level that is kept for so long.
func levelOf(window time.Duration) (int, error) {
	if window < time.Second {
		return 0, fmt.Errorf("window=%v is too short; the least is 1s", window)
	}
	for i, w := range widths {
		if window <= w.Kept {
			return i, nil
		}
	}
	return 0, fmt.Errorf("window=%v is longer than what is kept, %v", window, widths[len(widths)-1].Kept)
}

// kept copies what is kept of the last points, each of so many steps, from one point to before another. Steps that are over do not change, so
// that what is made of them is made without the lock.
func (s *Series) kept(i int, points, per int64) (steps []step, begins, ends int64, columns []column) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.levels[i]
	ends = l.open.at / per
	begins = max(ends-points, s.started.Unix()/l.seconds/per)
	for at := begins * per; at < ends*per; at++ {
		if kept := &l.ring[at%int64(len(l.ring))]; kept.at == at {
			steps = append(steps, *kept)
		}
	}
	return steps, begins, ends, columnsFor(slices.Clone(s.classes))
}

// Newest is the last seconds that are over, as one step.
func (s *Series) Newest(seconds int) []Value {
	s.mu.Lock()
	l := &s.levels[0]
	var steps []step
	for at := l.open.at - int64(seconds); at < l.open.at; at++ {
		if kept := &l.ring[at%int64(len(l.ring))]; kept.at == at {
			steps = append(steps, *kept)
		}
	}
	columns := columnsFor(slices.Clone(s.classes))
	s.mu.Unlock()
	var o open
	for n := range steps {
		o.put(&steps[n])
	}
	values := make([]Value, 0, len(columns))
	for _, c := range columns {
		values = append(values, Value{c.name, c.of(&o)})
	}
	return values
}

// Value is one quantity.
type Value struct {
	Name  string
	Value float64 // NaN where there is none
}

// column is how a quantity is made of a step.
type column struct {
	name string
	of   func(*open) float64
}

func sumOf(name string, place int) column {
	return column{name, func(o *open) float64 { return o.sums[place] }}
}

// share is one sum by another, NaN where there is nothing to share.
func share(name string, part, whole int) column {
	return column{name, func(o *open) float64 { return o.sums[part] / o.sums[whole] }}
}

// timesOf are the quantiles of the times at some places together.
func timesOf(all []column, name string, places ...int) []column {
	for _, q := range quantiles {
		all = append(all, column{name + "." + q.name, func(o *open) float64 {
			if len(places) == 1 {
				return o.times[places[0]].quantile(q.q)
			}
			var together histogram
			for _, p := range places {
				together.merge(&o.times[p])
			}
			return together.quantile(q.q)
		}})
	}
	return all
}

// columnsFor are all columns, in the order of the documentation.
func columnsFor(classes []string) []column {
	all := []column{{"requests", func(o *open) (n float64) {
		for p := range Outcomes {
			n += o.sums[sumOutcomes+p]
		}
		return n
	}}}
	for p, name := range Outcomes {
		all = append(all, sumOf("outcome."+name, sumOutcomes+p))
	}
	for p, name := range Hits {
		all = append(all, sumOf("hit."+name, sumHits+p))
	}
	all = append(all, sumOf("tokens.prompt", sumPrompt), sumOf("tokens.completion", sumAnswer), sumOf("tokens.cached_predicted", sumForetold), sumOf("tokens.cached_reported", sumCached),
		sumOf("tokens.cached_reachable", sumReach), sumOf("tokens.cached_known", sumMetered), share("hit_rate.reported", sumCached, sumMetered), share("hit_rate.predicted", sumForetold, sumMetered),
		share("hit_rate.reachable", sumReach, sumMetered), sumOf("prefill_seconds.done", sumDone), sumOf("prefill_seconds.avoided", sumAvoided),
		sumOf("regret_requests.looked_at", sumLooked), sumOf("regret_requests.beaten", sumBeaten), sumOf("regret_seconds.lost", sumLost), sumOf("regret_seconds.ahead", sumAhead),
		sumOf("regret_cost_seconds.real", sumReal), sumOf("regret_cost_seconds.foretold", sumExpected), sumOf("retries", sumRetries), sumOf("ejections", sumEjected),
		share("in_flight.mean", sumInFlight, sumTicks), column{"in_flight.max", func(o *open) float64 { return o.inFlightMax }}, share("workers", sumWorkers, sumTicks))
	var every [2][]int
	for p := range Hits {
		every[0], every[1] = append(every[0], timesTTFT+p), append(every[1], timesITL+p)
	}
	all = timesOf(all, "ttft_seconds.all", every[0]...)
	for p, name := range Hits {
		all = timesOf(all, "ttft_seconds."+name, timesTTFT+p)
	}
	all = timesOf(all, "itl_seconds.all", every[1]...)
	for p, name := range Hits {
		all = timesOf(all, "itl_seconds."+name, timesITL+p)
	}
	all = timesOf(all, "e2e_seconds", timesE2E)
	for p, name := range classes {
		all = append(all, share("queue."+name, sumWaiting+p, sumTicks))
		all = timesOf(all, "queue_wait_seconds."+name, timesWait+p)
	}
	return all
}

// chosen keeps the columns that are asked for.
func chosen(all []column, only []string) ([]column, error) {
	if len(only) == 0 {
		return all, nil
	}
	var kept []column
	wanted := make([]bool, len(all)) // each is told once, however often it is named
	for _, name := range only {
		known := false
		for i, c := range all {
			if c.name != name && !strings.HasPrefix(c.name, name+".") {
				continue
			}
			if known = true; !wanted[i] {
				wanted[i], kept = true, append(kept, c)
			}
		}
		if !known {
			return nil, fmt.Errorf("only=%s: there is no such column; they begin with %s", name, strings.Join(groups(all), ", "))
		}
	}
	return kept, nil
}

// groups are what columns' names begin with.
func groups(all []column) (names []string) {
	for _, c := range all {
		name, _, _ := strings.Cut(c.name, ".")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// AppendNumber writes a value in JSON: six digits, null where there is none.
func AppendNumber(to []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(to, "null"...)
	}
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.AppendInt(to, int64(v), 10)
	}
	return strconv.AppendFloat(to, v, 'g', 6, 64)
}

// MarshalJSON writes a table as an object with its step, its times and an array for each column.
func (t *Table) MarshalJSON() ([]byte, error) {
	out := fmt.Appendf(nil, `{"step_seconds":%d,"time":[`, t.StepSeconds)
	for i, at := range t.Times {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(out, at, 10)
	}
	out = append(out, `],"columns":{`...)
	for n, c := range t.Columns {
		if n > 0 {
			out = append(out, ',')
		}
		out = append(strconv.AppendQuote(out, c.Name), `:[`...)
		for i, v := range c.Values {
			if i > 0 {
				out = append(out, ',')
			}
			out = AppendNumber(out, v)
		}
		out = append(out, ']')
	}
	return append(out, `}}`...), nil
}
