package main

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/proxy"
)

// explanation is why a request went where it did, or what would become of it now: what POST /explain answers and explain --json prints.
type explanation struct {
	Time     time.Time       `json:"time"`
	ID       string          `json:"id,omitempty"` // of a request that was
	Path     string          `json:"path,omitempty"`
	API      string          `json:"api"`
	Model    string          `json:"model"`
	Asked    string          `json:"asked,omitempty"`  // the name that it stands in for
	Choice   string          `json:"choice,omitempty"` // why it
	Others   []string        `json:"candidates,omitempty"`
	Tenant   string          `json:"tenant,omitempty"`
	Class    string          `json:"class,omitempty"`
	ClassWhy string          `json:"class_why,omitempty"` // why not the one that was asked for
	Stream   bool            `json:"stream"`
	Prompt   explainedPrompt `json:"prompt"`
	Answer   explainedAnswer `json:"answer"`
	Verdict  string          `json:"verdict"`          // placed, waits or refused
	Status   int             `json:"status,omitempty"` // of the refusal
	Error    string          `json:"error,omitempty"`

	Policy  string `json:"policy"`
	Worker  string `json:"worker,omitempty"` // that it would go to; of one that waits, if it had to go at once
	Reason  string `json:"reason,omitempty"`
	Relaxed string `json:"relaxed,omitempty"`
	Only    string `json:"only,omitempty"` // the one worker that may serve it
	Pool    string `json:"pool,omitempty"` // of workers, and why that one
	PoolWhy string `json:"pool_why,omitempty"`
	Hit     string `json:"hit,omitempty"`

	MatchedTokens     int `json:"matched_tokens"`
	BestMatchedTokens int `json:"best_matched_tokens"`

	Cost  *explainedCost  `json:"cost,omitempty"`
	Pools []explainedPool `json:"pools,omitempty"`
	Queue *explainedQueue `json:"queue,omitempty"`
	Rows  []explainedRow  `json:"rows"`
	Came  *explainedEnd   `json:"came,omitempty"` // what came of a request that was
}

type explainedPrompt struct {
	Bytes     int    `json:"bytes"`      // of the body
	TextBytes int    `json:"text_bytes"` // of the conversation in it
	Tokens    int    `json:"tokens"`
	How       string `json:"how"`           // given, exact, engine or estimated
	Why       string `json:"why,omitempty"` // why no better
}

type explainedAnswer struct {
	MaxTokens      int     `json:"max_tokens,omitempty"` // the request's own limit
	ExpectedTokens float64 `json:"expected_tokens"`      // of all answers
	P50Tokens      float64 `json:"p50_tokens,omitempty"` // that half of such answers do not exceed
	P90Tokens      float64 `json:"p90_tokens,omitempty"`
	Answers        int     `json:"answers,omitempty"`
}

// explainedCost is what a request is expected to take, see docs/COST.md.
type explainedCost struct {
	PrefillSeconds float64  `json:"prefill_seconds"`
	DecodeSeconds  float64  `json:"decode_seconds"`
	EngineSeconds  float64  `json:"engine_seconds"`
	KVTokensPeak   int      `json:"kv_tokens_peak,omitempty"`
	Money          *float64 `json:"money,omitempty"` // nil: its model has no price
	Heavy          bool     `json:"heavy,omitempty"`
}

// explainedPool is what it is expected to take in a pool, as its workers are on the mean.
type explainedPool struct {
	Pool         string `json:"pool"`
	Workers      int    `json:"workers"`
	CachedTokens int    `json:"cached_tokens"` // on the worker that has most
	explainedCost
}

type explainedQueue struct {
	Refused       string   `json:"refused,omitempty"` // why it may not wait
	Before        int      `json:"before"`
	WaitSeconds   *float64 `json:"wait_seconds,omitempty"` // expected; of a request that was, how long it did
	MostSeconds   float64  `json:"most_seconds,omitempty"`
	ShedShare     float64  `json:"shed_share,omitempty"` // how likely it would be refused by chance
	ComeAgainSecs float64  `json:"retry_after_seconds,omitempty"`
}

