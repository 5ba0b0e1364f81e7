package inflight

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func neverWaits(any) (Standing, bool) { return Standing{}, false }

func TestARequestIsSeenOnItsWayFromItsBodyToItsLastToken(t *testing.T) {
	stands := true
	b := New(func(as any) (Standing, bool) {
		return Standing{Before: as.(int), Wait: time.Second, Known: true}, stands
	})
	var e Entry
	ctx := b.Enter(&e, t.Context(), "a", "/v1/chat/completions", noon)
	see := func(want State) Request {
		t.Helper()
		l := b.List(Filter{})
		if len(l.Requests) != 1 || l.Requests[0].State != want || l.Inside != 1 || l.States[want] != 1 {
			t.Fatalf("%+v, want it in %v", l, want)
		}
		return l.Requests[0]
	}
	see(Body)
	e.Know(About{Model: "m", Tenant: "t", Stream: true, PromptTokens: 7})
	e.Wait(3)
	if r := see(Waiting); r.Standing == nil || r.Standing.Before != 3 {
		t.Errorf("%+v", r)
	}
	stands = false
	if r := see(Waiting); r.Standing != nil {
		t.Errorf("%+v", r)
	}
	e.Wait(nil)
	e.Place(Placement{Worker: "w1", Pool: "p", OutputTokens: 40}, noon.Add(time.Second))
	if r := see(Prefill); r.Worker != "w1" || r.Model != "m" || r.PromptTokens != 7 || r.Tries != 1 || r.Standing != nil {
		t.Errorf("%+v", r)
	}
	e.Begin()
	e.Generated(2)
	e.Generated(3)
	if r := see(Streaming); r.Tokens != 5 {
		t.Errorf("%+v", r)
	}
	if ctx.Err() != nil || !e.Leave() || b.List(Filter{}).Inside != 0 || !e.Leave() {
		t.Error("it did not leave, or its memory cannot be used again")
	}
}

func TestFiltersAndTheLimitAreKept(t *testing.T) {
	b := New(neverWaits)
	var entries [20]Entry
	for i := range entries {
		b.Enter(&entries[i], t.Context(), fmt.Sprintf("r%02d", i), "/", noon.Add(-time.Duration(i)*time.Second))
		entries[i].Know(About{Model: "m", Tenant: fmt.Sprint("t", i%4), Class: "c"})
		entries[i].Place(Placement{Worker: fmt.Sprint("w", i%2), Pool: "p"}, noon)
	}
	for _, c := range []struct {
		f            Filter
		found, shown int
	}{{Filter{}, 20, 20}, {Filter{Worker: "w1"}, 10, 10}, {Filter{Tenant: "t2", Limit: 3}, 5, 3}, {Filter{ID: "r07"}, 1, 1}, {Filter{State: "running", Pool: "p", Class: "c", Model: "m"}, 20, 20}, {Filter{State: "prefill"}, 0, 0}} {
		l := b.List(c.f)
		if l.Found != c.found || len(l.Requests) != c.shown || l.Inside != 20 {
			t.Errorf("%+v: %d found, %d shown, %d inside", c.f, l.Found, len(l.Requests), l.Inside)
		}
	}
	if l := b.List(Filter{Limit: 1}); l.Requests[0].ID != "r19" {
		t.Errorf("the oldest is %s", l.Requests[0].ID)
	}
}

func TestCancellingEndsAllRequestsOfAnIDAndNoOther(t *testing.T) {
	b := New(neverWaits)
	var one, two, other Entry
	a, c, o := b.Enter(&one, t.Context(), "x", "/", noon), b.Enter(&two, t.Context(), "x", "/", noon), b.Enter(&other, t.Context(), "y", "/", noon)
	if n := b.Cancel("x", "ops"); n != 2 {
		t.Errorf("%d cancelled", n)
	}
	var by *Cancelled
	if !errors.As(context.Cause(a), &by) || by.By != "ops" || c.Err() == nil || o.Err() != nil {
		t.Errorf("%v %v %v", a.Err(), c.Err(), o.Err())
	}
	if b.Cancel("x", "ops") != 0 || b.Cancel("z", "ops") != 0 {
		t.Error("somebody was cancelled twice, or nobody was")
	}
	if one.Leave() || two.Leave() || !other.Leave() {
		t.Error("memory that somebody may look at is used again, or other memory is not")
	}
}

func TestAClientThatLeavesEndsItsRequest(t *testing.T) {
	b := New(neverWaits)
	client, leave := context.WithCancelCause(t.Context())
	var e Entry
	ctx := b.Enter(&e, client, "x", "/", noon)
	why := errors.New("gone")
	leave(why)
	<-ctx.Done()
	if context.Cause(ctx) != why || e.Leave() {
		t.Errorf("%v", context.Cause(ctx))
	}
}

func TestWithoutABookNothingIsKnownAndNothingChanges(t *testing.T) {
	var b *Book
	var e Entry
	if ctx := b.Enter(&e, t.Context(), "x", "/", noon); ctx != t.Context() {
		t.Error("another context")
	}
	e.Know(About{})
	e.Wait(1)
	e.Place(Placement{}, noon)
	e.Begin()
	e.Generated(1)
	if !e.Leave() || b.Cancel("x", "ops") != 0 || b.List(Filter{}).Inside != 0 {
		t.Error("somebody is inside")
	}
}

func TestManyComeAndGoWhileOthersLookAndCancel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	b := New(func(as any) (Standing, bool) { return Standing{Before: *as.(*int)}, true })
	var done sync.WaitGroup
	for n := range 4 {
		done.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(n)))
			e, waiter := new(Entry), 0
			for i := range 2000 {
				ctx := b.Enter(e, t.Context(), fmt.Sprint(random.IntN(50)), "/", noon)
				e.Know(About{Model: "m", Stream: i%2 == 0})
				waiter = i // it is the owner's until Wait, and again after
				e.Wait(&waiter)
				e.Wait(nil)
				e.Place(Placement{Worker: "w"}, noon)
				e.Begin()
				e.Generated(1)
				cancelled := ctx.Err() != nil
				if reusable := e.Leave(); !reusable {
					e = new(Entry)
				} else if cancelled {
					t.Error("memory whose context has ended is used again")
				}
			}
		})
	}
	for range 200 {
		b.List(Filter{Worker: "w", Limit: 5})
		b.List(Filter{State: "waiting"})
		b.Cancel(fmt.Sprint(rand.IntN(50)), "ops")
	}
	done.Wait()
	if inside, states := b.Count(); inside != 0 || states != [5]int{} {
		t.Errorf("%d inside, %v", inside, states)
	}
}

func BenchmarkARequest(b *testing.B) {
	book := New(neverWaits)
	var client Entry
	ctx := book.Enter(&client, context.Background(), "client", "/", noon) // a life.Context, as a connection has
	var e Entry
	b.ReportAllocs()
	for b.Loop() {
		book.Enter(&e, ctx, "0123456789abcdef0123456789abcdef", "/v1/chat/completions", noon)
		e.Know(About{Model: "m"})
		e.Wait(&e)
		e.Place(Placement{Worker: "w"}, noon)
		e.Begin()
		e.Leave()
	}
}
