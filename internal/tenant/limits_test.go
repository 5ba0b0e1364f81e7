package tenant

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// limited is a book with one tenant.
func limited(t testing.TB, limits string) (*Book, *Tenant) {
	all := table(t, "tenants: [{name: K, keys: [$1], "+limits+"}]", fresh(1))
	return NewBook(all), all.Named("K")
}

// now is the only tenant as it stands.
func now(b *Book, at time.Time) Stats {
	all, _ := b.Stats(at, 0, 1)
	return all[0]
}

func TestWhatIsLeftIsWhatTheDayHasNotTakenYet(t *testing.T) {
	b, who := limited(t, "spend_per_day: 5")
	left := func(at time.Time, want Money) {
		t.Helper()
		if got, limited := b.Left(at, who); got != want || !limited {
			t.Errorf("%v is left, want %v", got, want)
		}
	}
	left(noon, 5*Unit)
	var k Ticket
	if err := b.Begin(noon, &k, who, Use{Money: 2 * Unit}); err != nil {
		t.Fatal(err)
	}
	left(noon, 3*Unit)
	b.End(noon, &k, true, Use{Money: 7 * Unit})
	left(noon, 0)
	left(noon.Add(24*time.Hour), 5*Unit)
	free, other := limited(t, "in_flight: 2")
	if _, limited := free.Left(noon, other); limited {
		t.Error("a limit where there is none")
	}
}

func refusal(t *testing.T, err error) *Refusal {
	t.Helper()
	r, ok := err.(*Refusal)
	if !ok {
		t.Fatalf("%v is no refusal", err)
	}
	return r
}

func TestRTL01RequestsAtOneInstantCannotPassOneCheckTogether(t *testing.T) {
	b, who := limited(t, "tokens_per_minute: 1000")
	begun := func(now time.Time) (tickets []*Ticket) {
		for range 50 {
			k := &Ticket{}
			if err := b.Begin(now, k, who, Use{Tokens: 100}); err == nil {
				tickets = append(tickets, k)
			} else if r := refusal(t, err); r.Limit != "tokens_per_minute" || r.Never || r.After <= 0 || r.After > 61*time.Second {
				t.Fatalf("%+v", r)
			}
		}
		return tickets
	}
	first := begun(noon)
	if len(first) != 10 {
		t.Errorf("%d of 50 began, want 10", len(first))
	}
	for _, k := range first {
		b.End(noon.Add(5*time.Second), k, true, Use{Tokens: 100})
	}
	r := refusal(t, b.Begin(noon.Add(5*time.Second), &Ticket{}, who, Use{Tokens: 100}))
	if n := len(begun(noon.Add(5*time.Second + r.After - time.Millisecond))); n != 0 {
		t.Errorf("%d began before their time", n)
	}
	if n := len(begun(noon.Add(5*time.Second + r.After))); n != 10 {
		t.Errorf("%d began after the window, want one window's worth of 10", n)
	}
}

func TestRTL02WhatNeverRanCostsNothing(t *testing.T) {
	b, who := limited(t, "requests_per_minute: 5, tokens_per_minute: 5000, in_flight: 1, spend_per_day: 5")
	use := Use{Tokens: 1000, Money: Unit}
	held := &Ticket{}
	if err := b.Begin(noon, held, who, use); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if r := refusal(t, b.Begin(noon, &Ticket{}, who, use)); r.Limit != "in_flight" {
			t.Errorf("%+v", r)
		}
	}
	b.End(noon, held, true, use)
	for i := range 4 {
		k := &Ticket{}
		if err := b.Begin(noon, k, who, use); err != nil {
			t.Fatalf("request %d after the release: %v", i, err)
		}
		b.End(noon, k, true, use)
	}
	later := noon.Add(2 * time.Minute)
	b.accounts["K"].spent = 0
	for range 10 { // no worker is there
		k := &Ticket{}
		if err := b.Begin(later, k, who, use); err != nil {
			t.Fatal(err)
		}
		b.End(later, k, false, use)
		b.End(later, k, true, use) // once is enough
	}
	for i := range 5 {
		k := &Ticket{}
		if err := b.Begin(later, k, who, use); err != nil {
			t.Fatalf("request %d after the worker came: %v", i, err)
		}
		b.End(later, k, true, use)
	}
	s := now(b, later)
	if s.Begun != 20 || s.NeverRan != 10 || s.Returned != 10_000 || s.Reserved != 20_000 || s.InFlight != 0 || s.Refused["in_flight"] != 10 || s.RequestsLastMinute != 5 || s.SpentToday != 5*Unit {
		t.Errorf("%+v", s)
	}
}

