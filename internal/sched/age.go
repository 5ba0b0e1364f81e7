package sched

import (
	"math"
	"time"
)

// fillSteps is how many steps of a worker's cache are told apart by age: each is capacity/fillSteps tokens.
const fillSteps = 128

// fill is what was put into one worker's cache: for each step of it, when that was. An engine gives up what was used longest ago, so
// what a new prompt displaces there is about as old as the oldest of the last capacity tokens. What was only read again looks older than
// it is; all workers look so alike.
type fill struct {
	capacity int64 // tokens; 0 unknown
	total    int64 // tokens put in since the worker joined
	open     int64 // of them in the step under way
	steps    [fillSteps]time.Time
	count    int // steps filled
}

// put enters the tokens that a placement adds to the cache: the uncached part of its prompt and the answer that is expected.
func (f *fill) put(now time.Time, tokens, capacity int64) {
	if capacity <= 0 || tokens <= 0 {
		return
	}
	if capacity != f.capacity {
		*f = fill{capacity: capacity}
	}
	f.total += tokens
	f.open += min(tokens, capacity)
	for size := max(1, capacity/fillSteps); f.open >= size; f.open -= size {
		f.steps[f.count%fillSteps] = now
		f.count++
	}
}

// age is how many seconds ago what the next prompt displaces was put in; infinite while there is room, and then filled is how many
// tokens are in. Both are 0 where the capacity is not known.
func (f *fill) age(now time.Time) (seconds, filled float64) {
	switch {
	case f.capacity == 0:
		return 0, 0
	case f.count < fillSteps:
		return math.Inf(1), float64(f.total)
	}
	return now.Sub(f.steps[f.count%fillSteps]).Seconds(), float64(f.capacity)
}

// older reports whether a worker's oldest is a better place for a prompt that is new there than another's.
func (c *candidate) older(o *candidate) bool {
	if c.age != o.age {
		return c.age > o.age
	}
	return c.filled < o.filled
}
