package feed

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// told is a snapshot as a listener reads it.
type told struct {
	Sequence uint64
	Whole    bool
	Head     struct{ N int }
	Rows     []struct {
		ID string
		N  int
	}
	Gone []string
}

func read(t *testing.T, l *Listener) (lost bool, s told) {
	t.Helper()
	event := string(<-l.Events())
	if before, after, some := strings.Cut(event, "\n\n"); some && strings.HasPrefix(before, "event: lost") {
		lost, event = true, after
	}
	_, data, _ := strings.Cut(event, "data: ")
	if err := json.Unmarshal([]byte(data), &s); err != nil || !strings.HasSuffix(event, "\n\n") {
		t.Fatalf("%v: %q", err, event)
	}
	return lost, s
}

func snapshot(n int, rows ...string) func() Snapshot {
	return func() Snapshot {
		s := Snapshot{Head: fmt.Appendf(nil, `{"n":%d}`, n)}
		for _, id := range rows {
			s.Rows = append(s.Rows, Row{id, fmt.Appendf(nil, `{"id":%q,"n":%d}`, id, n*len(id)/2)})
		}
		return s
	}
}

func TestNothingIsMadeWhileNobodyListens(t *testing.T) {
	h := New(2)
	if h.Tell(func() Snapshot { t.Error("a snapshot was made"); return Snapshot{} }) {
		t.Error("somebody was told")
	}
	l, err := h.Listen()
	if err != nil {
		t.Fatal(err)
	}
	<-h.Wanted()
	made := 0
	other, _ := h.Listen()
	h.Tell(func() Snapshot { made++; return snapshot(1, "a")() })
	if made != 1 || len(l.Events()) != 1 || len(other.Events()) != 1 {
		t.Errorf("%d made for two listeners", made)
	}
	l.Close()
	other.Close()
	other.Close()
	h.Tell(func() Snapshot { t.Error("a snapshot was made"); return Snapshot{} })
}

func TestRowsAreToldWholeOnceAndThenAsTheyChange(t *testing.T) {
	h := New(2)
	l, _ := h.Listen()
	h.Tell(snapshot(1, "a", "bbbb"))
	if _, s := read(t, l); !s.Whole || len(s.Rows) != 2 || s.Head.N != 1 {
		t.Errorf("%+v", s)
	}
	h.Tell(snapshot(1, "a", "bbbb"))
	if _, s := read(t, l); s.Whole || len(s.Rows) != 0 || len(s.Gone) != 0 {
		t.Errorf("nothing changed: %+v", s)
	}
	late, _ := h.Listen()
	h.Tell(snapshot(2, "bbbb", "c"))
	if _, s := read(t, l); s.Whole || len(s.Rows) != 2 || len(s.Gone) != 1 || s.Gone[0] != "a" {
		t.Errorf("%+v", s)
	}
	if _, s := read(t, late); !s.Whole || len(s.Rows) != 2 || len(s.Gone) != 0 || s.Sequence != 3 {
		t.Errorf("%+v", s)
	}
}

func TestWhoReadsTooSlowlyLosesSnapshotsAndGoesOnFromAWholeOne(t *testing.T) {
	h := New(1)
	l, _ := h.Listen()
	for n := range buffered + 3 {
		h.Tell(snapshot(n, "a", "bbbb"))
	}
	for n := range buffered {
		if lost, s := read(t, l); lost || s.Head.N != n {
			t.Errorf("%t %+v", lost, s)
		}
	}
	h.Tell(snapshot(9, "a", "bbbb"))
	if lost, s := read(t, l); !lost || !s.Whole || len(s.Rows) != 2 || s.Head.N != 9 {
		t.Errorf("%t %+v", lost, s)
	}
	h.Tell(snapshot(9, "a", "bbbb"))
	if lost, s := read(t, l); lost || s.Whole {
		t.Errorf("%t %+v", lost, s)
	}
}

func TestThereAreOnlySoManyListenersAndNoneOnceItIsClosed(t *testing.T) {
	h := New(1)
	l, _ := h.Listen()
	var full *FullError
	if _, err := h.Listen(); !errors.As(err, &full) || full.Max != 1 {
		t.Errorf("%v", err)
	}
	h.Close()
	if _, open := <-l.Events(); open {
		t.Error("the listener was not told of the end")
	}
	l.Close()
	if _, err := h.Listen(); err == nil || h.Listening() != 0 {
		t.Error("somebody listens to what is closed")
	}
}

func BenchmarkTellingOf500WorkersTo16Listeners(b *testing.B) {
	h := New(16)
	for range 16 {
		l, _ := h.Listen()
		go func() {
			for range l.Events() {
			}
		}()
	}
	defer h.Close()
	ids := make([]string, 500)
	for i := range ids {
		ids[i] = fmt.Sprint("worker-", i)
	}
	n := 0
	for b.Loop() {
		n++
		h.Tell(snapshot(n, ids...))
	}
}
