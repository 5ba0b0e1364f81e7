package flow

import (
	"math"
	"testing"
	"time"
)

func TestALineTellsHowLongItsEndWaits(t *testing.T) {
	q, err := New(DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	push := func() {
		if err := q.Push(now, &Item{Line: "a", Tenant: "t", Seconds: 1, Prefill: 1}, 1); err != nil {
			t.Fatal(err)
		}
	}
	if q.LineWait(now, "a", &Item{}) != 0 {
		t.Error("nobody waits and there is a wait")
	}
	for range 20 {
		push()
	}
	if q.LineWait(now, "a", &Item{}) != 0 {
		t.Error("a wait is told of which nothing is known")
	}
	for range 10 { // one a second
		now = now.Add(time.Second)
		if it := q.Pop(now, func(*Item) Verdict { return Placed }); it == nil {
			t.Fatal("nobody had a turn")
		}
	}
	if w := q.LineWait(now, "a", &Item{}); w < 9*time.Second || w > 12*time.Second {
		t.Errorf("%v behind ten seconds of work that is done at one a second", w)
	}
	if q.LineWait(now, "b", &Item{}) != 0 {
		t.Error("another line has the same wait")
	}
}

func TestAPlaceAndItsWaitAgreeWhereAClassGoesByItsAge(t *testing.T) {
	o := DefaultOptions()
	o.AgedShare, o.Classes[1].WaitMax, o.Classes[2].WaitMax = 0.5, time.Hour, time.Hour
	q, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	now, last := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), (*Item)(nil)
	push := func(class, n int) {
		for range n {
			last = &Item{Line: "a", Tenant: "t", Class: class, Seconds: 1, Prefill: 1}
			if err := q.Push(now, last, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	push(2, 40)
	push(1, 300)
	for range 60 { // one a second; those of the lower class have waited long enough for a part of it
		now = now.Add(time.Second)
		if q.Pop(now, func(*Item) Verdict { return Placed }) == nil {
			t.Fatal("nobody had a turn")
		}
	}
	push(2, 1)
	wait, known := q.ExpectedWait(now, last)
	if place := q.Position(now, last); !known || wait > 150*time.Second || math.Abs(float64(place)-wait.Seconds()) > 0.2*wait.Seconds() {
		t.Errorf("place %d and %v to go, where one goes a second", place, wait)
	}
}