// explainedRow is one worker; why is the filter that put it out. The seconds sum up to total_seconds.
type explainedRow struct {
	Worker           string   `json:"worker"`
	Chosen           bool     `json:"chosen,omitempty"`
	MatchedTokens    int      `json:"matched_tokens"`
	ByEvents         bool     `json:"by_events"`
	InFlight         int      `json:"in_flight"`
	WaitSeconds      float64  `json:"wait_seconds"` // queued, what that costs others too, and the toll
	PrefillSeconds   float64  `json:"prefill_seconds"`
	DelaySeconds     float64  `json:"delay_seconds"` // of others, by its prefill: price times lengthening
	DecodeSeconds    float64  `json:"decode_seconds"`
	BatchSeconds     float64  `json:"batch_seconds"`
	DisplacedSeconds float64  `json:"displaced_seconds"`
	TotalSeconds     float64  `json:"total_seconds"`
	Score            *float64 `json:"score,omitempty"` // by the policy; a log has none
	Why              string   `json:"why,omitempty"`
}

type explainedEnd struct {
	Outcome          string   `json:"outcome"`
	Status           int      `json:"status,omitempty"`
	Error            string   `json:"error,omitempty"`
	Tries            []string `json:"tries,omitempty"` // that failed before
	PromptTokens     int      `json:"prompt_tokens,omitempty"`
	CachedTokens     *int     `json:"cached_tokens,omitempty"` // nil: the engine did not tell
	CompletionTokens int      `json:"completion_tokens,omitempty"`
	WaitedSeconds    float64  `json:"waited_seconds,omitempty"`
	Preempted        int      `json:"preempted,omitempty"`
	WastedSeconds    float64  `json:"wasted_seconds,omitempty"`
	TTFTSeconds      float64  `json:"ttft_seconds,omitempty"`
	E2ESeconds       float64  `json:"e2e_seconds,omitempty"`
}

// The verdicts.
const (
	verdictPlaced  = "placed"
	verdictWaits   = "waits"
	verdictRefused = "refused"
)

// whyWithout is the filter of workers that the question leaves out.
const whyWithout = "left out (without)"

// leftOut says so of the workers that the question left out: they were told to the scheduler as if they had failed it.
func (e *explanation) leftOut(ids []string) {
	for i := range e.Rows {
		if r := &e.Rows[i]; r.Why != "" && slices.Contains(ids, r.Worker) {
			r.Why = whyWithout
		}
	}
	if len(ids) > 0 {
		e.Error = strings.Replace(e.Error, " tried", " "+whyWithout, 1) // nothing was tried: nothing is sent
	}
}

// explainOutlook shapes what would become of a request now.
func explainOutlook(o *proxy.Outlook) explanation {
	f, d := o.Facts, &o.Decision
	e := explanation{
		Asked: f.Asked, Choice: f.Choice.Reason, Others: f.Choice.Rows,
		Time: f.Started, Path: f.Path, API: f.API.String(), Model: f.Model, Tenant: f.Tenant, Class: f.Class, ClassWhy: f.ClassWhy, Stream: f.Stream,
		Prompt: explainedPrompt{Bytes: f.Bytes, TextBytes: f.TextBytes, Tokens: f.PromptTokens}, Verdict: verdictPlaced,
		Answer: explainedAnswer{MaxTokens: f.MaxTokens, ExpectedTokens: d.OutputTokens, Answers: o.Answers}, Policy: d.Policy, Only: o.Only,
		Pool: o.Pool.Name, PoolWhy: o.Pool.Why, Rows: []explainedRow{},
	}
	chosen := ""
	if d.Worker != nil {
		chosen = d.Worker.ID
		e.Worker, e.Reason, e.Relaxed, e.Hit = chosen, d.Reason, d.Relaxed, d.Hit.String()
		e.MatchedTokens, e.BestMatchedTokens = d.MatchedTokens, d.BestMatchedTokens
		e.foretell(&o.Outlook)
	}
	for i := range d.Rows {
		r := &d.Rows[i]
		row := explainedRow{Worker: r.ID, Chosen: r.ID == chosen, MatchedTokens: r.MatchedTokens, ByEvents: r.ByEvents, InFlight: r.InFlight,
			WaitSeconds: r.QueuedSeconds + r.WaitPriceSeconds + r.TollSeconds, PrefillSeconds: r.PrefillSeconds, DelaySeconds: r.Price * r.DelaySeconds,
			DecodeSeconds: r.DecodeSeconds, BatchSeconds: r.BatchSeconds, DisplacedSeconds: r.DisplacedSeconds, TotalSeconds: min(r.TotalSeconds, math.MaxFloat64), Why: r.Why}
		if chosen != "" && (r.Why == "" || r.TotalSeconds > 0) {
			score := min(r.Score, math.MaxFloat64) // JSON has no word for more
			row.Score = &score
		}
		e.Rows = append(e.Rows, row)
	}
	e.sortRows()
	if o.Waits {
		q := o.Queue
		e.Verdict, e.Queue = verdictWaits, &explainedQueue{Before: q.Before, MostSeconds: q.Most.Seconds(), ShedShare: q.Shed}
		if q.Known {
			wait := q.Wait.Seconds()
			e.Queue.WaitSeconds = &wait
		}
		if q.Refusal != nil {
			e.Queue.Refused, e.Queue.ComeAgainSecs = string(q.Refusal.Reason), q.Refusal.After.Seconds()
		}
	}
	if f.Status != 0 {
		e.Verdict, e.Status, e.Error = verdictRefused, f.Status, f.Error
	}
	return e
}

