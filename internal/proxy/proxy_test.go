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
