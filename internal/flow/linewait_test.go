package flow

import (
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
