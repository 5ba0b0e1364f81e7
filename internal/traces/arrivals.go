package traces

import (
	"math/rand/v2"
	"time"
)

// Arrivals draws when requests come within the grain of their stamps. The same seed draws the same, whatever becomes of them.
type Arrivals struct {
	chance *rand.Rand
	jitter time.Duration
	rate   float64
}

// NewArrivals draws over so much of the trace's time, which goes by rate times as fast.
func NewArrivals(seed uint64, jitter time.Duration, rate float64) *Arrivals {
	return &Arrivals{rand.New(rand.NewPCG(seed, 0x6172726976616c73)), jitter, rate}
}

// At is when a request with that stamp comes. It is asked for each request once, in their order.
func (a *Arrivals) At(stamp time.Duration) time.Duration {
	at := float64(stamp)
	if a.jitter > 0 {
		at += a.chance.Float64() * float64(a.jitter)
	}
	return time.Duration(at / a.rate)
}

// Within is some time of a stretch.
func (a *Arrivals) Within(d time.Duration) time.Duration {
	return time.Duration(a.chance.Float64() * float64(d))
}