func TestAbortsAndStreamsAreSettledByWhatTheyUsed(t *testing.T) {
	b, who := limited(t, "tokens_per_minute: 1000")
	for _, used := range []int{0, 10, 250} { // aborted before the first token, after some, and longer than expected
		k := &Ticket{}
		if err := b.Begin(noon, k, who, Use{Tokens: 100}); err != nil {
			t.Fatal(err)
		}
		b.End(noon.Add(time.Second), k, true, Use{Tokens: used})
	}
	s := now(b, noon.Add(time.Second))
	if s.TokensLastMinute != 260 || s.Returned != 190 || s.Beyond != 150 || s.RequestsLastMinute != 3 {
		t.Errorf("%+v", s)
	}
	if r := refusal(t, b.Begin(noon.Add(time.Second), &Ticket{}, who, Use{Tokens: 5000})); !r.Never || r.After != 0 {
		t.Errorf("more than the limit alone: %+v", r)
	}
}

func TestSpendingIsCountedByTheDayAndToTheLastBillionth(t *testing.T) {
	b, who := limited(t, "spend_per_day: 0.000001")
	var tickets [10]Ticket
	for i := range tickets {
		if err := b.Begin(noon, &tickets[i], who, Use{Money: 100}); err != nil {
			t.Fatal(err)
		}
	}
	r := refusal(t, b.Begin(noon, &Ticket{}, who, Use{Money: 1}))
	if r.Limit != "spend_per_day" || r.After != 0 || r.Never || !strings.Contains(r.text, "0.000001 spent today (0.000001 of it reserved") {
		t.Errorf("what is reserved may come back soon: %+v", r)
	}
	if r := refusal(t, b.Begin(noon, &Ticket{}, who, Use{})); r.Limit != "spend_per_day" {
		t.Errorf("a request of unknown price: %+v", r)
	}
	if r := refusal(t, b.Begin(noon, &Ticket{}, who, Use{Money: 1001})); !r.Never || r.After != 0 {
		t.Errorf("more than a day's alone: %+v", r)
	}
	for i := 3; i < len(tickets); i++ {
		b.End(noon, &tickets[i], true, Use{Money: 100})
	}
	if r := refusal(t, b.Begin(noon, &Ticket{}, who, Use{Money: 400})); r.After != 12*time.Hour || !strings.Contains(r.text, "begins at 2027-03-02T00:00:00Z") {
		t.Errorf("what is spent does not come back: %+v", r)
	}
	b.End(noon, &tickets[0], true, Use{Money: 40})
	if s := now(b, noon); s.SpentToday != 940 {
		t.Errorf("%d spent, want 940", s.SpentToday)
	}
	tomorrow := noon.Add(12 * time.Hour)
	b.End(tomorrow, &tickets[1], true, Use{Money: 30}) // of yesterday's 100, some are given back there
	b.End(tomorrow, &tickets[2], true, Use{Money: 130})
	if s := now(b, tomorrow); s.SpentToday != 30 {
		t.Errorf("%d spent on the next day, want what went beyond yesterday's", s.SpentToday)
	}
}

func TestWhatWasSpentTodayIsTakenBackAfterARestartAndNothingElse(t *testing.T) {
	b, who := limited(t, "spend_per_day: 1")
	var k Ticket
	if err := b.Begin(noon, &k, who, Use{Money: Unit / 2}); err != nil {
		t.Fatal(err)
	}
	b.End(noon, &k, true, Use{Money: Unit / 4})
	kept := b.Spent(noon)
	if kept.Day != "2027-03-01" || kept.Money["K"] != Unit/4 || len(kept.Money) != 1 {
		t.Errorf("%+v", kept)
	}
	kept.Money["gone"], kept.Money["odd"] = Unit, -5
	for after, want := range map[time.Duration]Money{time.Hour: Unit / 4, 12 * time.Hour: 0} {
		again := NewBook(b.table)
		again.Restore(noon.Add(after), kept)
		spent := Money(0)
		if len(again.order) > 0 {
			spent = now(again, noon.Add(after)).SpentToday
		}
		if spent != want || len(again.order) > 1 {
			t.Errorf("after %v: %v of %d tenants, want %v", after, spent, len(again.order), want)
		}
		if err := again.Begin(noon.Add(after), &Ticket{}, who, Use{Money: Unit - want + 1}); err == nil {
			t.Errorf("after %v: more than is left passes", after)
		}
	}
}

