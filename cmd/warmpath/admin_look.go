package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/recent"
	"github.com/warmpath/warmpath/internal/series"
)

// What the admin port has for those who look: numbers over time, and decisions.

// handleLook puts these paths on the admin port.
func (r *router) handleLook(mux *http.ServeMux) {
	mux.HandleFunc("GET /series", r.getSeries)
	mux.HandleFunc("GET /decisions", r.getDecisions)
	mux.HandleFunc("GET /decisions/{id}", r.getDecision)
	mux.HandleFunc("GET /requests", r.getRequests)
	mux.HandleFunc("GET /requests/{id}", r.getRequest)
	mux.HandleFunc("DELETE /requests/{id}", r.deleteRequest)
	mux.HandleFunc("GET /events", r.getEvents)
}

// getSeries is the headline numbers over time, by columns.
func (r *router) getSeries(w http.ResponseWriter, q *http.Request) {
	a := askedBy(q, "window", "step", "only")
	window, step, only := a.duration("window", 15*time.Minute), a.duration("step", 0), a.words("only")
	if a.refused(w) {
		return
	}
	table, err := r.archive.series.Table(window, step, only)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(table) // a line for each number would be most of it
}

// decisionsShown bounds the decisions of one answer.
const decisionsShown = 1000

// decisionsFound is GET /decisions.
type decisionsFound struct {
	Decisions []decisionRow `json:"decisions"` // the newest first
	More      bool          `json:"more"`      // there are further ones
	Kept      int           `json:"kept"`      // that could be asked for
	KeptMax   int           `json:"kept_max"`
	Bytes     int64         `json:"bytes"`
	BytesMax  int64         `json:"bytes_max"`
	Last      uint64        `json:"last"` // number of the newest of all
}

// decisionRow is one of them in short.
type decisionRow struct {
	Number            uint64    `json:"number"`
	ID                string    `json:"id"`
	Time              time.Time `json:"time"`
	API               string    `json:"api,omitempty"`
	Model             string    `json:"model"`
	Asked             string    `json:"asked,omitempty"`
	Tenant            string    `json:"tenant,omitempty"`
	Class             string    `json:"class,omitempty"`
	Pool              string    `json:"pool,omitempty"`
	Worker            string    `json:"worker,omitempty"`
	Hit               string    `json:"hit,omitempty"`
	Outcome           string    `json:"outcome"`
	Status            int       `json:"status"`
	PromptTokens      int       `json:"prompt_tokens"` // as the engine counted, else as was estimated
	CachedTokens      *int      `json:"cached_tokens,omitempty"`
	CachedTokensEst   int       `json:"cached_tokens_est"`
	BestMatchedTokens int       `json:"best_matched_tokens"`
	CompletionTokens  int       `json:"completion_tokens"`
	QueueSeconds      float64   `json:"queue_seconds"`
	TTFTSeconds       float64   `json:"ttft_seconds,omitempty"` // of streams
	E2ESeconds        float64   `json:"e2e_seconds"`
	Tries             int       `json:"tries,omitempty"` // that failed before
	Reason            string    `json:"reason,omitempty"`
	Error             string    `json:"error,omitempty"`
}

func rowOf(e *recent.Entry) decisionRow {
	d := decisionRow{Number: e.Number, ID: e.ID, Time: e.Time, API: e.API, Model: e.Model, Asked: e.Asked, Tenant: e.Tenant, Class: e.Class, Pool: e.Pool, Worker: e.Worker, Hit: e.Hit, Outcome: e.Outcome, Status: e.Status,
		PromptTokens: e.PromptTokens, CachedTokensEst: e.CachedTokensEst, BestMatchedTokens: e.BestMatchedTokens, CompletionTokens: e.CompletionTokens,
		QueueSeconds: e.QueueSeconds, E2ESeconds: e.E2ESeconds, Tries: len(e.Tries), Reason: e.Reason, Error: e.Error}
	if e.Stream { // else the first byte is the last
		d.TTFTSeconds = e.TTFTSeconds
	}
	if !e.Metered {
		d.PromptTokens, d.CompletionTokens = e.PromptTokensEst, e.StreamedTokenCount
	}
	if e.CachedReported {
		d.CachedTokens = &e.CachedTokens
	}
	return d
}

// getDecisions lists decisions that are kept.
func (r *router) getDecisions(w http.ResponseWriter, q *http.Request) {
	a := askedBy(q, "worker", "tenant", "model", "outcome", "hit", "id", "since", "limit")
	f := recent.Filter{Worker: a.values.Get("worker"), Tenant: a.values.Get("tenant"), Model: a.values.Get("model"), ID: a.values.Get("id"),
		Outcome: a.word("outcome", series.Outcomes[:]), Hit: a.word("hit", series.Hits[:]), Limit: a.count("limit", 100, decisionsShown)}
	a.since(&f, time.Now())
	if a.refused(w) {
		return
	}
	if !r.archive.recent.Keeps() {
		refuse(w, http.StatusNotFound, "no decisions are kept (setting dash.decisions_max)")
		return
	}
	found, more := r.archive.recent.List(f)
	s := r.archive.recent.Stats()
	out := decisionsFound{Decisions: []decisionRow{}, More: more, Kept: s.Decisions, KeptMax: s.DecisionsMax, Bytes: s.Bytes, BytesMax: s.BytesMax, Last: s.Last}
	for i := range found {
		out.Decisions = append(out.Decisions, rowOf(&found[i]))
	}
	answer(w, http.StatusOK, out)
}

