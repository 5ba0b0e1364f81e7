package sched

import "testing"

func TestExplore(t *testing.T) {
	for seed := range uint64(4) {
		for _, c := range []struct {
			n, shared int
			rate      float64
		}{{2, 32000, 14}, {2, 32000, 12}, {4, 8000, 60}} {
			load := hotPrefix(seed, 1500, c.rate, c.shared)
			for _, p := range []string{"round-robin", "least-requests", "warm-cost"} {
				o := newRig(t, c.n, p).run(load)
				t.Logf("%d %v %-14s TTFT %7.4f s  TPOT %7.5f s  prefilled %8d  declined %4d  busiest %.2f", seed, c.rate, p, o.ttft, o.tpot, o.prefilled, o.hits, o.share)
			}
		}
	}
}
