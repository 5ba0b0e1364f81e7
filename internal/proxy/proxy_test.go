package proxy

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/header"
	"github.com/warmpath/warmpath/internal/intake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestATraceIsTakenOverOnlyWhenItIsOne(t *testing.T) {
	good := "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for trace, want := range map[string]bool{
		good: true, "cc" + good[2:] + "-future": true, "": false, "x": false, strings.ToUpper(good): false, "ff" + good[2:]: false, good + "-x": false, good + "0": false,
		"00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01": false, "00-4bf92f3577b34da6a3ce929d0e0e4736-" + strings.Repeat("0", 16) + "-01": false,
	} {
		if intake.ValidTrace(trace) != want {
			t.Errorf("%q: valid %v, want %v", trace, !want, want)
		}
	}
	if made := intake.NewTrace(); !intake.ValidTrace(made) {
		t.Errorf("made %q", made)
	}
}

func TestARequestIdIsKeptOnlyWhenItIsFitForALogLine(t *testing.T) {
	for id, kept := range map[string]bool{"req-1": true, "": false, "with space": false, "new\nline": false, "ünï": false, strings.Repeat("x", 129): false} {
		got := intake.RequestID(header.Fields{{Name: "X-Request-Id", Value: id}})
		if (got == id) != kept || got == "" {
			t.Errorf("%q became %q", id, got)
		}
	}
}

func TestRetriesStayUnderATenthOfTrafficAndTenAMinute(t *testing.T) {
	now := time.Unix(0, 0)
	var b budget
	count := func() (n int) {
		for b.take(now) {
			n++
		}
		return n
	}
	if n := count(); n != 10 {
		t.Errorf("%d retries without any traffic, want 10", n)
	}
	now = now.Add(30 * time.Second)
	if n := count(); n != 5 {
		t.Errorf("%d retries after half a minute, want 5", n)
	}
	for range 200 {
		b.request()
	}
	if n := count(); n < 19 || n > 20 {
		t.Errorf("%d retries for 200 requests, want 20", n)
	}
	for range 100_000 {
		b.request()
	}
	if n := count(); n > retryEarnedMax+1 {
		t.Errorf("%d retries were saved up, want %d at most", n, retryEarnedMax)
	}
}

func TestRetryAfterIsReadInSecondsOrAsADateAndBounded(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, " 3 ": 3 * time.Second, "-1": 0, "soon": 0, "99999999": time.Minute,
		now.Add(20 * time.Second).Format(http.TimeFormat): 20 * time.Second, now.Add(-time.Hour).Format(http.TimeFormat): 0,
	} {
		if got := retryAfter(header.Fields{{Name: "Retry-After", Value: text}}, now); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestOwnersAreBoundedAndARecentLookupKeepsOne(t *testing.T) {
	o := newOwners(100)
	o.put("kept", owner{"w1", 1})
	for i := range 10_000 {
		o.put("other"+strings.Repeat("x", i%50)+time.Duration(i).String(), owner{"w2", 2})
		if _, ok := o.get("kept"); !ok {
			t.Fatalf("forgotten after %d others though it was asked for all the time", i)
		}
		if n := len(o.young) + len(o.old); n > 100 {
			t.Fatalf("%d entries, the bound is 100", n)
		}
	}
	if w, ok := o.get("kept"); !ok || w != (owner{"w1", 1}) {
		t.Errorf("got %v %v", w, ok)
	}
	if _, ok := o.get(""); ok {
		t.Error("an empty id has an owner")
	}
}
