package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/facts"
	"github.com/warmpath/warmpath/internal/line"
	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/tenant"
)

// queueState is what waits for room on a worker, as of one moment.
type queueState struct {
	Waiting int               `json:"waiting"`
	Bytes   int64             `json:"bytes"`
	Work    float64           `json:"work_seconds"`
	Fill    float64           `json:"fill"`
	Tenants int               `json:"tenants_waiting"`
	Classes []queueClassState `json:"classes"`
	Lines   []queueLineState  `json:"lines"`
}

// queueClassState is one class; counts are since the start.
type queueClassState struct {
	Class        string  `json:"class"`
	Waiting      int     `json:"waiting"`
	Heavy        int     `json:"heavy"`
	Work         float64 `json:"work_seconds"`
	Oldest       float64 `json:"oldest_seconds"`
	Passed       uint64  `json:"passed"`
	Placed       uint64  `json:"placed"`
	Left         uint64  `json:"left"`
	TimedOut     uint64  `json:"timed_out"`
	RefusedFull  uint64  `json:"refused_queue_full"`
	RefusedShare uint64  `json:"refused_tenant_share"`
	RefusedShed  uint64  `json:"refused_shed"`
	RefusedLate  uint64  `json:"refused_deadline"`
	Preempted    uint64  `json:"preempted"`
	Wasted       float64 `json:"wasted_seconds"`
}

// queueLineState is those that wait for the same workers.
type queueLineState struct {
	Model   string  `json:"model"`
	Only    string  `json:"only,omitempty"` // the one worker or pool that they wait for
	Waiting int     `json:"waiting"`
	Work    float64 `json:"work_seconds"`
	Speed   float64 `json:"speed"`
}

// tenantState is one tenant with a key that has asked since the start.
type tenantState struct {
	Tenant             string            `json:"tenant"`
	InFlight           int               `json:"in_flight"`
	RequestsLastMinute int               `json:"requests_last_minute"`
	TokensLastMinute   int               `json:"tokens_last_minute"`
	SpentToday         float64           `json:"spent_today"`
	SpendPerDay        float64           `json:"spend_per_day,omitempty"`
	Requests           uint64            `json:"requests"`
	NeverRan           uint64            `json:"never_ran"`
	ReservedTokens     uint64            `json:"reserved_tokens"`
	ReturnedTokens     uint64            `json:"returned_tokens"`
	BeyondTokens       uint64            `json:"beyond_tokens"`
	Refused            map[string]uint64 `json:"refused"`
}

// queueNow is the queue for /state; nil where nothing waits here.
func (r *router) queueNow() *queueState {
	q, some := r.gate.QueueStats()
	if !some {
		return nil
	}
	s := &queueState{Waiting: q.Waiting, Bytes: q.Bytes, Work: q.Seconds, Fill: q.Fill, Tenants: q.Tenants, Classes: []queueClassState{}, Lines: []queueLineState{}}
	for _, c := range q.Classes {
		s.Classes = append(s.Classes, queueClassState{Class: c.Class, Waiting: c.Waiting, Heavy: c.Heavy, Work: c.Seconds, Oldest: c.Oldest.Seconds(),
			Passed: c.Passed, Placed: c.Popped, Left: c.Left, TimedOut: c.TimedOut, RefusedFull: c.Full, RefusedShare: c.Crowded, RefusedShed: c.Shed, RefusedLate: c.Late,
			Preempted: c.Preempted, Wasted: c.WastedSeconds})
	}
	for _, l := range q.Lines {
		model, only, pool := line.Split(l.Line)
		s.Lines = append(s.Lines, queueLineState{Model: model, Only: cmp.Or(only, pool), Waiting: l.Waiting, Work: l.Seconds, Speed: l.Speed})
	}
	return s
}

// tenantsShown bounds the tenants that /state lists.
const tenantsShown = 1000

// tenantsNow are the tenants for /state, by name, and how many more there are; none where nobody is asked for a key.
func (r *router) tenantsNow() (all []tenantState, more int) {
	stats := r.desk.Stats(time.Now())
	if more = max(0, len(stats)-tenantsShown); more > 0 {
		slices.SortFunc(stats, func(a, b tenant.Stats) int { return cmp.Compare(b.TokensLastMinute, a.TokensLastMinute) })
		stats = stats[:tenantsShown]
	}
	slices.SortFunc(stats, func(a, b tenant.Stats) int { return cmp.Compare(a.Name, b.Name) })
	for _, t := range stats {
		all = append(all, tenantState{Tenant: t.Name, InFlight: t.InFlight, RequestsLastMinute: t.RequestsLastMinute, TokensLastMinute: t.TokensLastMinute,
			SpentToday: t.SpentToday.Units(), SpendPerDay: t.Limits.SpendPerDay.Units(), Requests: t.Begun, NeverRan: t.NeverRan,
			ReservedTokens: t.Reserved, ReturnedTokens: t.Returned, BeyondTokens: t.Beyond, Refused: t.Refused})
	}
	return all, more
}

// collectQueue fills in the queue and the tenants for a scrape of the metrics.
func (r *router) collectQueue(s *metrics.State) {
	if q, some := r.gate.QueueStats(); some {
		s.Queue = &metrics.QueueState{Bytes: q.Bytes, Fill: q.Fill}
		for _, c := range q.Classes {
			s.Queue.Classes = append(s.Queue.Classes, metrics.ClassState{Class: c.Class, Waiting: c.Waiting, Heavy: c.Heavy, OldestSeconds: c.Oldest.Seconds(), WorkSeconds: c.Seconds,
				Passed: c.Passed, Placed: c.Popped, Left: c.Left, TimedOut: c.TimedOut, Full: c.Full, Crowded: c.Crowded, Shed: c.Shed, Late: c.Late, Preempted: c.Preempted, WastedSeconds: c.WastedSeconds})
		}
	}
	for _, t := range r.desk.Stats(time.Now()) {
		s.Tenants = append(s.Tenants, metrics.TenantState{Tenant: t.Name, InFlight: t.InFlight, TokensLastMinute: t.TokensLastMinute, SpentToday: t.SpentToday.Units(),
			Ran: t.Begun - t.NeverRan - uint64(t.InFlight), Refused: t.Refused})
	}
}

// waited counts how long a request waited for room: also one that did in vain, but not one that might not.
func (r *router) waited(f *facts.Facts) {
	if f.Class == "" || f.Tries == 0 && f.Waited == 0 {
		return
	}
	result := "placed"
	switch {
	case f.Tries > 0:
	case f.Outcome == outcome.Cancelled:
		result = "left"
	default:
		result = "timed_out"
	}
	r.metrics.Waited(f.Class, result).Observe(f.Waited)
}
