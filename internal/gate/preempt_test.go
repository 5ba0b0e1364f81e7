package gate

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/life"
)

// preemptible has interactive requests take the place of batch work after so long.
func preemptible(after time.Duration, times int) func(*QueueOptions) {
	return func(o *QueueOptions) {
		o.Classes[0].PreemptAfter, o.Classes[2].WaitMax, o.PreemptTimesMax = after, time.Hour, times
	}
}

// batchWork enters, works until it is done or has to give way, and enters again in that case. It says how often it gave way.
func (g *Gate) batchWork(t *testing.T, ctx context.Context, work time.Duration) (gaveWay int, err error) {
	req, w := request(chainOf(long('b'))), &Wait{}
	req.Streamed = false
	w.Item.Class = 2
	for {
		var on life.Context
		w.End = on.End
		a := new(Attempt)
		if err := g.Enter(ctx, a, &req, w); err != nil {
			return gaveWay, err
		}
		done := time.NewTimer(work)
		select {
		case <-done.C:
		case <-on.Done():
			if on.Err() != ErrGaveWay {
				t.Errorf("ended for %v", on.Err())
			}
		case <-ctx.Done():
		}
		done.Stop()
		if g.Keep(w) {
			g.Settle(a, End{At: time.Now(), Outcome: fleet.Succeeded, Computed: true, Chain: req.Chain})
			return gaveWay, ctx.Err()
		}
		if gaveWay++; ctx.Err() != nil { // it left when its work had just given way
			g.Settle(a, End{At: time.Now(), Outcome: fleet.Cancelled, Chain: req.Chain})
			return gaveWay, ctx.Err()
		}
	}
}

func TestWorkThatGaveWayEndsAndWaitsAgain(t *testing.T) {
	g := queued(t, preemptible(20*time.Millisecond, 2), "a")
	var jobs sync.WaitGroup
	var gaveWay atomic.Int64
	for range 2 {
		jobs.Go(func() {
			n, err := g.batchWork(t, t.Context(), 300*time.Millisecond)
			if gaveWay.Add(int64(n)); err != nil {
				t.Error(err)
			}
		})
	}
	for limit := time.Now().Add(10 * time.Second); g.InFlight("a") < 2 && time.Now().Before(limit); {
	}
	e := g.enter(t.Context(), 0)
	e.placed(t)
	if n, waits := g.InFlight("a"), g.stats(t).Waiting; n != 1 || waits > 2 {
		t.Errorf("%d in flight, %d wait", n, waits)
	}
	g.over(e)
	jobs.Wait()
	// One ran and one was next in the engine, in which what is urgent is not put behind anybody.
	if s := g.stats(t); gaveWay.Load() != 2 || s.Preempted != 2 || s.WastedSeconds <= 0 {
		t.Errorf("%d gave way, %+v", gaveWay.Load(), s)
	}
	g.forgotten(t)
}

// classStats are those of the class that gives way, with who waits in all.
type classStats struct {
	Waiting       int
	Preempted     uint64
	WastedSeconds float64
}

func (g *Gate) stats(t *testing.T) classStats {
	t.Helper()
	s, some := g.QueueStats()
	if !some {
		t.Fatal("there is no queue")
	}
	return classStats{s.Waiting, s.Classes[2].Preempted, s.Classes[2].WastedSeconds}
}

// forgotten checks that nothing is left of all that was.
func (g *Gate) forgotten(t *testing.T) {
	t.Helper()
	if s, _ := g.QueueStats(); s.Waiting != 0 || s.Bytes != 0 || s.Seconds != 0 || s.Tenants != 0 {
		t.Errorf("left behind: %+v", s)
	}
	g.View(func(v View) {
		for _, w := range v.Workers {
			if l := w.Load(v.Now); l.InFlight != 0 || l.KVHeldTokens != 0 || l.QueuedSeconds != 0 {
				t.Errorf("worker %s still owes %+v", w.ID, l)
			}
		}
	})
}

func TestACrowdThatComesLeavesAndGivesWayLeavesNothing(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	g := queued(t, preemptible(time.Millisecond, 3), "a", "b", "c")
	var all sync.WaitGroup
	var gaveWay atomic.Int64
	for i := range uint64(300) {
		all.Go(func() {
			chance := rand.New(rand.NewPCG(seed, i))
			ctx, leave := context.WithTimeout(t.Context(), time.Duration(1+chance.IntN(1500))*time.Millisecond)
			defer leave()
			if i%3 > 0 {
				n, _ := g.batchWork(t, ctx, time.Duration(50+chance.IntN(200))*time.Millisecond)
				gaveWay.Add(int64(n))
				return
			}
			life.Pause(ctx, time.Duration(chance.IntN(800))*time.Millisecond)
			e := g.enter(ctx, 0)
			if <-e.done == nil {
				life.Pause(ctx, time.Duration(1+chance.IntN(5))*time.Millisecond)
				g.over(e)
			}
		})
	}
	all.Wait()
	g.forgotten(t)
	if s := g.stats(t); s.Preempted != uint64(gaveWay.Load()) || s.Preempted == 0 {
		t.Errorf("%d gave way, %d are counted", gaveWay.Load(), s.Preempted)
	}
	t.Logf("%d gave way", gaveWay.Load())
}
