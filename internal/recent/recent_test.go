package recent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/declog"
)

func record(i int) *declog.Record {
	return &declog.Record{ID: fmt.Sprintf("r%d", i), Time: time.Unix(int64(i), 0), Worker: fmt.Sprintf("w%d", i%2), Tenant: "t", Model: "m", Asked: "chat", Outcome: "succeeded", Hit: "hit",
		Rows: []declog.Row{{Worker: "w0"}, {Worker: "w1"}}, Tries: []declog.Try{{Worker: "w9", Class: "reset"}}}
}

func numbers(found []Entry) (text string) {
	for _, e := range found {
		text += fmt.Sprintf("%d ", e.Number)
	}
	return strings.TrimSpace(text)
}

func TestTheLastDecisionsAreKeptAndFoundTheNewestFirst(t *testing.T) {
	l := New(Options{Max: 5, BytesMax: 1 << 20})
	for i := 1; i <= 8; i++ {
		l.Add(record(i))
	}
	for _, c := range []struct {
		f    Filter
		want string
		more bool
	}{
		{Filter{}, "8 7 6 5 4", false}, {Filter{Limit: 2}, "8 7", true}, {Filter{Limit: 5}, "8 7 6 5 4", false}, {Filter{Worker: "w1"}, "7 5", false}, {Filter{Worker: "w9", Limit: 1}, "8", true},
		{Filter{After: 6}, "8 7", false}, {Filter{Since: time.Unix(7, 0)}, "8 7", false}, {Filter{Model: "chat", Tenant: "t", Outcome: "succeeded", Hit: "hit"}, "8 7 6 5 4", false},
		{Filter{Hit: "miss"}, "", false}, {Filter{ID: "r5"}, "5", false}, {Filter{ID: "r3"}, "", false},
	} {
		found, more := l.List(c.f)
		if numbers(found) != c.want || more != c.more {
			t.Errorf("%+v: %s, more %t", c.f, numbers(found), more)
		}
	}
	if e, found := l.Find("r6"); !found || e.Number != 6 || len(e.Rows) != 2 {
		t.Errorf("%+v", e)
	}
	if e, found := l.Find("#5"); !found || e.ID != "r5" {
		t.Errorf("%+v", e)
	}
	if ids := l.Beginning("r", 2); fmt.Sprint(ids) != "[r8 r7]" || len(l.Beginning("r3", 2)) != 0 || len(l.Beginning("r5", 2)) != 1 {
		t.Errorf("%v", ids)
	}
	for _, gone := range []string{"#3", "#9", "#0", "#x", "#", "r1", ""} {
		if e, found := l.Find(gone); found && gone != "" {
			t.Errorf("%s: %+v", gone, e)
		}
	}
}

func TestWhatIsKeptIsBoundedInBytesToo(t *testing.T) {
	l := New(Options{Max: 1000, BytesMax: 20_000})
	r := record(1)
	r.Error = strings.Repeat("x", 5000)
	for range 100 {
		l.Add(r)
	}
	s := l.Stats()
	if s.Bytes > s.BytesMax || s.Decisions < 5 || s.Decisions > 15 || s.Last != 100 {
		t.Errorf("%+v", s)
	}
	if found, _ := l.List(Filter{}); len(found) != s.Decisions || found[0].Number != 100 || len(found[0].Error) > 1024 {
		t.Errorf("%d decisions, %d bytes of error", len(found), len(found[0].Error))
	}
}

func TestWhatWasFoundDoesNotChangeAnyMore(t *testing.T) {
	l := New(Options{Max: 1, BytesMax: 1 << 20})
	r := record(1)
	l.Add(r)
	r.Rows[0].Worker, r.ModelRows = "another", []string{"row"}
	found, _ := l.List(Filter{})
	l.Add(record(2))
	if found[0].ID != "r1" || found[0].Rows[0].Worker != "w0" {
		t.Errorf("%+v", found[0])
	}
}

func TestALogOfNothingKeepsNothing(t *testing.T) {
	l := New(Options{})
	l.Add(record(1))
	if found, more := l.List(Filter{}); len(found) != 0 || more || l.Keeps() {
		t.Errorf("%v", found)
	}
	if _, found := l.Find("#1"); found {
		t.Error("something was found")
	}
}

func BenchmarkAdd(b *testing.B) {
	l, r := New(Options{Max: 2000, BytesMax: 16 << 20}), record(1)
	b.ReportAllocs()
	for b.Loop() {
		l.Add(r)
	}
}
