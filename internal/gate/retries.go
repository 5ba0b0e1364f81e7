package gate

import (
	"sync"
	"time"
)

// Retries bounds retries as a share of traffic, so that a failing fleet is not asked several times over for each request. Each
// request earns a tenth of a retry, up to a minute's worth of calm; ten a minute are always allowed.
type Retries struct {
	mu     sync.Mutex
	earned float64 // by traffic
	spare  float64 // by time
	at     time.Time
}

const (
	retryShare        = 0.1
	retryEarnedMax    = 100
	retriesAlwaysAMin = 10
	retriesAlwaysASec = retriesAlwaysAMin / 60.0
)

// Earn notes one client request.
func (r *Retries) Earn() {
	r.mu.Lock()
	r.earned = min(r.earned+retryShare, retryEarnedMax)
	r.mu.Unlock()
}

// Take spends one retry, or says that none is left.
func (r *Retries) Take(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() {
		r.spare = retriesAlwaysAMin
	} else {
		r.spare = min(r.spare+now.Sub(r.at).Seconds()*retriesAlwaysASec, retriesAlwaysAMin)
	}
	r.at = now
	switch {
	case r.earned >= 1:
		r.earned--
	case r.spare >= 1:
		r.spare--
	default:
		return false
	}
	return true
}