func TestAccountsAreToldAFewAtATimeInAnOrderThatStays(t *testing.T) {
	text := "tenants:\n"
	for i := range 10 {
		text += fmt.Sprintf("  - {name: t%d, keys: [%q]}\n", i, digestOf(fresh(uint64(i))))
	}
	all, err := Parse("tenants.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	b := NewBook(all)
	for i := range 10 {
		if err := b.Begin(noon, &Ticket{}, all.Named(fmt.Sprint("t", (i+7)%10)), Use{}); err != nil {
			t.Fatal(err)
		}
	}
	names, from := "", 0
	for {
		var some []Stats
		if some, from = b.Stats(noon, from, 3); len(some) > 3 {
			t.Fatal(len(some))
		}
		for _, s := range some {
			names += s.Name
		}
		if from == 0 {
			break
		}
	}
	if names != "t7t8t9t0t1t2t3t4t5t6" {
		t.Error(names)
	}
}

func TestAmountsAreWrittenSoThatTheyCanBeTold(t *testing.T) {
	for m, want := range map[Money]string{0: "0.0000", Unit: "1.0000", 1: "0.000000001", Unit / 4: "0.2500", 12345678901: "12.345678901"} {
		if m.String() != want {
			t.Errorf("%d: %s, want %s", int64(m), m, want)
		}
	}
	for units, want := range map[float64]Money{-1: 0, 1e-9: 1, 4e-10: 0, 2.5: 5 * Unit / 2, 1e300: moneyMax} {
		if got := MoneyOf(units); got != want {
			t.Errorf("%v: %d", units, got)
		}
	}
}

func TestAnotherTableKeepsWhatWasUsedAndTicketsEndAsTheyBegan(t *testing.T) {
	b, who := limited(t, "in_flight: 2")
	var one, two, three Ticket
	if b.Begin(noon, &one, who, Use{}) != nil || b.Begin(noon, &two, who, Use{}) != nil {
		t.Fatal("not begun")
	}
	b.Replace(noon, table(t, "tenants: [{name: K, keys: [$1], in_flight: 1}]", fresh(9)))
	b.End(noon, &one, true, Use{})
	if r := refusal(t, b.Begin(noon, &three, who, Use{})); r.Limit != "in_flight" {
		t.Errorf("the new limit does not hold: %+v", r)
	}
	b.End(noon, &two, true, Use{})
	if err := b.Begin(noon, &three, who, Use{}); err != nil {
		t.Error(err)
	}
	b.Replace(noon, table(t, "tenants: [{name: other, keys: [$1]}]", fresh(9)))
	if err := b.Begin(noon, &Ticket{}, who, Use{}); err != ErrKey {
		t.Errorf("a tenant that is gone: %v", err)
	}
	b.End(noon, &three, true, Use{})
	if b.Replace(noon.Add(48*time.Hour), b.table); len(b.accounts) != 0 {
		t.Errorf("%d accounts of tenants who are gone", len(b.accounts))
	}
}

// TestLimitsHoldOverAnyMinuteWhateverComes holds random requests against a plain list of all that began.
func TestLimitsHoldOverAnyMinuteWhateverComes(t *testing.T) {
	type entry struct {
		ticket Ticket
		at     time.Time
		tokens int
	}
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 5))
			b, who := limited(t, "tokens_per_minute: 2000, requests_per_minute: 30, in_flight: 12")
			var all, running []*entry
			// last sums what began in the last so many seconds.
			last := func(now time.Time, seconds int) (tokens, requests int) {
				for _, e := range all {
					if e.at.After(now.Add(-time.Duration(seconds) * time.Second)) {
						tokens, requests = tokens+e.tokens, requests+1
					}
				}
				return tokens, requests
			}
			now := noon
			for range 5000 {
				now = now.Add(time.Duration(r.IntN(3000)) * time.Millisecond)
				if r.IntN(3) == 0 && len(running) > 0 {
					i := r.IntN(len(running))
					e := running[i]
					running = append(running[:i], running[i+1:]...)
					e.tokens = r.IntN(e.tokens + 1) // never beyond what was expected
					b.End(now, &e.ticket, true, Use{Tokens: e.tokens})
					continue
				}
				e := &entry{at: now, tokens: 1 + r.IntN(300)}
				err := b.Begin(now, &e.ticket, who, Use{Tokens: e.tokens})
				if err == nil {
					all, running = append(all, e), append(running, e)
				}
				if tokens, requests := last(now, 60); tokens > 2000 || requests > 30 || len(running) > 12 {
					t.Fatalf("in one minute %d tokens, %d requests, %d in flight", tokens, requests, len(running))
				}
				if tokens, requests := last(now, 61); err != nil && tokens+e.tokens <= 2000 && requests < 30 && len(running) < 12 {
					t.Fatalf("refused without need: %v", err)
				}
			}
			if len(all) < 1000 {
				t.Errorf("only %d began", len(all))
			}
		})
	}
}

func BenchmarkFindBeginAndEnd(b *testing.B) {
	book, who := limited(b, "tokens_per_minute: 1000000000, in_flight: 100")
	key := fresh(1)
	for i := range b.N {
		now := noon.Add(time.Duration(i) * time.Millisecond)
		var k Ticket
		found, err := book.Find(now, key)
		if err != nil || found != who || book.Begin(now, &k, found, Use{Tokens: 100}) != nil {
			b.Fatal(err)
		}
		book.End(now, &k, true, Use{Tokens: 90})
	}
}
