package sched

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

// Gaps between tokens in which others prefill are no decode steps: a worker that is crowded for a while would look slow for good.
func TestStepsAreLearnedFromWhereNobodyPrefilled(t *testing.T) {
	for _, prefilling := range []time.Duration{0, 4 * time.Second, 6 * time.Second} {
		c := newScene(t, DefaultPolicy, 1)
		w := c.worker("a")
		d, r := c.must(unique(1, 500))
		course := Follow(&d, r, c.now)
		c.now = c.now.Add(time.Second)
		c.s.FirstToken(&course, c.now)
		lesson := Lesson{Model: "m", Streamed: true, Whole: true, PromptTokens: 500, Counted: true, Generated: 10, FirstToken: c.now}
		for range 10 {
			lesson.Gaps = append(lesson.Gaps, 1)
		}
		_, other := c.must(unique(2, 50_000))
		c.now = c.now.Add(prefilling)
		other.FirstToken(c.now)
		c.now = lesson.FirstToken.Add(10 * time.Second)
		lesson.Ended = c.now
		c.s.Release(&course, unique(1, 500).Chain, c.now, fleet.Succeeded, true)
		c.s.Learn(&course, lesson)
		_, steps := c.s.book.Of(w).Samples()
		if want := map[bool]int{true: 1}[prefilling <= 5*time.Second]; steps != want {
			t.Errorf("with a prefill beside it for %v of 10 s: %d steps learned, not %d", prefilling, steps, want)
		}
	}
}
