package proxy

import (
	"errors"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/internal/intake"
	"github.com/warmpath/warmpath/internal/upstream"
)

// awaited is a body whose next bytes are still to come.
type awaited struct{ upstream.Body }

func (awaited) More() bool { return false }

func TestOnlyEventsLessThanAMillisecondApartWaitAndLeaveTogether(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		client := httptest.NewRecorder()
		var left []time.Duration
		var broken error
		x := &exchange{w: &intake.Download{ResponseWriter: client}, flushed: true}
		s := streaming{exchange: x, res: &upstream.Response{Body: awaited{}}, flush: func() error {
			left = append(left, time.Since(start))
			return broken
		}}
		for _, c := range []struct {
			at, leaves, ready time.Duration // when it comes, when it has left, and when the next is looked for
			done              bool
		}{
			{at: 0, leaves: 0, ready: 0},
			{at: 1 * ms, leaves: 1 * ms, ready: 1 * ms},
			{at: 21 * ms, leaves: 21 * ms, ready: 21 * ms},
			{at: 21*ms + ms/2, leaves: 21*ms + ms/2, ready: 22*ms + ms/2},
			{at: 22*ms + ms/2, leaves: 22*ms + ms/2, ready: 23*ms + ms/2},
			{at: 24*ms + ms*6/10, leaves: 24*ms + ms*6/10, ready: 24*ms + ms*6/10},
			{at: 24*ms + ms*7/10, leaves: 24*ms + ms*7/10, ready: 25*ms + ms*7/10},
			{at: 26 * ms, leaves: 26 * ms, ready: 26 * ms, done: true},
		} {
			time.Sleep(time.Until(start.Add(c.at)))
			x.obs.Done = c.done
			if err := s.forward([]byte("data: x\n\n")); err != nil {
				t.Fatal(err)
			}
			if got, ready := left[len(left)-1], time.Since(start); got != c.leaves || ready != c.ready {
				t.Errorf("the event of %v left at %v, want %v; the next was looked for at %v, want %v", c.at, got, c.leaves, ready, c.ready)
			}
			if s.rested != (c.ready > c.leaves) {
				t.Errorf("the event of %v: rested %v", c.at, s.rested)
			}
		}
		broken = errors.New("the client left")
		if before := time.Now(); s.forward([]byte("x")) != broken || time.Since(before) != 0 {
			t.Error("a stream rests for a client that left")
		}
	})
}
