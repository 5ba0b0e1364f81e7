package workload

import (
	"slices"
	"time"
)

// Result is what a run measured, as the clients saw it.
type Result struct {
	// Requests were answered whole; Errors failed; Unfinished were not sent or not answered when the run was cut off
	// or when the request before them in their chat had failed.
	Requests, Errors, Unfinished int
	// Met is how many of the requests kept the SLO.
	Met int
	// FirstError says what the first of the errors was.
	FirstError string

	TTFT Spread // first token minus the instant the request was sent
	ITL  Spread // gaps between the tokens of one answer
	TPOT Spread // mean gap of one answer, of those with two tokens or more
	E2E  Spread // last byte minus the instant the request was sent

	// As the usage of the replies reports them.
	PromptTokens, CachedTokens, OutputTokens int
	Elapsed                                  time.Duration
}

// HitRate is the share of prompt tokens that were found cached, 0 to 1.
func (r Result) HitRate() float64 {
	if r.PromptTokens == 0 {
		return 0
	}
	return float64(r.CachedTokens) / float64(r.PromptTokens)
}

// Spread describes a set of durations. P50 and the like are the smallest sample with that share at or below it.
type Spread struct {
	Count                    int
	Mean, P50, P90, P99, Max time.Duration
}

// spread sorts the samples.
func spread(samples []time.Duration) Spread {
	if len(samples) == 0 {
		return Spread{}
	}
	slices.Sort(samples)
	var sum time.Duration
	for _, s := range samples {
		sum += s
	}
	at := func(percent int) time.Duration {
		return samples[max((len(samples)*percent+99)/100, 1)-1]
	}
	return Spread{
		Count: len(samples),
		Mean:  sum / time.Duration(len(samples)),
		P50:   at(50), P90: at(90), P99: at(99),
		Max: samples[len(samples)-1],
	}
}
