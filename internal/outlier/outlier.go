// Package outlier tells who fails far more often than its peers do, without ever failing several times in a row. It is pure.
//
//	var w outlier.Window
//	w.Add(now, 30*time.Second, failed)
//	own := w.Counts(now, 30*time.Second)
//	outlier.Is(own, others, 20) // 8 of 24 failed here, none of 60 elsewhere: yes
package outlier

import (
	"math"
	"time"
)

// steps is how many parts a window has: it slides by one of them.
const steps = 10

// Window counts answers of the last while. The zero Window is empty.
type Window struct {
	parts [steps]Counts
	last  int64 // the newest part's number since the epoch
}

// Counts are answers, and those of them that were faults.
type Counts struct{ Answers, Faults int }

// Plus is the sum of both.
func (c Counts) Plus(o Counts) Counts {
	return Counts{c.Answers + o.Answers, c.Faults + o.Faults}
}

// Add counts one answer. over is the window's length, above 0 and always the same.
func (w *Window) Add(now time.Time, over time.Duration, fault bool) {
	w.slide(now, over)
	p := &w.parts[w.last%steps]
	p.Answers++
	if fault {
		p.Faults++
	}
}

// Absolve takes a fault back that was counted last, where it is still in the window: the answer counts as a good one.
func (w *Window) Absolve(now time.Time, over time.Duration) {
	w.slide(now, over)
	for n := w.last; n > w.last-steps && n >= 0; n-- {
		if p := &w.parts[n%steps]; p.Faults > 0 {
			p.Faults--
			return
		}
	}
}

// Counts are those of the window that ends now.
func (w *Window) Counts(now time.Time, over time.Duration) (sum Counts) {
	w.slide(now, over)
	for _, p := range w.parts {
		sum = sum.Plus(p)
	}
	return sum
}

// slide forgets the parts that have left the window. A clock that goes back counts into the newest part.
func (w *Window) slide(now time.Time, over time.Duration) {
	at := now.UnixNano() / max(1, int64(over)/steps)
	for n := max(w.last+1, at-steps+1); n <= at; n++ {
		w.parts[n%steps] = Counts{}
	}
	w.last = max(w.last, at)
}

const (
	// deviations is by how many standard errors a share of faults must be above the others': one-sided, chance alone does that once in
	// 700 looks. It is looked at with each fault, so that a lower bar would be passed now and then by workers that are like all others.
	deviations = 3
	// apart is by how much it must be above theirs at the least: of many answers, a difference of no account is beyond chance as well.
	apart = 0.1
)

// Is reports whether own faults are far more than the others': a test of two proportions with the pooled share (Fleiss, Levin and Paik,
// "Statistical Methods for Rates and Proportions", 2003, section 3.1), of answersMin answers and more on both sides. Where all fail
// alike, because of a client or of a model's files, nobody is an outlier. A fixed share was rejected: the fleet's own may be above it. So
// was the deviation of the workers' shares from each other, which takes five workers to mean anything.
func Is(own, others Counts, answersMin int) bool {
	if own.Faults == 0 || own.Answers < max(1, answersMin) || others.Answers < max(1, answersMin) {
		return false
	}
	n, m := float64(own.Answers), float64(others.Answers)
	p, q := float64(own.Faults)/n, float64(others.Faults)/m
	pooled := (float64(own.Faults) + float64(others.Faults)) / (n + m)
	return p-q >= apart && p-q >= deviations*math.Sqrt(pooled*(1-pooled)*(1/n+1/m))
}
