package gate

import (
	"sync/atomic"
	"testing"
	"time"
)

func TestAProspectCountsWhatWaitsInTheQueueAlsoWithoutPools(t *testing.T) {
	g := queued(t, nil, "a")
	var passed atomic.Int64
	began := time.Now()
	g.mu.Lock()
	g.now = func() time.Time { return began.Add(time.Duration(passed.Load())) }
	g.mu.Unlock()
	var all []*entrant
	for i := range 22 { // two go to the worker
		all = append(all, g.enter(t.Context(), 0))
		g.inside(t, max(0, i-1))
	}
	over := 0
	for range 8 { // one a second has its turn
		passed.Add(int64(time.Second))
		e := all[over]
		over++
		if err := <-e.done; err != nil {
			t.Fatal(err)
		}
		g.over(e)
		g.inside(t, 20-over)
	}
	p := g.Prospect(request(chainOf(long('b'))), &Wait{})
	if !p.Up || p.WaitSeconds < 6 || p.WaitSeconds > 30 {
		t.Errorf("%+v: 12 wait, of which one a second has its turn", p.Prospect)
	}
}
