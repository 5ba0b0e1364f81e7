package gate

import (
	"testing"
	"time"
)

func TestRetriesStayUnderATenthOfTrafficAndTenAMinute(t *testing.T) {
	now := time.Unix(0, 0)
	var b Retries
	count := func() (n int) {
		for b.Take(now) {
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
		b.Earn()
	}
	if n := count(); n < 19 || n > 20 {
		t.Errorf("%d retries for 200 requests, want 20", n)
	}
	for range 100_000 {
		b.Earn()
	}
	if n := count(); n > retryEarnedMax+1 {
		t.Errorf("%d retries were saved up, want %d at most", n, retryEarnedMax)
	}
}
