package main

import (
	"fmt"
	"slices"
	"time"
)

// restTime is how long the router gets to have nothing in hand once nobody asks for anything. The longest that it may hold on to is a worker
// that says nothing: 3 s, with two further tries.
const restTime = 15 * time.Second

// idleTime is how long the router keeps connections to workers that nobody uses, and a little more.
const idleTime = 5 * time.Second

// rest looks at the router when nothing is going on: all that it counts must be zero, and it must be no larger than at the rest before.
func (s *suite) rest() {
	s.clients.closeIdle()
	if !s.router.alive() {
		if s.upset.Err() == nil {
			s.keeper.anomaly(anomaly{what: "the router is gone"})
			s.stop()
		}
		return
	}
	idle := time.Now().Add(idleTime)
	busy := "unknown"
	for limit := time.Now().Add(restTime); busy != "" && time.Now().Before(limit); time.Sleep(50 * time.Millisecond) {
		if c, err := s.router.counts(); err == nil {
			busy = c.busy()
		} else {
			busy = err.Error()
		}
	}
	if busy != "" {
		s.keeper.anomaly(anomaly{what: fmt.Sprintf("counts did not return to zero within %v of the last request: %s", restTime, busy)})
		return
	}
	time.Sleep(time.Until(idle))
	size, err := s.router.size()
	if err != nil {
		s.keeper.anomaly(anomaly{what: "no metrics: " + err.Error()})
		return
	}
	if size.inFlight != 0 || size.waiting != 0 {
		s.keeper.anomaly(anomaly{what: fmt.Sprintf("metrics did not return to zero: %.0f requests in flight, %.0f waiting", size.inFlight, size.waiting)})
	}
	last := len(s.sizes) - 1
	s.sizes[last] = append(s.sizes[last], size)
}

// What the router may have grown by between the first and the last rest of one life: caches and tables fill up, pools of the runtime differ a little.
const (
	goroutinesMax = 25
	filesMax      = 25
	heapShareMax  = 0.5
	heapBytesMax  = 24 << 20
)

// grown looks for growth over the lives of the router that saw several rests.
func (s *suite) grown() {
	for _, life := range s.sizes {
		if len(life) < 2 {
			continue
		}
		a, b := life[0], life[len(life)-1]
		fmt.Fprintf(s.o.out, "growth over %.0f s: goroutines %.0f to %.0f (%+.1f a minute), files %.0f to %.0f (%+.1f), heap %.1f to %.1f MB (%+.2f), resident %.1f to %.1f MB (%+.2f)\n",
			b.at.Sub(a.at).Seconds(), a.goroutines, b.goroutines, slope(life, func(z size) float64 { return z.goroutines }), a.files, b.files, slope(life, func(z size) float64 { return z.files }),
			a.heap/1e6, b.heap/1e6, slope(life, func(z size) float64 { return z.heap / 1e6 }), a.resident/1e6, b.resident/1e6, slope(life, func(z size) float64 { return z.resident / 1e6 }))
		fmt.Fprintf(s.o.out, "cache events: %.0f messages and %.0f troubles of the workers that are there now\n", b.events, b.troubles)
		for _, g := range []struct {
			what     string
			from, to float64
			most     float64
		}{{"goroutines", a.goroutines, b.goroutines, goroutinesMax}, {"open files", a.files, b.files, filesMax}, {"bytes of heap", a.heap, b.heap, heapShareMax*a.heap + heapBytesMax}} {
			if g.to-g.from > g.most {
				s.keeper.anomaly(anomaly{what: fmt.Sprintf("the router grew from %.0f to %.0f %s, %.0f more at most", g.from, g.to, g.what, g.most)})
			}
		}
	}
}

// slope is by how much a value grows in a minute, by least squares.
func slope(life []size, of func(size) float64) float64 {
	var n, x, y, xx, xy float64
	for _, z := range life {
		t, v := z.at.Sub(life[0].at).Minutes(), of(z)
		n, x, y, xx, xy = n+1, x+t, y+v, xx+t*t, xy+t*v
	}
	if d := n*xx - x*x; d > 0 {
		return (n*xy - x*y) / d
	}
	return 0
}

// What faults elsewhere may do to requests that they do not concern. The time beside the factor is for a machine that starts processes meanwhile.
const (
	slowerMax     = 2.0
	slowerAllowed = 100 * time.Millisecond
	slowerFrom    = 200 // requests on each side, for a p99 to mean something
)

// slower compares requests that no fault concerns before and during the faults.
func (s *suite) slower() {
	storm := s.judge.storm
	before, nb := s.judge.calm(func(at time.Time) bool { return storm.IsZero() || at.Before(storm) })
	during, nd := s.judge.calm(func(at time.Time) bool { return !storm.IsZero() && !at.Before(storm) })
	fmt.Fprintf(s.o.out, "requests that no fault concerns: p99 %v before (%d), %v during the faults (%d)\n", before, nb, during, nd)
	if min(nb, nd) < slowerFrom {
		return
	}
	if most := max(time.Duration(slowerMax*float64(before)), before+slowerAllowed); during > most {
		s.keeper.anomaly(anomaly{what: fmt.Sprintf("requests that no fault concerned became slower: p99 %v, %v before the faults", during, before)})
	}
}

// calm is the 99th percentile of requests that no fault concerns, of those that began when in says, and their number.
func (j *judge) calm(in func(at time.Time) bool) (p99 time.Duration, n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var took []time.Duration
	for _, c := range j.calmly {
		if in(c.at) {
			took = append(took, c.took)
		}
	}
	if len(took) == 0 {
		return 0, 0
	}
	slices.Sort(took)
	return took[len(took)*99/100].Round(100 * time.Microsecond), len(took)
}
