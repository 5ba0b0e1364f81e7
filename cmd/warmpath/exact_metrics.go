package main

import (
	"github.com/warmpath/warmpath/internal/kvfeed"
	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/truth"
)

// exactView is what a scrape shows of each worker in exact mode.
type exactView struct {
	feeds map[string]kvfeed.Status
	held  map[int]int // blocks, by slot
	truth map[string]truth.Stats
}

// collect fills in what is of no worker, and returns what is. It takes locks of its own, so none of the gate's may be held.
func (m *exactMode) collect(s *metrics.State) exactView {
	v := exactView{feeds: map[string]kvfeed.Status{}, held: map[int]int{}, truth: map[string]truth.Stats{}}
	for _, f := range m.feeds.Statuses() {
		v.feeds[f.ID] = f
	}
	x := m.index.Stats()
	s.EventIndex = metrics.EventIndex{Blocks: int64(x.Nodes), Memberships: int64(x.Pairs), Bytes: x.Bytes, BytesMax: x.BytesMax, Evictions: x.Evicted}
	for _, slot := range x.PerSlot {
		v.held[slot.Slot] = slot.Blocks
	}
	for _, t := range m.render.States() {
		s.TokenModes = append(s.TokenModes, metrics.TokenMode{Model: t.Model, Mode: string(t.Mode),
			Exact: t.Exact, Told: t.Told, Unknown: t.Requests - min(t.Requests, t.Exact+t.Told), Checked: t.Checks, Mismatches: t.Mismatches,
			Asked: t.Asked, Cached: t.Cached, Late: t.Late, Failed: t.Failed, Full: t.Full})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.book.All() {
		v.truth[t.Worker] = t
	}
	return v
}

// truthState is how predictions for a worker compare with its reports, in /state.
type truthState struct {
	Trust           float64   `json:"trust"` // of what its events foretell, 0..1
	StepDowns       uint64    `json:"step_downs"`
	Compared        uint64    `json:"compared_requests"`
	Right           uint64    `json:"right_requests"`
	PromptsDiffer   uint64    `json:"prompts_differ"`
	MeanErrorTokens float64   `json:"mean_error_tokens"`
	MeanErrorShare  float64   `json:"mean_error_share"`
	BiasTokens      float64   `json:"bias_tokens"`
	Lost            lostState `json:"lost_tokens"`
}

// lostState is tokens by cause, see truth.Loss.
type lostState struct {
	NotThere  uint64 `json:"not_there"`
	Untold    uint64 `json:"untold"`
	MisKeyed  uint64 `json:"mis_keyed"`
	MisRouted uint64 `json:"mis_routed"`
}

func truthOf(t truth.Stats) *truthState {
	return &truthState{Trust: t.Trust, StepDowns: t.StepDowns, Compared: t.Requests, Right: t.Right, PromptsDiffer: t.PromptsDiffer,
		MeanErrorTokens: t.MeanErrorTokens, MeanErrorShare: t.MeanErrorShare, BiasTokens: t.BiasTokens, Lost: lostState(t.Loss)}
}

// of fills in what is of one worker.
func (v exactView) of(w *metrics.WorkerState, slot int) {
	if f, ok := v.feeds[w.ID]; ok {
		w.Events = &metrics.EventsState{State: string(f.State), Held: int64(v.held[slot]),
			Applied: f.Messages, Replayed: f.Replayed, Repeated: f.Repeats, Undecodable: f.Undecodable, Stored: f.Stored, Removed: f.Removed,
			Gaps: f.Gaps, Restarts: f.Restarts, Forgotten: f.Forgotten, Silences: f.Silences, Contradicts: f.Malformed,
			HasLag: f.Stamped, LagSeconds: f.Lag.Seconds()}
	}
	if t, ok := v.truth[w.ID]; ok {
		w.Truth = &metrics.TruthState{Requests: t.Requests, Right: t.Right, PredictedTokens: t.PredictedTokens, ReportedTokens: t.ReportedTokens,
			ErrorTokens: t.ErrorTokens, PromptsDiffer: t.PromptsDiffer, BiasTokens: t.BiasTokens, Trust: t.Trust, Trusted: t.Trusted,
			NotThere: t.Loss.NotThere, Untold: t.Loss.Untold, MisKeyed: t.Loss.MisKeyed, MisRouted: t.Loss.MisRouted}
	}
}
