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
	first := g.full(t)
	var waiting []*entrant
	for i := range 20 {
		waiting = append(waiting, g.enter(t.Context(), 0))
		g.inside(t, i+1)
	}
	for _, e := range first {
		g.FirstToken(&e.a, g.now())
		g.over(e)
	}
	for _, e := range waiting[:8] { // one a second has its turn, since one tenant leaves what is next in the engine to others
		if err := <-e.done; err != nil {
			t.Fatal(err)
		}
		g.FirstToken(&e.a, g.now())
		passed.Add(int64(time.Second))
		g.over(e)
	}
	p := g.Prospect(request(chainOf(long('b'))), &Wait{})
	if !p.Up || p.WaitSeconds < 6 || p.WaitSeconds > 30 {
		t.Errorf("%+v: 11 wait, of which one a second has its turn", p.Prospect)
	}
}
