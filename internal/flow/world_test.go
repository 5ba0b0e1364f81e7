package flow

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// world is a queue before some lanes that each run one item at a time, in virtual time.
type world struct {
	t       *testing.T
	q       *Queue
	r       *rand.Rand
	now     time.Time
	lanes   int // free
	running []run
	service map[string]float64 // seconds that a tenant's finished items took
	began   []*Item            // in their order
	waited  map[string][]float64
	refused []*Refusal
	expired int
}

// run is an item on a lane.
type run struct {
	it      *Item
	ends    time.Time
	seconds float64
}

func newWorld(t *testing.T, o Options, lanes int, seed uint64) *world {
	t.Logf("seed %d", seed)
	return &world{t: t, q: queue(t, o), r: rand.New(rand.NewPCG(seed, 3)), now: time.Unix(1e9, 0), lanes: lanes,
		service: map[string]float64{}, waited: map[string][]float64{}}
}

// roomy are options under which nobody is refused or leaves.
func roomy() Options {
	o := DefaultOptions()
	o.RequestsMax, o.SecondsMax, o.TenantRoom = 1e6, 1e9, 1e9
	for i := range o.Classes {
		o.Classes[i].WaitMax, o.Classes[i].Ceiling, o.Classes[i].ShedFrom = 1000*time.Hour, 1, 1
	}
	return o
}

// come brings an item that takes so many seconds, whatever was predicted.
func (w *world) come(it *Item, seconds float64) {
	it.Owner = seconds
	if w.lanes > 0 && !w.q.Waits(it) {
		w.q.Pass(w.now, it)
		w.start(it)
		return
	}
	if err := w.q.Push(w.now, it, w.r.Float64()); err != nil {
		w.refused = append(w.refused, err.(*Refusal))
	}
}

func (w *world) start(it *Item) {
	w.lanes--
	seconds := it.Owner.(float64)
	w.running = append(w.running, run{it, w.now.Add(time.Duration(seconds * float64(time.Second))), seconds})
	w.began = append(w.began, it)
	w.waited[it.Tenant] = append(w.waited[it.Tenant], w.now.Sub(it.pushed).Seconds())
}

// to lets time go on.
func (w *world) to(until time.Time) {
	for {
		next := -1
		for i, r := range w.running {
			if !r.ends.After(until) && (next < 0 || r.ends.Before(w.running[next].ends)) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		r := w.running[next]
		w.running = slices.Delete(w.running, next, next+1)
		w.now = r.ends
		w.service[r.it.Tenant] += r.seconds
		w.q.Settle(r.it, r.seconds)
		w.lanes++
		w.place()
	}
	w.now = until
	w.expired += len(w.q.Expire(w.now, nil))
}

// place gives what room there is to those who wait.
func (w *world) place() {
	w.expired += len(w.q.Expire(w.now, nil))
	for w.q.Pop(w.now, func(it *Item) Verdict {
		if w.lanes == 0 {
			return QueueFull
		}
		w.start(it)
		return Placed
	}) != nil {
	}
}

func (w *world) after(seconds float64) {
	w.to(w.now.Add(time.Duration(seconds * float64(time.Second))))
}

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v / float64(len(values))
	}
	return sum
}

func within(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if got < want*(1-share) || got > want*(1+share) {
		t.Errorf("%s is %.4g, want %.4g within %.0f %%", what, got, want, 100*share)
	}
}

func TestBackloggedTenantsShareEngineTimeByWeightWhateverIsPredicted(t *testing.T) {
	for _, order := range []Order{Shortest, FirstCome, ByDeadline} {
		o := roomy()
		o.Classes[0].Order = order
		w := newWorld(t, o, 4, 11)
		weights := map[string]float64{"one": 1, "three": 3, "large": 2}
		for i := range 24_000 {
			tenant, actual := "one", 0.05+w.r.ExpFloat64()/4
			switch i % 12 {
			case 0, 1:
				tenant = "three" // a tenth of what the other sends
			case 2:
				tenant, actual = "large", 2+w.r.ExpFloat64()*4
			}
			predicted := actual * (0.3 + 2*w.r.Float64()*w.r.Float64()) // off by factors, and not the same for all
			if tenant == "three" {
				predicted /= 4
			}
			w.come(&Item{Line: "m", Tenant: tenant, Weight: weights[tenant], Seconds: predicted, Prefill: predicted / 2}, actual)
		}
		w.after(120)
		for tenant, weight := range weights {
			within(t, string(order)+": the service of "+tenant, w.service[tenant], 4*120*weight/6, 0.05)
		}
	}
}

