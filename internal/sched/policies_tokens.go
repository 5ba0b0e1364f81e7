package sched

// Rules that take sums or products of tokens. P is the uncached prompt tokens dispatched to a worker whose first token has not come,
// u and h are what this request finds uncached and cached there, L = u + h, A its requests in flight, KV the tokens that those hold.

// leastTokens takes the least P, blind to what this request finds cached: the token-counting load balancers.
func leastTokens(s *Scheduler, req *Request) (int, string) {
	return s.least(nil, func(c *candidate) float64 { return float64(c.load.PendingTokens) }, 0, 0), reasonLeast
}

// leastPrefill takes the least P + u: Mooncake's Conductor (Qin et al. 2025), and any rule of the least predicted TTFT on equal workers.
func leastPrefill(s *Scheduler, req *Request) (int, string) {
	return s.least(nil, func(c *candidate) float64 { return float64(c.load.PendingTokens + c.uncached) }, 0, 0), reasonLeast
}

// multiply takes the least (P + u) * (A + 1): LMetric (OSDI 2026).
func multiply(s *Scheduler, req *Request) (int, string) {
	return s.least(nil, func(c *candidate) float64 {
		return float64(c.load.PendingTokens+c.uncached) * (c.inFlight + 1)
	}, 0, 0), reasonLeast
}

// What linear gives a token of prefill against one held, and a cached token against an uncached one: NVIDIA Dynamo's defaults, and
// those that a search over its own benchmarks prefers.
const (
	linearScale, linearCredit = 1.0, 1.0
	tunedScale, tunedCredit   = 2.0, 4.0
)

// linear takes the least scale * (P + L - credit*h) + KV + L, in tokens: NVIDIA Dynamo's router.
func linear(s *Scheduler, req *Request) (int, string) {
	return s.linear(linearScale, linearCredit), reasonBlend
}

// linearTuned is linear with twice the prefill and four times the credit.
func linearTuned(s *Scheduler, req *Request) (int, string) {
	return s.linear(tunedScale, tunedCredit), reasonBlend
}

func (s *Scheduler) linear(scale, credit float64) int {
	return s.least(nil, func(c *candidate) float64 {
		length := float64(c.cached + c.uncached)
		return scale*(float64(c.load.PendingTokens)+length-credit*float64(c.cached)) + float64(c.load.KVHeldTokens) + length
	}, 0, 0)
}
