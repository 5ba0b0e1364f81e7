// Package digest is what a decision log tells of the time that it covers: the traffic, its tails, what caches did for it, who asked most, what
// went wrong, and how far what was predicted came true.
//
//	b := digest.New()
//	b.Add(&record) // each record, in any order
//	d := b.Digest()
//	fmt.Println(d.Requests, d.HitRate, d.Hits[0].TTFT.P99)
//
// Seconds are wall time as clients saw it, tokens are those that engines reported where they did, else estimates. A log of any length takes
// bounded memory: what there may be any number of is counted by name up to a bound, and what is beyond it as "others".
package digest

import (
	"time"

	"github.com/warmpath/warmpath/internal/sketch"
)

// Digest is the whole of it. Shares are of 1; a time that nobody measured is 0, with a count of 0.
type Digest struct {
	From     time.Time `json:"from"` // the first arrival
	To       time.Time `json:"to"`   // the last end
	Seconds  float64   `json:"seconds"`
	Requests int       `json:"requests"`
	Routers  int       `json:"routers"` // lives of routers
	Policy   string    `json:"policy"`  // that decided most

	Tokens
	Money float64 `json:"money,omitempty"`

	CacheReported    int     `json:"cache_reported"`     // answers that told how much was cached
	HitRate          float64 `json:"hit_rate"`           // cached over prompt tokens, of answers that told both
	ReachableRate    float64 `json:"reachable_hit_rate"` // the same if each had gone where most of its prompt was held
	Declined         int     `json:"declined"`           // hits that were given up for a shorter wait
	DeclinedTokens   int64   `json:"declined_tokens"`    // that were computed again for it
	Retried          int     `json:"retried"`            // requests that a worker failed
	RetriedSucceeded int     `json:"retried_succeeded"`  // of these, answered by another
	Moved            int     `json:"moved"`              // requests taken back from a worker that was leaving, and placed on another
	Preempted        int     `json:"preempted"`          // requests whose work gave way to more urgent ones
	WaitedSeconds    Times   `json:"waited_seconds"`     // for room, of those that waited

	Outcomes []Outcome `json:"outcomes"`
	Hits     []Hit     `json:"hits"` // all first, then by what the cache did
	Step     float64   `json:"step_seconds"`
	Steps    []Step    `json:"steps"`

	Tenants  []User     `json:"tenants"` // the heaviest first
	Prompts  []User     `json:"prompts"` // beginnings that prompts share, by the id of one that has it
	Models   []User     `json:"models"`
	Workers  []Worker   `json:"workers"`
	Errors   []Fault    `json:"errors"`
	Tries    []Fault    `json:"tries"`
	Forecast []Forecast `json:"forecast"`

	// BusyShare is the workers' time that the engine seconds of requests come to, on the mean; BusiestShare that of the busiest step.
	BusyShare    float64 `json:"busy_share"`
	BusiestShare float64 `json:"busiest_share"`
}

// Tokens of some requests.
type Tokens struct {
	PromptTokens int64 `json:"prompt_tokens"`
	CachedTokens int64 `json:"cached_tokens"` // of these
	AnswerTokens int64 `json:"answer_tokens"`
}

// Times are those of some requests in seconds.
type Times struct {
	Count int     `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
}

// TimesOf are the times of a distribution.
func TimesOf(d *sketch.Distribution) Times {
	return Times{d.Count(), d.Mean(), d.Quantile(0.5), d.Quantile(0.9), d.Quantile(0.99)}
}

// Outcome is how requests ended.
type Outcome struct {
	Name     string `json:"outcome"`
	Requests int    `json:"requests"`
}

// Hit is what the cache of the chosen worker did for some requests. ITL is of each answer's median gap between tokens.
type Hit struct {
	Name         string `json:"hit"` // all, hit, partial, miss or declined
	Requests     int    `json:"requests"`
	PromptTokens int64  `json:"prompt_tokens"`
	TTFT         Times  `json:"ttft_seconds"`
	ITL          Times  `json:"itl_seconds"`
	E2E          Times  `json:"e2e_seconds"`
}

// Step is a piece of the time, by arrivals.
type Step struct {
	Start    time.Time `json:"start"`
	Requests int       `json:"requests"`
	Failed   int       `json:"failed"` // that neither succeeded nor were cancelled
	Tokens
	TTFT          Times   `json:"ttft_seconds"`
	EngineSeconds float64 `json:"engine_seconds"` // expected of them
}

// User is who or what requests belong to.
type User struct {
	Name     string `json:"name"`
	Requests int    `json:"requests"`
	Failed   int    `json:"failed"`
	Tokens
	EngineSeconds float64 `json:"engine_seconds"`
	TTFTP90       float64 `json:"ttft_p90_seconds"`
}

// Worker is what one did.
type Worker struct {
	User
	BusyShare   float64 `json:"busy_share"` // engine seconds of its requests, over the whole time
	FailedTries int     `json:"failed_tries"`
}

// Fault is what went wrong, and how often.
type Fault struct {
	Name     string `json:"name"`
	Requests int    `json:"requests"`
	Example  string `json:"example,omitempty"` // the id of one
}

// Forecast is one thing that was predicted of requests, against what it was.
type Forecast struct {
	Name      string  `json:"name"`
	Unit      string  `json:"unit"`
	Requests  int     `json:"requests"`
	Predicted float64 `json:"predicted"`       // the mean
	Actual    float64 `json:"actual"`          // the mean
	OffShare  float64 `json:"off_share"`       // the mean of how far each was off, over the mean of what it was
	Within    float64 `json:"within_20_share"` // requests whose actual was within a fifth of what was predicted
}
