package flow

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func names(items []*Item) (s string) {
	for _, it := range items {
		s += it.Owner.(string)
	}
	return s
}

// drained pops all and names them in their order.
func drained(q *Queue, now time.Time) string {
	var items []*Item
	for it := q.Pop(now, free); it != nil; it = q.Pop(now, free) {
		items = append(items, it)
	}
	return names(items)
}

func TestOrdersWithinATenant(t *testing.T) {
	for order, want := range map[Order]string{Shortest: "cbda", FirstCome: "abcd", ByDeadline: "dbca"} {
		o := roomy()
		o.Classes[0].Order = order
		q, now := queue(t, o), time.Unix(1e9, 0)
		for _, it := range []*Item{{Owner: "a", Prefill: 9}, {Owner: "b", Prefill: 2, WaitMax: 20 * time.Second}, {Owner: "c", Prefill: 1, WaitMax: 30 * time.Second}, {Owner: "d", Prefill: 3, WaitMax: 10 * time.Second}} {
			if err := q.Push(now, it, 0); err != nil {
				t.Fatal(err)
			}
			now = now.Add(time.Millisecond)
		}
		if got := drained(q, now); got != want {
			t.Errorf("%s: %s, want %s", order, got, want)
		}
	}
}

func TestAJobIsOvertakenByShorterOnesOnlyForTheNamedMultipleOfItsSize(t *testing.T) {
	o := roomy() // ten times the prefill
	q, now := queue(t, o), time.Unix(1e9, 0)
	for _, x := range []struct {
		name    string
		prefill float64
		after   time.Duration
	}{{"a", 2, 0}, {"b", 0.1, 18 * time.Second}, {"c", 0.1, 20 * time.Second}, {"d", 0.1, time.Minute}} {
		if err := q.Push(now.Add(x.after), &Item{Owner: x.name, Prefill: x.prefill}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if got := drained(q, now); got != "bacd" {
		t.Errorf("%s, want bacd", got)
	}
}

func TestClassesAreStrict(t *testing.T) {
	q, now := queue(t, roomy()), time.Unix(1e9, 0)
	for i, class := range []int{2, 1, 0, 7, 1, 0} {
		if i == 2 && q.Waits(&Item{Line: "m", Class: 0}) || i == 2 && !q.Waits(&Item{Line: "m", Class: 1}) {
			t.Error("an urgent item waits behind less urgent ones, or another one not behind its like")
		}
		q.Push(now, &Item{Owner: string(rune('a' + i)), Class: class, Line: "m"}, 0)
	}
	if got := drained(q, now); got != "cfbead" && got != "cfbeda" {
		t.Errorf("%s, want cfbead", got)
	}
}

func TestUrgentClassesOfOneLineDoNotStarveAnotherLineOnTheSameWorkers(t *testing.T) {
	w := newWorld(t, roomy(), 2, 4)
	for range 5 {
		w.come(&Item{Line: "b", Tenant: "low", Class: 2, Seconds: 0.5}, 0.5)
	}
	for range 600 {
		w.come(&Item{Line: "a", Tenant: "high", Seconds: 0.5}, 0.5)
		w.after(0.1)
	}
	if n := len(w.waited["low"]); n != 5 {
		t.Errorf("%d of 5 were served in a minute", n)
	}
}

func TestLightRequestsPassHeavyOnesThatWaitForALane(t *testing.T) {
	q, now := queue(t, roomy()), time.Unix(1e9, 0)
	for i := range 6 {
		q.Push(now, &Item{Owner: string(rune('a' + i)), Tenant: fmt.Sprint(i % 2), Heavy: i < 4, Seconds: 1, Prefill: 1}, 0)
	}
	var got []*Item
	tried := 0
	for it := now; it == now; {
		popped := q.Pop(now, func(it *Item) Verdict {
			if tried++; it.Heavy {
				return KindFull
			}
			return Placed
		})
		if popped == nil {
			break
		}
		got = append(got, popped)
	}
	if names(got) != "ef" || tried > 2*len(got)+1 {
		t.Errorf("%s went in %d tries, want ef in 5 at most", names(got), tried)
	}
	if w := (&Item{Tenant: "z"}); q.Waits(w) {
		t.Error("a light request waits behind heavy ones only")
	}
	if w := (&Item{Tenant: "1", Heavy: true}); !q.Waits(w) {
		t.Error("a heavy request does not wait behind its tenant's others")
	}
}

func TestTheTopClassKeepsAReserveAndOthersAreShedMoreAndMore(t *testing.T) {
	o := DefaultOptions()
	o.RequestsMax, o.TenantRoom = 1000, 1e9
	q, now, r := queue(t, o), time.Unix(1e9, 0), rand.New(rand.NewPCG(1, 1))
	push := func(class int) error { return q.Push(now, &Item{Line: "m", Class: class}, r.Float64()) }
	fill := func(class, to int) (shed int) {
		for q.Waiting() < to {
			if err := push(class); err != nil {
				if shed++; refusalOf(err) != Shed {
					t.Fatal(err)
				}
			}
		}
		return shed
	}
	low, middle, high := fill(2, 400), fill(2, 500), fill(2, 790)
	if low != 0 || middle == 0 || high < 3*middle {
		t.Errorf("shed %d up to 400, %d up to 500, %d up to 790", low, middle, high)
	}
	fill(1, 800)
	if r := refusalOf(push(2)); r != Full {
		t.Errorf("batch beyond its ceiling: %q", r)
	}
	if shed := fill(0, 1000); shed != 0 {
		t.Errorf("%d of the top class were shed", shed)
	}
	if err := push(0); refusalOf(err) != Full || !strings.Contains(err.Error(), "requests_max") {
		t.Errorf("beyond the queue: %v", err)
	}
}

func TestOneTenantLeavesRoomForOthers(t *testing.T) {
	o := roomy()
	o.RequestsMax, o.TenantRoom = 900, 8
	q, now := queue(t, o), time.Unix(1e9, 0)
	alone := 0
	for q.Push(now, &Item{Line: "m", Tenant: "greedy", Class: alone % 3}, 0) == nil {
		alone++
	}
	within(t, "what a tenant alone may hold", float64(alone), 800, 0.01)
	if r := refusalOf(q.Push(now, &Item{Line: "n", Tenant: "greedy"}, 0)); r != Crowded {
		t.Errorf("the greedy one in another line: %q", r)
	}
	others := 0
	for i := range 90 {
		if q.Push(now, &Item{Line: "m", Tenant: fmt.Sprint(i)}, 0) == nil {
			others++
		}
	}
	if others < 50 {
		t.Errorf("%d of 90 other tenants found room", others)
	}
}

func TestWorkLargerThanTheQueueWaitsWhenNothingElseDoes(t *testing.T) {
	q, now := queue(t, DefaultOptions()), time.Unix(1e9, 0)
	huge := func() *Item { return &Item{Line: "m", Seconds: 5000, Prefill: 10} }
	if err := q.Push(now, huge(), 0.9); err != nil {
		t.Error(err)
	}
	if err := q.Push(now, huge(), 0.9); refusalOf(err) != Full || !strings.Contains(err.Error(), "work_max") {
		t.Errorf("a second one: %v", err)
	}
}

func TestARequestThatCannotStartInTimeIsRefusedAtOnce(t *testing.T) {
	w := newWorld(t, roomy(), 2, 6)
	for range 200 {
		w.come(&Item{Line: "m", Tenant: "a", Seconds: 1, Prefill: 0.2}, 1)
	}
	w.after(50) // some 98 wait, for 49 s
	for limit, want := range map[time.Duration]Reason{30 * time.Second: Late, 70 * time.Second: ""} {
		it := &Item{Line: "m", Tenant: "a", Seconds: 1, Prefill: 0.2, StartBy: w.now.Add(limit)}
		if got := refusalOf(w.q.Push(w.now, it, 0)); got != want {
			t.Errorf("to start within %v: %q, want %q", limit, got, want)
		}
	}
	if it := (&Item{Line: "m", Tenant: "b", Seconds: 1, StartBy: w.now.Add(5 * time.Second)}); w.q.Push(w.now, it, 0) != nil || w.q.Position(w.now, it) > 2 {
		t.Errorf("another tenant's turn comes soon: position %d", w.q.Position(w.now, it))
	}
}

func TestASpeedIsThatOfTheTimeInWhichSomebodyWaited(t *testing.T) {
	w := newWorld(t, roomy(), 2, 13)
	burst := func() {
		for range 40 {
			w.come(&Item{Line: "m", Tenant: "a", Seconds: 1}, 1)
		}
	}
	burst()
	w.after(60) // over in 20 s, and not forgotten yet
	burst()
	w.after(5)
	last := &Item{Line: "m", Tenant: "a", Seconds: 1}
	w.come(last, 1)
	wait, known := w.q.ExpectedWait(w.now, last)
	within(t, "the wait behind thirty on two lanes", wait.Seconds(), 15, 0.2)
	later, _ := w.q.ExpectedWait(w.now.Add(time.Minute), last) // no lane comes free any more
	if !known || later < 3*wait {
		t.Errorf("expected to wait %v, and %v after a minute in which nobody went", wait, later)
	}
}

func TestAMistakenPredictionNeitherBreaksSumsNorLocksATenantOut(t *testing.T) {
	o := roomy()
	q, now := queue(t, o), time.Unix(1e9, 0)
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e300, 1e-300, 0} {
		it := &Item{Line: "m", Tenant: "a", Seconds: x, Prefill: x, Weight: x, Bytes: -5}
		if err := q.Push(now, it, 0); err != nil {
			t.Fatal(err)
		}
		if q.Push(now, it, 0) == nil || q.Pop(now, free) != it {
			t.Fatalf("%v: pushed twice, or not popped", x)
		}
		q.Settle(it, math.NaN())
	}
	if q.total != (hold{}) {
		t.Errorf("left over: %+v", q.total)
	}
	for _, tenant := range []string{"a", "b"} {
		q.Push(now, &Item{Line: "m", Tenant: tenant, Owner: tenant, Seconds: 1}, 0)
	}
	if got := drained(q, now); got != "ab" {
		t.Errorf("%s, want ab: what was predicted wrongly is settled", got)
	}
}

func TestAMillionQueuedAndCancelledLeaveNoByteBehind(t *testing.T) {
	o := roomy()
	o.RequestsMax, o.BytesMax, o.ForgetAfter = 2_000_000, 1<<40, time.Minute
	q, now := queue(t, o), time.Unix(1e9, 0)
	tenants := make([]string, 5000)
	for i := range tenants {
		tenants[i] = fmt.Sprint("tenant ", i)
	}
	held := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := held()
	r := rand.New(rand.NewPCG(1, 1))
	for _, atOnce := range []int{250_000, 1} {
		items := make([]Item, atOnce)
		for range 500_000 / atOnce {
			for i := range items {
				items[i] = Item{Line: "m", Tenant: tenants[r.IntN(len(tenants))], Class: r.IntN(3), Heavy: i%9 == 0, Bytes: 1000, Seconds: 1, Prefill: r.Float64()}
				if err := q.Push(now, &items[i], 0); err != nil {
					t.Fatal(err)
				}
			}
			for _, i := range r.Perm(len(items)) {
				q.Cancel(now, &items[i])
			}
		}
		if s := q.Stats(now); s.Waiting != 0 || s.Bytes != 0 || s.Seconds != 0 || s.Tenants != 0 || s.Lines[0].Accounts != 0 {
			t.Errorf("left behind: %+v", s)
		}
	}
	q.Expire(now.Add(time.Hour), nil)
	after := held()
	if len(q.lines) != 0 || after > before+64<<10 {
		t.Errorf("%d lines, %d bytes are left", len(q.lines), int64(after-before))
	}
	runtime.KeepAlive(q)
	runtime.KeepAlive(tenants)
}

func TestWaitingAllocatesNothing(t *testing.T) {
	q, now := queue(t, roomy()), time.Unix(1e9, 0)
	items := fillUp(t, q, now, 1000, 20)
	i := 0
	if n := testing.AllocsPerRun(2000, func() {
		it := q.Pop(now, free)
		q.Settle(it, 0.5)
		next := &items[i%len(items)]
		if i++; next.state == over {
			q.Push(now, next, 0)
		} else {
			q.Push(now, it, 0)
		}
	}); n > 0.1 {
		t.Errorf("%.2f allocations for a push, a pop and a settlement", n)
	}
}

func TestSettingsThatCannotBeAreNamed(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"setting classes": func(o *Options) { o.Classes = nil }, "classes[1].name": func(o *Options) { o.Classes[1].Name = "interactive" },
		"classes[0].name": func(o *Options) { o.Classes[0].Name = "" }, "classes[2].name": func(o *Options) { o.Classes[2].Name = "ba\ntch" },
		"classes[0].order": func(o *Options) { o.Classes[0].Order = "fair" }, "classes[2].wait_max": func(o *Options) { o.Classes[2].WaitMax = 0 },
		"classes[0].ceiling": func(o *Options) { o.Classes[0].Ceiling = math.NaN() }, "classes[0].shed_from": func(o *Options) { o.Classes[0].ShedFrom = -1 },
		"classes[1].ceiling": func(o *Options) { o.Classes[0].Ceiling = 0.5 },
		"requests_max":       func(o *Options) { o.RequestsMax = 0 }, "work_max": func(o *Options) { o.SecondsMax = math.NaN() },
		"aged_share": func(o *Options) { o.AgedShare = -0.1 }, "tenant_room": func(o *Options) { o.TenantRoom = 0 },
	} {
		o := DefaultOptions()
		o.Classes = slices.Clone(o.Classes)
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to name %s", err, want)
		}
	}
}

