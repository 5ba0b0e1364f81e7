package flow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// p99 is the 99th percentile.
func p99(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)*99/100]
}

// mixed sends requests of all classes, whose tenants are named like them; load is over what the lanes do.
func (w *world) mixed(seconds, load float64, lanes int) {
	end := w.now.Add(time.Duration(seconds * float64(time.Second)))
	for w.now.Before(end) {
		w.after(w.r.ExpFloat64() * 0.5 / float64(lanes) / load)
		class := []int{0, 1, 1, 2, 2}[w.r.IntN(5)]
		actual := 0.1 + w.r.ExpFloat64()*0.4
		w.come(&Item{Line: "m", Tenant: DefaultOptions().Classes[class].Name, Class: class, Seconds: actual * (0.7 + 0.6*w.r.Float64()), Prefill: actual / 5}, actual)
	}
}

func TestOverloadIsShedFromBelowAndLeavesTheTopClassAlone(t *testing.T) {
	for seed := range uint64(3) {
		o := DefaultOptions()
		o.TenantRoom = 1e9
		w := newWorld(t, o, 16, seed)
		w.mixed(300, 1.5, 16)
		top, standard, batch := w.waited["interactive"], w.waited["standard"], w.waited["batch"]
		if p := p99(top); p > 0.5 {
			t.Errorf("the top class waited %.2f s at p99, more than a mean service of 0.5 s", p)
		}
		if p := p99(standard); p > 0.5*60 {
			t.Errorf("the middle class waited %.2f s at p99", p)
		}
		if len(w.refused) == 0 || len(batch) == 0 {
			t.Errorf("%d refused, %d batch jobs served", len(w.refused), len(batch))
		}
		for i, r := range w.refused {
			if r.After <= 0 || r.Reason == Crowded {
				t.Fatalf("refusal %d: %s, come again after %v", i, r.Reason, r.After)
			}
		}
		s := w.q.Stats(w.now)
		for i, c := range s.Classes {
			t.Logf("%-11s pushed %d passed %d popped %d full %d shed %d late %d timed out %d; %.2f s at p99", c.Class, c.Pushed, c.Passed, c.Popped, c.Full, c.Shed, c.Late, c.TimedOut, p99(w.waited[c.Class]))
			if i < 2 && c.Full+c.Shed+c.Late+c.TimedOut > 0 { // both together are less than there is
				t.Errorf("requests of an upper class were refused: %+v", c)
			}
		}
		ended := w.now
		w.waited = map[string][]float64{}
		w.mixed(60, 0.5, 16) // the overload is over
		recovered := slices.IndexFunc(w.began, func(it *Item) bool {
			return it.pushed.After(ended.Add(10*time.Second)) && it.Class < 2 && it.taken.Sub(it.pushed) > time.Second
		})
		if recovered >= 0 {
			t.Errorf("ten seconds after, a request of the upper classes still waited %v", w.began[recovered].taken.Sub(w.began[recovered].pushed))
		}
	}
}

func TestAQuietTenantWaitsHardlyLongerThanAloneOnItsShareOfTheWorkers(t *testing.T) {
	quiet := func(w *world, noise bool) float64 {
		for range 4000 { // 70 % of half of the lanes
			if w.after(w.r.ExpFloat64() * 0.5 / 4 / 0.7); noise {
				for w.q.Waiting() < 40 {
					w.come(&Item{Line: "m", Tenant: "loud", Seconds: 0.5, Prefill: 0.1}, 0.1+w.r.ExpFloat64()*0.4)
				}
			}
			w.come(&Item{Line: "m", Tenant: "quiet", Seconds: 0.5, Prefill: 0.1}, 0.1+w.r.ExpFloat64()*0.4)
		}
		waits := w.waited["quiet"]
		for i := range waits {
			waits[i] += 0.5 // with a mean service
		}
		return p99(waits)
	}
	alone, beside := quiet(newWorld(t, roomy(), 4, 31), false), quiet(newWorld(t, roomy(), 8, 31), true)
	t.Logf("p99 %.2f s alone on half, %.2f s beside a loud one", alone, beside)
	if beside > 1.2*alone {
		t.Errorf("p99 is %.2f s, alone on half of the lanes %.2f s", beside, alone)
	}
}

