package crowd

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/traces"
)

// How long the first class waits before batch work gives way, and at most all the same: a quarter longer for work that is as good as done,
// and some tenths of a second for the engine to come to an end of its step.
const (
	givesWayAfter = time.Second
	waitsAtMost   = givesWayAfter + givesWayAfter/4 + 250*time.Millisecond
	// batchJobs of some 20 s come at one time: more than the fleet has batch slots for.
	batchJobs   = 3000
	preemptFrom = 8 * time.Second
	preemptEnds = time.Minute
)

// preempt fills eight workers with batch jobs whose answers are not streamed, and has requests of the first class come when all are under way.
func (s *show) preempt() error {
	q := s.usual
	q.Classes = slices.Clone(q.Classes)
	first, last := &q.Classes[0], &q.Classes[len(q.Classes)-1]
	first.PreemptAfter, last.Preemptible = givesWayAfter, true
	q.Tenants = map[string]sim.Share{"urgent": {Class: first.Name}, "batch": {Class: last.Name, Whole: true}}
	never := q
	never.Classes = slices.Clone(q.Classes)
	never.Classes[len(q.Classes)-1].Preemptible = false

	batch := asks("batch", fmt.Sprintf("bursts:requests=%d,burst=%[1]d,prompt=100,output=1200,rate=%[1]d", batchJobs))
	urgent := oneShots("urgent", 20)
	urgent.Select(traces.Selection{Length: preemptEnds})
	urgent.Map(func(r *traces.Request) { r.At += preemptFrom })
	var detail []string
	var r *sim.Result
	for _, x := range []struct {
		name  string
		queue *sim.Queue
		parts []traces.Part
	}{
		{"batch alone", &q, []traces.Part{batch}},
		{"urgent alone", &q, []traces.Part{urgent}},
		{"no queue here", nil, []traces.Part{batch, urgent}},
		{"nothing is preemptible", &never, []traces.Part{batch, urgent}},
		{"batch is preemptible", &q, []traces.Part{batch, urgent}},
	} {
		var err error
		if r, err = s.play(scene{fleet: "h100-8b:8", parts: x.parts, queue: x.queue, spans: 2 * time.Minute}); err != nil {
			return err
		}
		detail = append(detail, fmt.Sprintf("%-26s %s", x.name, preemptFigures(r)))
	}
	work, mine := r.Tenant("batch"), r.Tenant("urgent")
	s.that(Verdict{Case: "batch work gives way to requests of the first class",
		Pass: longest(mine) <= waitsAtMost && work.Finished == batchJobs && work.Came == batchJobs && mine.Finished == mine.Came && r.Preempted > 0 && r.Preempted == work.Preempted,
		Figures: fmt.Sprintf("they wait %.2f s at most (at most %.2f s), %d of %d jobs were finished, each once; work gave way %d times, which wasted %.1f s of engine time, as the router reckons, and %.1f s as the engines do",
			longest(mine).Seconds(), waitsAtMost.Seconds(), work.Finished, work.Came, r.Preempted, r.WastedSeconds, r.LostSeconds), Detail: detail})
	return nil
}

func longest(t *sim.Tenant) (wait time.Duration) {
	for _, turn := range t.Turns {
		wait = max(wait, turn.Waited)
	}
	return wait
}

// preemptFigures are a run's in one line.
func preemptFigures(r *sim.Result) (text string) {
	if t := r.Tenant("urgent"); t != nil {
		text = fmt.Sprintf("urgent: waits %.2f s at most, p99 TTFT %.2f s, p50 %.2f s; ", longest(t).Seconds(), t.TTFT.Quantile(0.99), t.TTFT.Quantile(0.5))
	}
	if t := r.Tenant("batch"); t != nil {
		text += fmt.Sprintf("batch: %d of %d jobs finished, %.1f s on the mean, the last after %.1f s; %d gave way, %.1f s wasted",
			t.Finished, t.Came, t.E2E.Mean(), t.E2E.Quantile(1), r.Preempted, r.WastedSeconds)
	}
	return text
}