// fillUp makes so many items of so many tenants wait.
func fillUp(t testing.TB, q *Queue, now time.Time, n, tenants int) []Item {
	r := rand.New(rand.NewPCG(7, 7))
	items := make([]Item, 2*n)
	for i := range items {
		items[i] = Item{Line: "m", Tenant: fmt.Sprint("tenant ", r.IntN(tenants)), Class: r.IntN(3), Weight: float64(1 + i%3), Heavy: r.IntN(20) == 0, Bytes: 1000,
			Seconds: r.ExpFloat64(), Prefill: r.ExpFloat64() / 4}
		if i < n {
			if err := q.Push(now, &items[i], 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	return items
}

// BenchmarkPushAndPopAt10000Waiting prints the median and the 99th percentile of a push with a pop, of 200 tenants.
func BenchmarkPushAndPopAt10000Waiting(b *testing.B) {
	q, now := queue(b, roomy()), time.Unix(1e9, 0)
	items := fillUp(b, q, now, 10_000, 200)
	out := make([]*Item, 0, len(items))
	for i := range items {
		if items[i].state != waiting {
			out = append(out, &items[i])
		}
	}
	r := rand.New(rand.NewPCG(8, 8))
	took := make([]time.Duration, 0, b.N)
	for b.Loop() {
		now = now.Add(time.Millisecond)
		at := &out[r.IntN(len(out))]
		began := time.Now()
		if q.Push(now, *at, 0) != nil {
			b.Fatal("refused")
		}
		it := q.Pop(now, free)
		took = append(took, time.Since(began))
		q.Settle(it, it.Seconds)
		*at = it
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}
