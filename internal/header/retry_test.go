package header

import (
	"net/http"
	"testing"
	"time"
)

func TestRetryAfterIsReadInSecondsOrAsADateAndBounded(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, " 3 ": 3 * time.Second, "-1": 0, "soon": 0, "99999999": time.Minute,
		now.Add(20 * time.Second).Format(http.TimeFormat): 20 * time.Second, now.Add(-time.Hour).Format(http.TimeFormat): 0,
	} {
		if got := (Fields{{Name: "Retry-After", Value: text}}).RetryAfter(now); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