func TestTheSameArrivalsAreServedInTheSameOrder(t *testing.T) {
	order := func() (s []string) {
		w := newWorld(t, DefaultOptions(), 4, 77)
		for i := range 3000 {
			w.after(w.r.ExpFloat64() / 12)
			w.come(&Item{Line: string(rune('a' + i%5)), Tenant: string(rune('a' + w.r.IntN(20))), Class: w.r.IntN(3), Seconds: 0.5, Prefill: w.r.Float64(), Heavy: w.r.IntN(9) == 0}, w.r.Float64())
		}
		for _, it := range w.began {
			s = append(s, tell(it))
		}
		return append(s, w.refusals()...)
	}
	first := order()
	for range 3 {
		if !slices.Equal(first, order()) {
			t.Fatal("the order differs from one run to the next")
		}
	}
}

func (w *world) refusals() (s []string) {
	for _, r := range w.refused {
		s = append(s, r.Error()+r.After.String())
	}
	return s
}

func TestAReloadKeepsThoseWhoWaitAndRefusesOtherClasses(t *testing.T) {
	q, now := queue(t, DefaultOptions()), time.Unix(1e9, 0)
	it := &Item{Line: "m", Class: 1, Seconds: 1}
	if err := q.Push(now, it, 0.9); err != nil {
		t.Fatal(err)
	}
	o := DefaultOptions()
	o.RequestsMax, o.Classes[1].WaitMax = 1, time.Second
	if err := q.Reload(o); err != nil {
		t.Error(err)
	}
	if err := q.Push(now, &Item{Line: "m"}, 0.9); refusalOf(err) != Full {
		t.Errorf("the new bound does not hold: %v", err)
	}
	for want, change := range map[string]func(*Options){
		"requests_max":    func(o *Options) { o.RequestsMax = -1 },
		"would be 2":      func(o *Options) { o.Classes = o.Classes[:2] },
		"classes[2].name": func(o *Options) { o.Classes[2].Name = "bulk" },
	} {
		bad := DefaultOptions()
		change(&bad)
		if err := q.Reload(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to name %s", err, want)
		}
	}
	if q.o.RequestsMax != 1 || q.Pop(now.Add(50*time.Second), free) != it {
		t.Error("the old options, or who waited, did not stay")
	}
	if all := q.Tenants(5); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

func TestACrowdOfAccountsWhoseTimeIsOverIsForgottenBitByBitAndOwesNothing(t *testing.T) {
	o := roomy()
	o.Ahead = 0
	q, now := queue(t, o), time.Unix(1e9, 0)
	serve := func(tenant string) *Item {
		it := &Item{Line: "m", Tenant: tenant, Seconds: 1}
		if err := q.Push(now, it, 0); err != nil || q.Pop(now, free) != it {
			t.Fatal("not served")
		}
		return it
	}
	waits := &Item{Line: "m", Tenant: "waits", Seconds: 1}
	q.Push(now, waits, 0) // the line stays
	q.Settle(q.Pop(now, free), 10)
	var crowd []*Item
	for i := range 30 {
		crowd = append(crowd, serve(fmt.Sprint(i)))
	}
	serve("waits") // it has had ten seconds before: so much as all others may have now
	b := &q.lines["m"].bands[0]
	if n := len(b.accounts); n < 20 || b.served != 10 {
		t.Fatalf("%d accounts at %v s: the test shows nothing", n, b.served)
	}
	q.Settle(crowd[29], 6) // five more than it was charged
	if a := b.accounts["29"]; a == nil || a.served != 15 {
		t.Errorf("%+v, want what is owed beyond where the others are", a)
	}
	for range 30 {
		serve("another")
	}
	if n := len(b.accounts); n > 3 {
		t.Errorf("%d accounts are still remembered", n)
	}
}
