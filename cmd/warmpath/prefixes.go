package main

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/facts"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/hot"
	"github.com/warmpath/warmpath/internal/metrics"
)

// prefixes are the beginnings that most prompts share, for those who look.
type prefixes struct {
	mu    sync.Mutex // guards table; held for one request
	table *hot.Table
}

func newPrefixes(c config.Dash) *prefixes {
	o := hot.Options{}
	if c.ShowText {
		o.TextBytes = config.ShownTextBytes
	}
	return &prefixes{table: hot.New(o)}
}

// settled takes in a request whose prompt a worker computed.
func (p *prefixes) settled(f *facts.Facts) {
	if f.Decision.Worker == nil || len(f.Chain.Keys) == 0 || !prefilled(f) {
		return
	}
	q := hot.Request{At: f.Ended.UnixNano(), Model: f.Model, Chain: f.Chain, PromptTokens: f.PromptTokens, TextBytes: f.TextBytes, CachedTokens: f.Decision.MatchedTokens, Known: knownBlocks(f), Text: facts.Cut(f.Excerpt, config.ShownTextBytes)}
	if u := &f.Usage; u.HasCached {
		q.CachedTokens = u.CachedTokens
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.table.Note(&q)
}

// knownBlocks is how many leading blocks of a prompt some worker held before: those that the chosen one did where none held clearly more,
// else what the most that any held comes to.
func knownBlocks(f *facts.Facts) int {
	d := &f.Decision
	if best := d.BestMatchedTokens; d.MatchedBlocks > 0 && 10*d.MatchedTokens >= 9*best {
		return int(d.MatchedBlocks)
	}
	whole, n := int64(max(f.TextBytes, f.Chain.Bytes(), 1)), 0
	for n < len(f.Chain.Ends) && int64(f.PromptTokens)*int64(f.Chain.Ends[n]) <= int64(d.BestMatchedTokens)*whole {
		n++
	}
	return n
}

// prefixesFound is GET /prefixes.
type prefixesFound struct {
	Prefixes   []prefixRow `json:"prefixes"`
	Tracked    int         `json:"tracked"` // that are counted, and how many may be
	TrackedMax int         `json:"tracked_max"`
	ShowText   bool        `json:"show_text"`
}

// prefixRow is one of them.
type prefixRow struct {
	Key               string    `json:"key"`
	Model             string    `json:"model"`
	Tokens            int       `json:"tokens"`
	Blocks            int       `json:"blocks"`
	Bytes             int       `json:"bytes"` // of text
	RequestsPerMinute float64   `json:"requests_per_minute"`
	Uncertain         float64   `json:"requests_per_minute_error"` // that the former may be too high by
	Requests          float64   `json:"requests"`                  // since first
	CachedTokens      float64   `json:"cached_tokens"`
	SecondsSaved      float64   `json:"seconds_saved"`
	Copies            int       `json:"copies"`
	CopyTokens        int       `json:"copy_tokens"` // of KV cache that all copies take
	Holders           []string  `json:"holders"`
	PrefillSeconds    float64   `json:"prefill_seconds"`
	EvictionSeconds   float64   `json:"eviction_seconds_per_minute"`
	First             time.Time `json:"first"`
	Last              time.Time `json:"last"`
	Text              string    `json:"text,omitempty"`
}

const (
	prefixesShown    = 50   // as it comes
	prefixesShownMax = 1000 // at one time
)

// getPrefixes is the hottest prefixes.
func (r *router) getPrefixes(w http.ResponseWriter, q *http.Request) {
	a := askedBy(q, "limit", "sort")
	limit, by := a.count("limit", prefixesShown, prefixesShownMax), a.word("sort", hot.Orders)
	if a.refused(w) {
		return
	}
	answer(w, http.StatusOK, r.prefixesNow(limit, hot.Order(by)))
}

func (r *router) prefixesNow(limit int, by hot.Order) prefixesFound {
	p := r.prefixes
	p.mu.Lock()
	top := p.table.Top(time.Now().UnixNano(), limit, by)
	found := prefixesFound{Prefixes: make([]prefixRow, 0, len(top)), ShowText: r.settings().Dash.ShowText}
	found.Tracked, found.TrackedMax = p.table.Len()
	p.mu.Unlock()
	var slots []int
	r.gate.View(func(v gate.View) {
		for i := range top {
			slots = v.Index.Holders(top[i].Key, slots[:0])
			found.Prefixes = append(found.Prefixes, prefixOf(&top[i], slots, v))
		}
	})
	return found
}

// prefixOf is a prefix with what it is worth: at the prefill speed of its model's workers, on the mean.
func prefixOf(p *hot.Prefix, slots []int, v gate.View) prefixRow {
	row := prefixRow{Key: fmt.Sprintf("%016x", uint64(p.Key)), Model: p.Model, Tokens: p.Tokens, Blocks: p.Blocks, Bytes: p.Bytes, RequestsPerMinute: p.PerMinute, Uncertain: p.Error,
		Requests: p.Requests, CachedTokens: p.CachedTokens, Copies: len(slots), CopyTokens: len(slots) * p.Tokens, Holders: []string{},
		First: time.Unix(0, p.First).UTC(), Last: time.Unix(0, p.Last).UTC(), Text: p.Text}
	served := 0.0
	for _, w := range v.Workers {
		if slices.Contains(slots, w.Slot) {
			row.Holders = append(row.Holders, w.ID)
		}
		if serves(w, p.Model) {
			k := v.Costs.Of(w).Constants()
			row.PrefillSeconds += k.B*float64(p.Tokens) + k.C*float64(p.Tokens)*float64(p.Tokens)
			served++
		}
	}
	if served > 0 {
		row.PrefillSeconds /= served
	}
	row.EvictionSeconds = row.PrefillSeconds * p.PerMinute
	if p.Tokens > 0 {
		row.SecondsSaved = row.PrefillSeconds * p.CachedTokens / float64(p.Tokens)
	}
	return row
}

func serves(w *fleet.Worker, model string) bool {
	_, ok := w.Model(model)
	return ok || !w.ModelsKnown()
}

// collectPrefixes fills in how full the table is for a scrape.
func (r *router) collectPrefixes(s *metrics.State) {
	r.prefixes.mu.Lock()
	defer r.prefixes.mu.Unlock()
	s.PrefixesTracked, _ = r.prefixes.table.Len()
}
