package trace

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/header"
	"github.com/warmpath/warmpath/internal/intake"
	"github.com/warmpath/warmpath/internal/leash"
)

const (
	theirs  = "0af7651916cd43dd8448eb211c80319c"
	sampled = "00-" + theirs + "-b7ad6b7169203331-01"
	left    = "00-" + theirs + "-b7ad6b7169203331-00"
)

func fields(pairs ...string) (h header.Fields) {
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func TestATraceIsJoinedAsItsClientDecided(t *testing.T) {
	for _, c := range []struct {
		what         string
		o            Options
		in           header.Fields
		joined, sent bool
	}{
		{"sampled", Options{FollowClients: true}, fields("Traceparent", sampled), true, true},
		{"not sampled", Options{Sample: 1, FollowClients: true}, fields("Traceparent", left), true, false},
		{"sampled, by a client that decides nothing", Options{}, fields("Traceparent", sampled), true, false},
		{"not sampled, by a client that decides nothing", Options{Sample: 1}, fields("Traceparent", left), true, true},
		{"none", Options{Sample: 1, FollowClients: true}, nil, false, true},
		{"none, and no share", Options{FollowClients: true}, nil, false, false},
		{"a later version", Options{FollowClients: true}, fields("Traceparent", "cc"+sampled[2:]+"-more"), true, true},
		{"two", Options{Sample: 1}, fields("Traceparent", sampled, "Traceparent", left), false, true},
		{"upper case", Options{Sample: 1}, fields("Traceparent", strings.ToUpper(sampled)), false, true},
		{"no trace", Options{Sample: 1}, fields("Traceparent", "00-"+strings.Repeat("0", 32)+"-b7ad6b7169203331-01"), false, true},
		{"no span", Options{Sample: 1}, fields("Traceparent", "00-"+theirs+"-0000000000000000-01"), false, true},
		{"version ff", Options{Sample: 1}, fields("Traceparent", "ff"+sampled[2:]), false, true},
		{"longer", Options{Sample: 1}, fields("Traceparent", sampled+"-x"), false, true},
		{"a megabyte", Options{Sample: 1}, fields("Traceparent", strings.Repeat("0", 1<<20)), false, true},
		{"bytes", Options{Sample: 1}, fields("Traceparent", "00-\x00\xff\r\n"), false, true},
	} {
		x := New(c.o).Begin(c.in)
		if joined := x.Trace.String() == theirs && !x.Parent.Zero(); joined != c.joined || x.Sampled != c.sent || x.Span.Zero() {
			t.Errorf("%s: joined %v, sampled %v", c.what, joined, x.Sampled)
		}
		next := x.Next()
		if !intake.ValidTrace(next) || strings.HasSuffix(next, "1") && !c.sent || next[3:35] != x.Trace.String() || strings.Contains(next, "b7ad6b7169203331") {
			t.Errorf("%s: the engine is told %q", c.what, next)
		}
		if again := x.Next(); again == next {
			t.Errorf("%s: two tries are one span", c.what)
		}
	}
}

func TestTracestateIsPassedOnOrDroppedWhole(t *testing.T) {
	long := "a=" + strings.Repeat("x", 256)
	for _, c := range []struct {
		in   []string
		want string
	}{
		{nil, ""},
		{[]string{"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"}, "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"},
		{[]string{"a=1", "t@b=2 3"}, "a=1,t@b=2 3"},
		{[]string{"a=1,,b=2"}, "a=1,,b=2"},
		{[]string{long}, long},
		{[]string{long + "x"}, ""},
		{[]string{"a"}, ""},
		{[]string{"A=1"}, ""},
		{[]string{"a=1\x00"}, ""},
		{[]string{"a=1=2"}, ""},
		{[]string{strings.Repeat("a=1,", 33)}, ""},
		{[]string{strings.Repeat(long+",", 8)}, ""},
	} {
		in := fields("Traceparent", sampled)
		for _, v := range c.in {
			in.Add(intake.HeaderState, v)
		}
		if got := New(Options{}).Begin(in).State; got != c.want {
			t.Errorf("%.60q became %.60q", c.in, got)
		}
	}
	if got := New(Options{}).Begin(fields(intake.HeaderState, "a=1")).State; got != "" {
		t.Errorf("without a trace it is %q", got)
	}
}

func TestAShareOfTheTracesIsSampledByTheirIds(t *testing.T) {
	some, most, n := New(Options{Sample: 0.25}), New(Options{Sample: 0.5}), 0
	for range 20_000 {
		x := some.Begin(nil)
		y := most.Begin(fields("Traceparent", fmt.Sprintf("00-%s-b7ad6b7169203331-00", x.Trace)))
		if x.Sampled && !y.Sampled {
			t.Fatalf("%s is in a quarter and not in the half", x.Trace)
		}
		if x.Sampled {
			n++
		}
	}
	if n < 4600 || n > 5400 { // six standard deviations
		t.Errorf("%d of 20,000, want 5,000", n)
	}
}

type classed struct{}

func (classed) Error() string { return "it was reset" }
func (classed) Class() string { return "reset" }

func TestTriesAreKeptOfSampledRequestsOnly(t *testing.T) {
	began := time.Unix(1, 0)
	now := func() time.Time { return began.Add(time.Second) }
	for _, share := range []float64{0, 1} {
		x := New(Options{Sample: share}).Begin(nil)
		x.Admitted(began, now)
		x.Next()
		x.Heard(502)
		x.Tried("a", began, now, fmt.Errorf("around: %w", classed{}))
		x.Next()
		x.Tried("b", began, now, errors.New("plain"))
		if share == 0 {
			if x.Tries != nil || !x.Keyed.IsZero() {
				t.Errorf("not sampled: %+v", x)
			}
			continue
		}
		a, b := x.Tries[0], x.Tries[1]
		if a.Worker != "a" || a.Status != 502 || !a.Head || a.Class != "reset" || !a.Failed || b.Worker != "b" || b.Head || b.Class != "" || !b.Failed || a.Span == b.Span || x.Read != began {
			t.Errorf("%+v", x)
		}
	}
}

func TestWhatIsNotTracedCostsNoMemory(t *testing.T) {
	var off *Tracer
	in := fields("Traceparent", sampled, "Tracestate", "a=1")
	var x Context
	n := testing.AllocsPerRun(100, func() {
		x = off.Begin(in)
		x.Admitted(time.Time{}, time.Now)
		if x.Next() != "" || x.State != "" {
			t.Error("a trace out of nothing")
		}
		x.Heard(200)
		x.Tried("w", time.Time{}, time.Now, nil)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzBegin(f *testing.F) {
	f.Add(sampled, "a=1")
	f.Add("00-", ",,,=")
	tracer := New(Options{Sample: 0.5, FollowClients: true})
	f.Fuzz(func(t *testing.T, parent, state string) {
		defer leash.Hold(t, len(parent)+len(state))()
		x := tracer.Begin(fields("Traceparent", parent, "Tracestate", state))
		if next := x.Next(); !intake.ValidTrace(next) || len(next) != 55 || len(x.State) > stateBytesMax || strings.ContainsAny(x.State, "\r\n\x00") {
			t.Errorf("%q, %q: %q, %q", parent, state, next, x.State)
		}
	})
}

func BenchmarkRequest(b *testing.B) {
	in := fields("Traceparent", sampled)
	for name, tracer := range map[string]*Tracer{"off": nil, "not sampled": New(Options{}), "sampled": New(Options{Sample: 1})} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				x := tracer.Begin(in)
				x.Admitted(time.Time{}, time.Now)
				x.Next()
				x.Tried("w", time.Time{}, time.Now, nil)
			}
		})
	}
}
