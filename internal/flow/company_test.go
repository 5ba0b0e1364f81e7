package flow

import (
	"testing"
	"time"
)

func TestOnlyThoseYieldWhoHaveOthersToYieldTo(t *testing.T) {
	for _, x := range []struct {
		name   string
		others []Item // who came before, and wait
		item   Item
		later  time.Duration
		want   bool
	}{
		{"nobody else came", nil, Item{Class: 1}, 0, false},
		{"others of its tenant wait", []Item{{Class: 1}, {Class: 1}}, Item{Class: 1}, 0, false},
		{"a class above was there", []Item{{Class: 0}}, Item{Class: 1}, 0, true},
		{"but long ago", []Item{{Class: 0}}, Item{Class: 1}, companyFor, false},
		{"a class below", []Item{{Class: 2}}, Item{Class: 1}, 0, false},
		{"another tenant was there, and it is all that its own wants", []Item{{Class: 1, Tenant: "loud"}, {Class: 1, Tenant: "loud"}}, Item{Class: 1, Tenant: "quiet"}, 0, false},
		{"another tenant was there, and its own has more waiting", []Item{{Class: 1, Tenant: "quiet"}, {Class: 1, Tenant: "loud"}}, Item{Class: 1, Tenant: "loud"}, 0, true},
		{"another line", []Item{{Class: 0, Line: "other"}}, Item{Class: 1}, 0, false},
	} {
		q, now := queue(t, roomy()), time.Unix(1e9, 0)
		for i := range x.others {
			q.Came(now, &x.others[i])
			if err := q.Push(now, &x.others[i], 0); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(x.later)
		q.Came(now, &x.item)
		if got := q.Yields(now, &x.item); got != x.want {
			t.Errorf("%s: %v before it waits", x.name, got)
		}
		if err := q.Push(now, &x.item, 0); err != nil {
			t.Fatal(err)
		}
		if got := q.Yields(now, &x.item); got != x.want {
			t.Errorf("%s: %v while it waits", x.name, got)
		}
	}
}

func TestATenantThatAsksForLittleGoesFirstAlsoWithSeveralAtOnce(t *testing.T) {
	o := roomy()
	o.Ahead = 2 * time.Second
	q, now := queue(t, o), time.Unix(1e9, 0)
	for range 20 {
		q.Push(now, &Item{Owner: "l", Tenant: "loud", Seconds: 1}, 0)
	}
	for range 10 {
		q.Pop(now, free)
	}
	if it := (&Item{Tenant: "quiet", Seconds: 1}); q.Waits(it) {
		t.Error("the first of a quiet tenant waits behind a loud one's")
	}
	for range 5 {
		q.Push(now, &Item{Owner: "q", Tenant: "quiet", Seconds: 1}, 0)
	}
	var got []*Item
	for range 8 {
		got = append(got, q.Pop(now, free))
	}
	if names(got) != "qqqlqlql" {
		t.Errorf("%s, want two seconds ahead, and its turn, before they take turns", names(got))
	}
}
