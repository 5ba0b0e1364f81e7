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
	began  time.Time
	mu     sync.Mutex // guards the fields below; held for one request
	table  *hot.Table
	tokens []hot.TokenKeys // scratch
}

func newPrefixes(c config.Dash) *prefixes {
	o := hot.Options{}
	if c.ShowText {
		o.TextBytes = config.ShownTextBytes
	}
	return &prefixes{began: time.Now(), table: hot.New(o)}
}

// settled takes in a request whose prompt a worker computed.
func (p *prefixes) settled(f *facts.Facts) {
	if f.Decision.Worker == nil || len(f.Chain.Keys) == 0 || !prefilled(f) {
		return
	}
	q := hot.Request{At: steadyNanos(p.began, f.Ended), Model: f.Model, Chain: f.Chain, PromptTokens: f.PromptTokens, TextBytes: f.TextBytes, CachedTokens: f.Decision.MatchedTokens, Known: knownBlocks(f), Text: facts.Cut(f.Excerpt, config.ShownTextBytes)}
	if u := &f.Usage; u.HasCached {
		q.CachedTokens = u.CachedTokens
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	q.Tokens = p.tokens[:0]
	for i := range f.Known {
		if f.TokensKnown {
			q.Tokens = append(q.Tokens, hot.TokenKeys{BlockTokens: f.Known[i].BlockTokens, Keys: f.Known[i].Keys})
		}
	}
	p.table.Note(&q)
	clear(q.Tokens) // the keys are the request's
	p.tokens = q.Tokens
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
	HoldersTold       int       `json:"holders_told"` // of these, who said so
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
	p, now := r.prefixes, time.Now()
	at := steadyNanos(p.began, now)
	p.mu.Lock()
	top := p.table.Top(at, limit, by)
	found := prefixesFound{Prefixes: make([]prefixRow, 0, len(top)), ShowText: r.settings().Dash.ShowText}
	found.Tracked, found.TrackedMax = p.table.Len()
	p.mu.Unlock()
	told := r.toldOf(top) // before the gate's lock is taken
	var slots []int
	r.gate.View(func(v gate.View) {
		for i := range top {
			slots = v.Index.Holders(top[i].Key, slots[:0])
			top[i].First, top[i].Last = now.UnixNano()-(at-top[i].First), now.UnixNano()-(at-top[i].Last) // by the clock as it is set now
			found.Prefixes = append(found.Prefixes, prefixOf(&top[i], prefixHolders{slots, top[i].Leads, told[i]}, v))
		}
	})
	return found
}

// toldOf is for each prefix, and each end of it by its tokens, which workers said that they hold it.
func (r *router) toldOf(top []hot.Prefix) [][][]int8 {
	told := make([][][]int8, len(top))
	for i := range top {
		for _, lead := range top[i].Leads {
			told[i] = append(told[i], r.exact.finder.Holders(top[i].Model, lead.Key, nil))
		}
	}
	return told
}

// prefixHolders is who has a prefix whole: by what workers were sent, and by what they said themselves.
type prefixHolders struct {
	assumed []int // slots
	leads   []hot.Lead
	told    [][]int8 // of each lead, by slot
}

// of says whether a worker has it, and whether it said so itself: what is known completely of its cache and comes true goes before what it is
// assumed to have, as for a choice.
func (h *prefixHolders) of(w *fleet.Worker) (has, told bool) {
	for i, lead := range h.leads {
		if lead.BlockTokens == w.BlockTokens() && !w.Doubted() && w.Slot < len(h.told[i]) && h.told[i][w.Slot] >= 0 {
			return h.told[i][w.Slot] > 0, true
		}
	}
	return slices.Contains(h.assumed, w.Slot), false
}

// prefixOf is a prefix with what it is worth: at the prefill speed of its model's workers, on the mean.
func prefixOf(p *hot.Prefix, h prefixHolders, v gate.View) prefixRow {
	row := prefixRow{Key: fmt.Sprintf("%016x", uint64(p.Key)), Model: p.Model, Tokens: p.Tokens, Blocks: p.Blocks, Bytes: p.Bytes, RequestsPerMinute: p.PerMinute, Uncertain: p.Error,
		Requests: p.Requests, CachedTokens: p.CachedTokens, Holders: []string{},
		First: time.Unix(0, p.First).UTC(), Last: time.Unix(0, p.Last).UTC(), Text: p.Text}
	served := 0.0
	for _, w := range v.Workers {
		if has, told := h.of(w); has {
			row.Holders = append(row.Holders, w.ID)
			if told {
				row.HoldersTold++
			}
		}
		if serves(w, p.Model) {
			k := v.Costs.Of(w).Constants()
			row.PrefillSeconds += k.B*float64(p.Tokens) + k.C*float64(p.Tokens)*float64(p.Tokens)
			served++
		}
	}
	row.Copies, row.CopyTokens = len(row.Holders), len(row.Holders)*p.Tokens
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