// since is a number of a decision, after which others are wanted, or how long ago a request came at most, or when.
func (a *query) since(f *recent.Filter, now time.Time) {
	text := a.values.Get("since")
	if text == "" {
		return
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		f.After = n
	} else if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		f.Since = now.Add(-d)
	} else if f.Since, err = time.Parse(time.RFC3339, text); err != nil {
		a.wrong("since=%s: write the number of a decision, a length of time such as 15m, or a time such as 2026-01-31T12:00:00Z", text)
	}
}

// decisionFound is GET /decisions/{id}: all that is known of a request that is over.
type decisionFound struct {
	Number   uint64        `json:"number"`
	Record   declog.Record `json:"record"` // as in the decision log, but for blocks
	Timeline timeline      `json:"timeline"`
	Compared compared      `json:"compared"`
}

// timeline is where its time went. What is not known is absent; the parts that are there add up to total_seconds, in this order.
type timeline struct {
	Queue   float64  `json:"queue_seconds"`             // until it was placed: its body, its tokens, waiting
	Waited  float64  `json:"waited_seconds,omitempty"`  // of that, for room on a worker
	Prefill *float64 `json:"prefill_seconds,omitempty"` // until the first token, of streams
	Decode  *float64 `json:"decode_seconds,omitempty"`  // from the first token to the last byte
	Total   float64  `json:"total_seconds"`
}

// compared is what was predicted against what came.
type compared struct {
	CachedTokens     *prediction `json:"cached_tokens,omitempty"`
	PromptTokens     *prediction `json:"prompt_tokens,omitempty"`
	CompletionTokens *prediction `json:"completion_tokens,omitempty"`
	PrefillSeconds   *prediction `json:"prefill_seconds,omitempty"` // actual: until the first token, the wait in the engine included
	DecodeSeconds    *prediction `json:"decode_seconds,omitempty"`
	Money            *prediction `json:"money,omitempty"`
}

type prediction struct {
	Predicted float64 `json:"predicted"`
	Actual    float64 `json:"actual"`
}

func foundOf(e *recent.Entry) decisionFound {
	d := decisionFound{Number: e.Number, Record: e.Record, Timeline: timeline{Queue: e.QueueSeconds, Waited: e.WaitedSeconds, Total: e.E2ESeconds}}
	if e.Metered {
		d.Compared.PromptTokens = &prediction{float64(e.PromptTokensEst), float64(e.PromptTokens)}
		d.Compared.CompletionTokens = &prediction{e.OutputTokensEst, float64(e.CompletionTokens)}
	}
	if e.CachedReported {
		d.Compared.CachedTokens = &prediction{float64(e.CachedTokensEst), float64(e.CachedTokens)}
	}
	if e.Money > 0 || e.MoneyEst > 0 {
		d.Compared.Money = &prediction{e.MoneyEst, e.Money}
	}
	if e.Stream && e.TTFTSeconds > 0 { // else the first byte is the last
		prefill, decode := max(e.TTFTSeconds-e.QueueSeconds, 0), max(e.E2ESeconds-e.TTFTSeconds, 0)
		d.Timeline.Prefill, d.Timeline.Decode = &prefill, &decode
		d.Compared.PrefillSeconds, d.Compared.DecodeSeconds = &prediction{e.PrefillSecondsEst, prefill}, &prediction{e.DecodeSecondsEst, decode}
	}
	return d
}

// getDecision is one decision, by its request's id, the last one of that id, or by its number, or by the beginning of an id that no other one has; of a
// request that is not over how far it has come.
func (r *router) getDecision(w http.ResponseWriter, q *http.Request) {
	if askedBy(q).refused(w) {
		return
	}
	id := q.PathValue("id")
	e, found := r.archive.recent.Find(id)
	if !found && strings.Trim(id, "0123456789") == "" {
		e, found = r.archive.recent.Find("#" + id)
	}
	if found {
		answer(w, http.StatusOK, foundOf(&e))
		return
	}
	inside := r.insideBy(id)
	if len(inside) == 0 {
		switch begins := r.archive.recent.Beginning(id, idsNamedMax+1); len(begins) {
		case 0:
			inside = r.insideBeginning(id)
		case 1:
			if e, found = r.archive.recent.Find(begins[0]); found {
				answer(w, http.StatusOK, foundOf(&e))
				return
			}
		default:
			refuse(w, http.StatusNotFound, severalBegin(id, begins))
			return
		}
	}
	if len(inside) > 0 {
		answer(w, http.StatusOK, map[string]any{"in_flight": inside})
		return
	}
	s := r.archive.recent.Stats()
	refuse(w, http.StatusNotFound, fmt.Sprintf("no request %q among the last %s (setting dash.decisions_max, %d), nor inside; the id is that of the answer's X-Request-Id header",
		id, counted(s.Decisions, "decision"), s.DecisionsMax))
}
