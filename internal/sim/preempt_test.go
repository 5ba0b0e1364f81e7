package sim

import (
	"reflect"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/lineup"
)

// preempting is a queue in which requests of the tenant "urgent" take the place of those of "batch" after a second.
func preempting() *Queue {
	q := queued()
	q.Classes[0].PreemptAfter, q.Classes[2].WaitMax, q.TenantRoom, q.SecondsMax = time.Second, time.Hour, 1000, 1e6
	q.Tenants = map[string]Share{"urgent": {Class: q.Classes[0].Name}, "batch": {Class: q.Classes[2].Name, Whole: true}}
	return q
}

// smallBatch is a worker of 16 batch slots.
func smallBatch() lineup.Worker {
	p := cost.Profiles["h100-8b"]
	p.BatchMax = 16
	return lineup.Worker{Profile: p}
}

func TestBatchWorkGivesWayInAReplayAndIsFinishedOnce(t *testing.T) {
	small := smallBatch()
	longest := func(x *Tenant) (wait time.Duration) {
		for _, turn := range x.Turns {
			wait = max(wait, turn.Waited)
		}
		return wait
	}
	batch, urgent := asking(t, "batch", "bursts:requests=60,burst=60,prompt=500,output=3000,rate=60"), asking(t, "urgent", "bursts:requests=100,burst=1,prompt=500,output=50,rate=4")
	for _, delay := range []time.Duration{0, 100 * time.Millisecond} {
		c := Config{Trace: tenants(t, batch, urgent), Fleet: []lineup.Worker{small, small}, Queue: preempting(), ByTenant: true, Seed: 4, ViewDelay: delay}
		r := run(t, c)
		held(t, "preempting", r)
		work, mine := r.Tenant("batch"), r.Tenant("urgent")
		if work.Finished != 60 || mine.Finished != 100 || longest(mine) > 1500*time.Millisecond {
			t.Errorf("view %v late: %d and %d finished, urgent requests waited up to %v", delay, work.Finished, mine.Finished, longest(mine))
		}
		if r.Preempted == 0 || work.Preempted != r.Preempted || mine.Preempted != 0 || r.WastedSeconds <= 0 {
			t.Errorf("view %v late: %d gave way, of batch %d, of urgent %d; %.2f s wasted", delay, r.Preempted, work.Preempted, mine.Preempted, r.WastedSeconds)
		}
		if again := run(t, c); !reflect.DeepEqual(again, r) {
			t.Errorf("the same seed gave another result: %d gave way and %d", r.Preempted, again.Preempted)
		}
		t.Logf("view %v late: %d gave way, %.2f s wasted, urgent requests waited up to %v", delay, r.Preempted, r.WastedSeconds, longest(mine))
	}
	off := preempting()
	off.Classes[2].Preemptible = false
	if r := run(t, Config{Trace: tenants(t, batch, urgent), Fleet: []lineup.Worker{small, small}, Queue: off, ByTenant: true, Seed: 4}); r.Preempted != 0 || longest(r.Tenant("urgent")) < 3*time.Second {
		t.Errorf("without preemption %d gave way, and urgent requests waited up to %v", r.Preempted, longest(r.Tenant("urgent")))
	}
}

func TestAStreamThatHasBegunNeverGivesWayInAReplay(t *testing.T) {
	small := smallBatch()
	q := preempting()
	q.Tenants["batch"] = Share{Class: q.Classes[2].Name} // streams: all of them have begun before anybody has waited for long
	batch, urgent := asking(t, "batch", "bursts:requests=17,burst=17,prompt=100,output=3000,rate=17"), asking(t, "urgent", "bursts:requests=30,burst=1,prompt=500,output=50,rate=2")
	r := run(t, Config{Trace: tenants(t, batch, urgent), Fleet: []lineup.Worker{small}, Queue: q, ByTenant: true, Seed: 4})
	held(t, "streams", r)
	if r.Tenant("batch").Finished != 17 || r.Preempted > 1 { // the one beyond the slots has not begun
		t.Errorf("%d of 17 finished, %d gave way", r.Tenant("batch").Finished, r.Preempted)
	}
}
