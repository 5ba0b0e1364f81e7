package main

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/inflight"
)

// The requests that are inside, and how one is cancelled.

// requestsInside is GET /requests.
type requestsInside struct {
	Requests []requestRow   `json:"requests"` // those inside longest first
	Found    int            `json:"found"`    // that are wanted, beyond the limit too
	Inside   int            `json:"inside"`   // of all
	States   map[string]int `json:"states"`   // of all, by state
}

// requestRow is one of them.
type requestRow struct {
	ID             string    `json:"id"`
	State          string    `json:"state"`
	Started        time.Time `json:"started"`
	AgeSeconds     float64   `json:"age_seconds"`
	Path           string    `json:"path"`
	API            string    `json:"api,omitempty"`
	Model          string    `json:"model,omitempty"`
	Tenant         string    `json:"tenant,omitempty"`
	Class          string    `json:"class,omitempty"`
	Stream         bool      `json:"stream"`
	PromptTokens   int       `json:"prompt_tokens,omitempty"`
	Position       int       `json:"position,omitempty"`              // in the queue, 1 is next
	WaitSeconds    *float64  `json:"wait_seconds_expected,omitempty"` // from now on
	Worker         string    `json:"worker,omitempty"`
	Pool           string    `json:"pool,omitempty"`
	Tries          int       `json:"tries,omitempty"`
	PlacedSeconds  float64   `json:"placed_seconds,omitempty"` // since it went there
	CachedTokens   int       `json:"cached_tokens_est,omitempty"`
	Tokens         int       `json:"tokens"` // of a stream, so far
	OutputTokens   float64   `json:"output_tokens_est,omitempty"`
	PrefillSeconds float64   `json:"prefill_seconds_est,omitempty"`
	DecodeSeconds  float64   `json:"decode_seconds_est,omitempty"`
}

func requestRowOf(q *inflight.Request, now time.Time) requestRow {
	row := requestRow{ID: q.ID, State: q.State.String(), Started: q.Started, AgeSeconds: now.Sub(q.Started).Seconds(), Path: q.Path, API: q.API, Model: q.Model, Tenant: q.Tenant, Class: q.Class,
		Stream: q.Stream, PromptTokens: q.PromptTokens, Worker: q.Worker, Pool: q.Pool, Tries: q.Tries, CachedTokens: q.CachedTokens, Tokens: q.Tokens,
		OutputTokens: q.OutputTokens, PrefillSeconds: q.PrefillSeconds, DecodeSeconds: q.DecodeSeconds}
	if !q.Placed.IsZero() {
		row.PlacedSeconds = now.Sub(q.Placed).Seconds()
	}
	if s := q.Standing; s != nil {
		row.Position = s.Before + 1
		if wait := s.Wait.Seconds(); s.Known {
			row.WaitSeconds = &wait
		}
	}
	return row
}

// requestsShown bounds the requests of one answer.
const requestsShown = 1000

func (r *router) getRequests(w http.ResponseWriter, q *http.Request) {
	a := askedBy(q, "worker", "tenant", "model", "pool", "class", "state", "id", "limit")
	f := inflight.Filter{Worker: a.values.Get("worker"), Tenant: a.values.Get("tenant"), Model: a.values.Get("model"), Pool: a.values.Get("pool"), Class: a.values.Get("class"), ID: a.values.Get("id"),
		State: a.word("state", inflight.States), Limit: a.count("limit", 100, requestsShown)}
	if a.refused(w) {
		return
	}
	l, now := r.archive.inside.List(f), time.Now()
	out := requestsInside{Requests: []requestRow{}, Found: l.Found, Inside: l.Inside, States: statesOf(l.States)}
	for i := range l.Requests {
		out.Requests = append(out.Requests, requestRowOf(&l.Requests[i], now))
	}
	answer(w, http.StatusOK, out)
}

func statesOf(counts [len(inflight.Listing{}.States)]int) map[string]int {
	states := map[string]int{}
	for i, name := range inflight.States {
		states[name] = counts[i]
	}
	return states
}

// insideBy are the requests inside with an id.
func (r *router) insideBy(id string) (rows []requestRow) {
	l, now := r.archive.inside.List(inflight.Filter{ID: id, Limit: requestsShown}), time.Now()
	for i := range l.Requests {
		rows = append(rows, requestRowOf(&l.Requests[i], now))
	}
	return rows
}

// insideBeginning are the requests inside with the one id that begins so; none where several do.
func (r *router) insideBeginning(begin string) []requestRow {
	id := ""
	for _, in := range r.archive.inside.List(inflight.Filter{Limit: requestsShown}).Requests {
		if !strings.HasPrefix(in.ID, begin) || in.ID == id {
			continue
		}
		if id != "" {
			return nil
		}
		id = in.ID
	}
	if id == "" {
		return nil
	}
	return r.insideBy(id)
}

// getRequest is the requests inside with an id: clients may make several alike.
func (r *router) getRequest(w http.ResponseWriter, q *http.Request) {
	if askedBy(q).refused(w) {
		return
	}
	rows := r.insideBy(q.PathValue("id"))
	if len(rows) == 0 {
		refuse(w, http.StatusNotFound, notInside(q.PathValue("id")))
		return
	}
	answer(w, http.StatusOK, map[string]any{"requests": rows})
}

func notInside(id string) string {
	return fmt.Sprintf("no request %q is inside; GET /requests names those that are, and GET /decisions/%s tells of one that is over", id, id)
}

// deleteRequest cancels the requests inside with an id. Their clients are told, and their engines see the connection closed.
func (r *router) deleteRequest(w http.ResponseWriter, q *http.Request) {
	if askedBy(q).refused(w) {
		return
	}
	id, by := q.PathValue("id"), guard.Who(q)
	if by == "" {
		by = q.RemoteAddr
	}
	n := r.archive.inside.Cancel(id, by)
	if n == 0 {
		refuse(w, http.StatusNotFound, notInside(id))
		return
	}
	r.log.Info("requests cancelled by an operator", "request", id, "requests", n, "by", by)
	answer(w, http.StatusOK, map[string]any{"id": id, "cancelled": n})
}
