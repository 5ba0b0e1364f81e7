package proxy

import (
	"sync"
	"time"
)

// budget bounds retries as a share of traffic, so that a failing fleet is not asked several times over for each request. Each
// request earns a tenth of a retry, up to a minute's worth of calm; ten a minute are always allowed.
type budget struct {
	mu     sync.Mutex
	earned float64 // by traffic
	spare  float64 // by time
	at     time.Time
}

const (
	retryShare         = 0.1
	retryEarnedMax     = 100
	retriesAlwaysAMin  = 10
	retriesAlwaysASec  = retriesAlwaysAMin / 60.0
	retryBackoffFirst  = 10 * time.Millisecond
	retryBackoffSpread = 30 * time.Millisecond
)

// request notes one client request.
func (b *budget) request() {
	b.mu.Lock()
	b.earned = min(b.earned+retryShare, retryEarnedMax)
	b.mu.Unlock()
}

// take spends one retry, or says that none is left.
func (b *budget) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at.IsZero() {
		b.spare = retriesAlwaysAMin
	} else {
		b.spare = min(b.spare+now.Sub(b.at).Seconds()*retriesAlwaysASec, retriesAlwaysAMin)
	}
	b.at = now
	switch {
	case b.earned >= 1:
		b.earned--
	case b.spare >= 1:
		b.spare--
	default:
		return false
	}
	return true
}
