package header

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfterMax is what a Retry-After counts for at most: a server that asks for more is seen again by then.
const RetryAfterMax = time.Minute

// RetryAfter reads a Retry-After field in seconds or as a date; 0 when it is absent or odd.
func (h Fields) RetryAfter(now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	d := time.Duration(0)
	if s, err := strconv.Atoi(v); err == nil {
		d = time.Duration(s) * time.Second
	} else if at, err := http.ParseTime(v); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), RetryAfterMax)
}