// sortRows puts the chosen worker first, then those that could have been by their score, then those that a filter put out.
func (e *explanation) sortRows() {
	rank := func(r *explainedRow) int {
		switch {
		case r.Chosen:
			return 0
		case r.Why == "":
			return 1
		case r.TotalSeconds > 0:
			return 2
		}
		return 3
	}
	score := func(r *explainedRow) float64 {
		if r.Score != nil {
			return *r.Score
		}
		return r.TotalSeconds
	}
	slices.SortStableFunc(e.Rows, func(a, b explainedRow) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(score(&a), score(&b)), cmp.Compare(a.Why, b.Why))
	})
}

// explainRecord shapes what a decision log tells of a request.
func explainRecord(d *declog.Record) explanation {
	e := explanation{
		Asked: d.Asked, Choice: d.ModelReason, Others: d.ModelRows,
		Time: d.Time, ID: d.ID, API: d.API, Model: d.Model, Tenant: d.Tenant, Class: d.Class, ClassWhy: d.ClassWhy, Stream: d.Stream, Pool: d.Pool, PoolWhy: d.PoolWhy,
		Prompt: explainedPrompt{TextBytes: d.PromptBytes, Tokens: d.PromptTokensEst, How: tokensEstimated}, Answer: explainedAnswer{MaxTokens: d.MaxTokens, ExpectedTokens: d.OutputTokensEst},
		Verdict: verdictPlaced, Policy: d.Policy, Worker: d.Worker, Reason: d.Reason, Relaxed: d.Relaxed, Hit: d.Hit,
		MatchedTokens: d.CachedTokensEst, BestMatchedTokens: d.BestMatchedTokens, Rows: []explainedRow{},
		Came: &explainedEnd{Outcome: d.Outcome, Status: d.Status, Error: d.Error, PromptTokens: d.PromptTokens, CompletionTokens: d.CompletionTokens,
			WaitedSeconds: d.WaitedSeconds, Preempted: d.Preempted, WastedSeconds: d.WastedSeconds, E2ESeconds: d.E2ESeconds},
	}
	if d.Stream { // else the first byte is the last
		e.Came.TTFTSeconds = d.TTFTSeconds
	}
	if d.TokensKnown {
		e.Prompt.How = tokensExact
	}
	if d.CachedReported {
		e.Came.CachedTokens = &d.CachedTokens
	}
	e.foretold(d)
	if d.Refused != "" || d.WaitedSeconds > 0 {
		e.Queue = &explainedQueue{Refused: d.Refused, WaitSeconds: &d.WaitedSeconds}
	}
	if d.Worker == "" {
		e.Verdict, e.Status, e.Error = verdictRefused, d.Status, d.Error
	}
	for _, t := range d.Tries {
		e.Came.Tries = append(e.Came.Tries, t.Worker+": "+t.Class)
	}
	for _, r := range d.Rows {
		e.Rows = append(e.Rows, explainedRow{Worker: r.Worker, Chosen: r.Worker == d.Worker, MatchedTokens: r.MatchedTokens, ByEvents: r.ByEvents, InFlight: r.InFlight,
			WaitSeconds: r.QueuedSeconds + r.WaitPriceSeconds + r.TollSeconds, PrefillSeconds: r.PrefillSeconds, DelaySeconds: r.Price * r.DelaySeconds,
			DecodeSeconds: r.DecodeSeconds, BatchSeconds: r.BatchSeconds, DisplacedSeconds: r.DisplacedSeconds, TotalSeconds: r.TotalSeconds, Why: r.Why})
	}
	return e
}
