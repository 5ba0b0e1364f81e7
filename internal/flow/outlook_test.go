package flow

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// Items of all classes and of few tenants come, go and leave; before each push an outlook is asked, and must foretell what Push says.
func TestAnOutlookForetellsWhatPushSaysAndKeepsNothing(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	o := DefaultOptions()
	o.RequestsMax = 60
	for i := range o.Classes {
		o.Classes[i].WaitMax = 20 * time.Second
	}
	q, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_000_000, 0)
	refused, waited := 0, 0
	for i := range 3000 {
		now = now.Add(time.Duration(random.IntN(400)) * time.Millisecond)
		seconds := random.ExpFloat64()
		it := &Item{Line: string(rune('a' + random.IntN(3))), Tenant: string(rune('A' + random.IntN(4))), Class: random.IntN(len(o.Classes)), Heavy: random.IntN(9) == 0,
			Bytes: 1000, Seconds: seconds, Prefill: seconds / 2}
		before, seq := q.Stats(now), q.seq
		foretold := q.Outlook(now, *it)
		if !reflect.DeepEqual(before, q.Stats(now)) || q.seq != seq {
			t.Fatalf("seed %d, item %d: asking changed the queue", seed, i)
		}
		const last = 1 - 1e-9 // no chance is so high that anybody is shed who need not be
		err := q.Push(now, it, last)
		var r *Refusal
		if errors.As(err, &r) {
			refused++
			if foretold.Refusal == nil || *foretold.Refusal != *r {
				t.Fatalf("seed %d, item %d: foretold %v, then %v", seed, i, foretold.Refusal, r)
			}
		} else {
			waited++
			wait, known := q.ExpectedWait(now, it)
			if foretold.Refusal != nil || foretold.Before != q.Position(now, it) || foretold.Known != known || (foretold.Wait-wait).Abs() > time.Millisecond {
				t.Fatalf("seed %d, item %d: foretold %+v, then %d before it for %v (%v)", seed, i, foretold, q.Position(now, it), wait, known)
			}
		}
		if random.IntN(2) == 0 {
			q.Pop(now, func(*Item) Verdict { return Placed })
		}
		q.Expire(now, nil)
	}
	if refused < 100 || waited < 100 {
		t.Errorf("seed %d: %d refused and %d waited; the test shows nothing", seed, refused, waited)
	}
}

func TestAnOutlookTellsHowLikelySomethingIsShed(t *testing.T) {
	o := DefaultOptions()
	o.RequestsMax = 100
	o.TenantRoom = 1000
	low := len(o.Classes) - 1
	o.Classes[low].ShedFrom, o.Classes[low].Ceiling = 0.5, 0.8
	q, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_000_000, 0)
	for range 60 { // three quarters of its ceiling: half of the way from where shedding begins
		if err := q.Push(now, &Item{Line: "l", Class: low}, 0.999); err != nil {
			t.Fatal(err)
		}
		if got := q.Outlook(now, Item{Line: "l", Class: low}); got.Refusal != nil {
			t.Fatal(got.Refusal)
		}
	}
	if got := q.Outlook(now, Item{Line: "l", Class: low}); got.Shed < 0.49 || got.Shed > 0.51 || got.Before != 60 {
		t.Errorf("%+v", got)
	}
	if got := q.Outlook(now, Item{Line: "l"}); got.Shed != 0 || got.Before != 0 {
		t.Errorf("the first class: %+v", got)
	}
}
