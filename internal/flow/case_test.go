package flow

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func saturated(*Item) Verdict { return QueueFull }
func free(*Item) Verdict      { return Placed }

func refusalOf(err error) Reason {
	if r, ok := err.(*Refusal); ok {
		return r.Reason
	}
	return ""
}

func TestFLW01NoFlowWithWaitingRequestsIsEverForgotten(t *testing.T) {
	o := roomy()
	o.ForgetAfter, o.AccountsMax = time.Nanosecond, 1
	q, now := queue(t, o), time.Unix(1e9, 0)
	for range 10 {
		if err := q.Push(now, &Item{Line: "m", Tenant: "T", Seconds: 1}, 0); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 { // five saturated seconds, in which others come and leave
		now = now.Add(100 * time.Millisecond)
		other := &Item{Line: fmt.Sprint(now.UnixNano()), Tenant: fmt.Sprint(now.UnixNano()), Seconds: 1}
		if q.Push(now, other, 0) != nil || !q.Cancel(now, other) || q.Pop(now, saturated) != nil {
			t.Fatal("the others did not come and leave")
		}
		q.Expire(now, nil)
	}
	served := 0
	for q.Pop(now, free) != nil {
		served++
	}
	if s := q.Stats(now); served != 10 || s.Waiting != 0 || s.Tenants != 0 {
		t.Errorf("%d served, %+v", served, s)
	}
}

func TestFLW02BytesAndCountsAreExactAndBoundWhatIsHeld(t *testing.T) {
	o := roomy()
	o.BytesMax, o.RequestsMax = 10_000_000, 8
	for _, bound := range []int{10, 8} {
		if bound == 10 {
			o.RequestsMax = 1000
		} else {
			o.RequestsMax = 8
		}
		o.Classes[0].WaitMax = time.Minute
		q, now := queue(t, o), time.Unix(1e9, 0)
		for round := range 20 {
			var held []*Item
			for range 200 {
				it := &Item{Line: "m", Tenant: "a", Bytes: 1_000_000, Seconds: 0.3, Prefill: 0.1}
				switch err := q.Push(now, it, 0.99); refusalOf(err) {
				case "":
					held = append(held, it)
				case Full:
				default:
					t.Fatal(err)
				}
			}
			if len(held) != bound || q.Stats(now).Bytes != int64(bound)*1_000_000 {
				t.Fatalf("round %d: %d held, want %d: %+v", round, len(held), bound, q.Stats(now))
			}
			for _, it := range held[:bound/2] {
				q.Cancel(now, it)
			}
			now = now.Add(30 * time.Second)
			for range bound / 4 {
				q.Settle(q.Pop(now, free), 1)
			}
			now = now.Add(30 * time.Second)
			gone := q.Expire(now, nil)
			if s := q.Stats(now); len(gone) != bound-bound/2-bound/4 || q.total != (hold{}) || len(q.holds) != 0 || s.Seconds != 0 {
				t.Fatalf("round %d: %d timed out, and this is left: %+v", round, len(gone), q.total)
			}
		}
	}
}

func TestFLW04EachRequestLeavesAtTheNearestOfItsLimitsAndIsNeverPlacedAfter(t *testing.T) {
	o := DefaultOptions()
	o.Classes[0].WaitMax, o.Classes[1].WaitMax = time.Second, 5*time.Second
	q, began := queue(t, o), time.Unix(1e9, 0)
	want := map[*Item]time.Duration{
		{Line: "m", Class: 0}: time.Second, {Line: "m", Class: 1}: 5 * time.Second,
		{Line: "m", Class: 1, WaitMax: 300 * time.Millisecond}: 300 * time.Millisecond, {Line: "m", Class: 1, WaitMax: time.Minute}: 5 * time.Second,
		{Line: "m", Class: 1, StartBy: began.Add(2 * time.Second)}: 2 * time.Second, {Line: "m", Class: 0, StartBy: began.Add(time.Hour)}: time.Second,
	}
	for it := range want {
		if err := q.Push(began, it, 0.99); err != nil {
			t.Fatal(err)
		}
	}
	for len(want) > 0 {
		next, some := q.NextExpiry()
		if !some {
			t.Fatal("nothing expires any more")
		}
		if gone := q.Expire(next.Add(-1), nil); len(gone) > 0 {
			t.Errorf("%d left early", len(gone))
		}
		if q.Pop(next, saturated) != nil {
			t.Fatal("placed where there is no room")
		}
		for _, it := range q.Expire(next, nil) {
			if next.Sub(began) != want[it] {
				t.Errorf("left after %v, want %v", next.Sub(began), want[it])
			}
			if r := q.TimeoutRefusal(next, it); r.Reason != TimedOut {
				t.Errorf("the reason is %s", r.Reason)
			}
			delete(want, it)
		}
	}
	if it := q.Pop(began.Add(10*time.Second), free); it != nil {
		t.Errorf("placed after its time: %s", tell(it))
	}
	late := &Item{Line: "m", StartBy: began.Add(-time.Millisecond)}
	if r := refusalOf(q.Push(began, late, 0)); r != Late {
		t.Errorf("a request that is late already: %q", r)
	}
}

func TestFLW05RequestsAreHeldWhileThereIsNoWorkerAndThoseWhoLeftAreNotPlaced(t *testing.T) {
	for _, comes := range []bool{true, false} {
		q, now := queue(t, DefaultOptions()), time.Unix(1e9, 0)
		var items []*Item
		for i := range 20 {
			it := &Item{Line: "m", Tenant: fmt.Sprint(i % 3), Seconds: 1, WaitMax: 10 * time.Second}
			if err := q.Push(now, it, 0.5); err != nil {
				t.Fatal(err)
			}
			items = append(items, it)
		}
		now = now.Add(2 * time.Second)
		for _, it := range items[:5] {
			q.Cancel(now, it)
		}
		served := 0
		for comes && q.Pop(now, func(it *Item) Verdict {
			if slices.Contains(items[:5], it) {
				t.Error("one that left was placed")
			}
			return Placed
		}) != nil {
			served++
		}
		gone := q.Expire(now.Add(8*time.Second), nil)
		if comes && (served != 15 || len(gone) != 0) || !comes && len(gone) != 15 {
			t.Errorf("worker comes: %v: %d served, %d timed out", comes, served, len(gone))
		}
	}
}

func TestFLW06AFewRequestsAmongManyOfAnotherTenantWaitLittle(t *testing.T) {
	w := newWorld(t, roomy(), 4, 21)
	for i := range 3000 { // ten times what four lanes do
		tenant := "A"
		if i%100 == 99 {
			tenant = "B"
		}
		w.come(&Item{Line: "m", Tenant: tenant, Seconds: 0.4, Prefill: 0.1}, 0.4)
		w.after(0.01)
	}
	if most := slices.Max(w.waited["B"]); most > 0.8 || len(w.waited["B"]) < 25 {
		t.Errorf("B waited up to %.2f s in %d requests, want less than twice a service of 0.4 s", most, len(w.waited["B"]))
	}
}

func TestFLW06AClassThatStarvesGetsItsShareAndNoMore(t *testing.T) {
	o := roomy()
	w := newWorld(t, o, 4, 22)
	for range 20 {
		w.come(&Item{Line: "m", Tenant: "low", Class: 2, Seconds: 0.4, Prefill: 0.4}, 0.4)
	}
	for range 4 * 600 { // the top class alone takes all there is, for two minutes
		w.come(&Item{Line: "m", Tenant: "high", Class: 0, Seconds: 0.4, Prefill: 0.4}, 0.4)
		w.come(&Item{Line: "m", Tenant: "high", Class: 0, Seconds: 0.4, Prefill: 0.4}, 0.4)
		w.after(0.1)
	}
	low, high := w.service["low"], w.service["high"]
	if len(w.waited["low"]) != 20 {
		t.Errorf("%d of 20 were served in four minutes", len(w.waited["low"]))
	}
	if first := w.waited["low"][4]; first < o.AgeAfter.Seconds() { // the first four found free lanes
		t.Errorf("the first that waited went after %.1f s, before it had starved for %v", first, o.AgeAfter)
	}
	if share := low / high; share > o.AgedShare*1.3 {
		t.Errorf("the low class got %.3f of the high one's time, want at most %.3f", share, o.AgedShare)
	}
}

func TestFLW06ATenantWhoReturnsOvertakesNobodyForLong(t *testing.T) {
	w := newWorld(t, roomy(), 4, 23)
	send := func(tenant string) { w.come(&Item{Line: "m", Tenant: tenant, Seconds: 0.4, Prefill: 0.1}, 0.4) }
	send("C")
	for range 36_000 { // an hour of A and B
		w.after(0.1)
		send("A")
		send("B")
	}
	before := map[string]float64{"A": w.service["A"], "B": w.service["B"], "C": w.service["C"]}
	for range 500 {
		send("C")
	}
	for range 100 {
		w.after(0.1)
		send("A")
		send("B")
	}
	for tenant, had := range before {
		if got := (w.service[tenant] - had) / 40; got < 0.25 {
			t.Errorf("%s got %.2f of four lanes while C's requests drained", tenant, got)
		}
	}
}

func TestFLW06ATenantsNumberedRequestsOfOneSizeStartInTheirOrder(t *testing.T) {
	w := newWorld(t, roomy(), 4, 24)
	for i := range 400 {
		w.come(&Item{Line: "m", Tenant: "A", Weight: float64(1 + i%3), Seconds: 0.4, Prefill: 0.1}, 0.4)
		w.come(&Item{Line: "m", Tenant: "B", Class: i % 2, Seconds: 0.4, Prefill: 0.1}, 0.4)
		w.after(0.03)
	}
	w.after(1000)
	last := time.Time{}
	for _, it := range w.began {
		if it.Tenant == "A" {
			if it.pushed.Before(last) {
				t.Fatal("a later request started before an earlier one")
			}
			last = it.pushed
		}
	}
}

func TestSEC07EndlessNewTenantsLeaveNothingBehind(t *testing.T) {
	o := roomy()
	o.AccountsMax = 100
	q, now := queue(t, o), time.Unix(1e9, 0)
	most := 0
	for i := range 10_000 {
		now = now.Add(time.Millisecond)
		it := &Item{Line: "m", Tenant: fmt.Sprint("made-up-", i), Class: i % 3, Seconds: float64(1 + i%7)}
		if err := q.Push(now, it, 0); err != nil {
			t.Fatal(err)
		}
		q.Pop(now, free)
		if i%2 == 0 {
			q.Settle(it, 100)
		}
		for _, l := range q.Stats(now).Lines {
			most = max(most, l.Accounts)
		}
	}
	if len(q.holds) != 0 || most > 3*(o.AccountsMax+1) {
		t.Errorf("%d tenants hold something, %d accounts at most", len(q.holds), most)
	}
	q.Expire(now.Add(time.Hour), nil)
	if len(q.lines) != 0 {
		t.Errorf("%d lines are left", len(q.lines))
	}
}

func TestSEC07MadeUpTenantsOvertakeOneWhoWaitsByOneRequestEachAndNoMore(t *testing.T) {
	w := newWorld(t, roomy(), 1, 25)
	w.come(&Item{Line: "m", Tenant: "first", Seconds: 1}, 1)
	waits := &Item{Line: "m", Tenant: "quiet", Seconds: 1}
	w.come(waits, 1)
	for i := range 100 {
		w.come(&Item{Line: "m", Tenant: fmt.Sprint("made-up-", i), Seconds: 1}, 1)
	}
	w.after(10)
	if w.began[1] != waits {
		t.Error("tenants that came later went before one who had as little")
	}
}