func TestExpectedWaitsAndRetryAfterComeTrue(t *testing.T) {
	for seed := range uint64(4) {
		expectedWaitsComeTrue(t, seed)
	}
}

func expectedWaitsComeTrue(t *testing.T, seed uint64) {
	o := roomy()
	o.RequestsMax = 400
	w := newWorld(t, o, 8, seed)
	type told struct {
		it      *Item
		seconds float64
	}
	var tells []told
	for i := range 9000 { // 1.2 times what eight lanes can do, in three classes and ten tenants
		w.after(w.r.ExpFloat64() * 0.5 / 8 / 1.2)
		actual := 0.1 + w.r.ExpFloat64()*0.4
		it := &Item{Line: "m", Tenant: string(rune('a' + w.r.IntN(10))), Class: w.r.IntN(3), Seconds: actual * (0.5 + w.r.Float64()), Prefill: actual / 4}
		if w.come(it, actual); i > 1000 && it.state == waiting && it.Class < 2 {
			if wait, known := w.q.ExpectedWait(w.now, it); known {
				tells = append(tells, told{it, wait.Seconds()})
			}
		}
	}
	w.after(100)
	var expected, actual float64
	for _, x := range tells {
		if !x.it.taken.IsZero() {
			expected += x.seconds
			actual += x.it.taken.Sub(x.it.pushed).Seconds()
		}
	}
	if len(tells) < 2000 {
		t.Errorf("only %d waits were told", len(tells))
	}
	within(t, "the mean expected wait", expected/float64(len(tells)), actual/float64(len(tells)), 0.25)
	if len(w.refused) == 0 {
		t.Fatal("nobody was refused")
	}
	for _, r := range w.refused {
		if r.Reason != Full || r.After <= 0 {
			t.Fatalf("refused with %s, come again after %v", r.Reason, r.After)
		}
	}
}

func TestARefusedRequestThatComesAgainAsToldFindsWhatWasAheadOfItDone(t *testing.T) {
	o := roomy()
	o.RequestsMax = 300
	o.Classes = o.Classes[:1]
	w := newWorld(t, o, 4, 9)
	var after, took []float64
	for round := range 20 {
		for len(w.refused) == round {
			actual := 0.2 + w.r.ExpFloat64()*0.3
			w.come(&Item{Line: "m", Tenant: string(rune('a' + w.r.IntN(5))), Seconds: actual, Prefill: actual / 4}, actual)
			w.after(0.01)
		}
		began := w.now
		ahead := w.q.Waiting()
		for w.q.Waiting() > 0 {
			w.after(0.05)
		}
		if round > 0 { // the first time nothing is known yet
			after, took = append(after, w.refused[round].After.Seconds()), append(took, w.now.Sub(began).Seconds())
		}
		if ahead < 295 {
			t.Fatalf("refused with %d waiting", ahead)
		}
	}
	within(t, "Retry-After", mean(after), mean(took), 0.25)
	t.Logf("%.1f s told, %.1f s taken", mean(after), mean(took))
}

func TestACrowdOfShortJobsDoesNotHoldALongOneForMoreThanItsSizeAllows(t *testing.T) {
	o := roomy()
	w := newWorld(t, o, 1, 2)
	long := &Item{Line: "m", Tenant: "a", Seconds: 2, Prefill: 2}
	w.come(&Item{Line: "m", Tenant: "a", Seconds: 1, Prefill: 1}, 1)
	w.come(long, 2)
	for long.taken.IsZero() { // just what the lane can do, all of it shorter
		w.come(&Item{Line: "m", Tenant: "a", Seconds: 0.1, Prefill: 0.1}, 0.1)
		w.after(0.1)
		if w.now.Sub(long.pushed) > time.Hour {
			t.Fatal("the long job starved")
		}
	}
	if most := time.Duration((o.SizeMultiple*2 + 2) * float64(time.Second)); long.taken.Sub(long.pushed) > most {
		t.Errorf("a job of 2 s was overtaken for %v, more than %v", long.taken.Sub(long.pushed), most)
	}
	first := w.began[1]
	if first == long {
		t.Error("the long job went before shorter ones")
	}
}
