package main

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/checkup"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/page"
	"github.com/warmpath/warmpath/internal/telemetry"
)

// servePage puts the page, and what only the page needs, on the admin port.
func (r *router) servePage(mux *http.ServeMux) error {
	p, err := page.New()
	if err != nil {
		return err
	}
	for _, path := range p.Paths() {
		mux.Handle("GET "+path, p)
	}
	mux.HandleFunc("POST "+tryPath, r.postTry)
	mux.HandleFunc("GET /checks", r.getChecks)
	return nil
}

// tryPath is where the data port's paths stand on the admin port, so that the page can send requests without its origin being opened to them
// on the data port.
const tryPath = "/try/"

// postTry answers as the data port would: the request is a client's like any other, counted and logged, with the client's own key.
func (r *router) postTry(w http.ResponseWriter, q *http.Request) {
	in := q.Clone(q.Context())
	in.URL = &url.URL{Path: "/" + strings.TrimPrefix(q.URL.Path, tryPath), RawQuery: q.URL.RawQuery}
	in.RequestURI = in.URL.RequestURI()
	in.Header.Del("Origin") // it is this port's own, which the data port has no reason to know
	r.proxy.ServeHTTP(w, in)
}

// checksMax bounds how many workers one question looks at, and checksFor how long what was found is told again.
const (
	checksMax = 32
	checksFor = 15 * time.Second
	checksEnd = 10 * time.Second
)

// checks are the last look at the workers.
type checks struct {
	mu    sync.Mutex
	found checksFound
	at    time.Time
	asked string
}

// checksFound is GET /checks.
type checksFound struct {
	Workers []checkup.Report `json:"workers"`
	LeftOut int              `json:"left_out,omitempty"` // workers beyond the bound
}

// getChecks looks at workers as `warmpath doctor --no-requests` does: what each part gives, and what would gain more. What only a request
// shows is told by those of clients, as far as they have shown it.
func (r *router) getChecks(w http.ResponseWriter, q *http.Request) {
	asked := q.URL.Query()
	for name := range asked {
		if name != "worker" {
			refuse(w, http.StatusBadRequest, "unknown query parameter "+name+"; there is worker")
			return
		}
	}
	id := asked.Get("worker")
	if id != "" && r.unknownWorker([]string{id}) != "" {
		refuse(w, http.StatusNotFound, "no worker is called "+id+" (query parameter worker); GET /state names them")
		return
	}
	r.checks.mu.Lock()
	defer r.checks.mu.Unlock() // one look at a time
	if r.checks.asked != id || time.Since(r.checks.at) > checksFor {
		ctx, cancel := context.WithTimeout(q.Context(), checksEnd)
		defer cancel()
		r.checks.found, r.checks.asked = r.check(ctx, id), id
		if r.checks.at = time.Now(); ctx.Err() != nil {
			r.checks.at = time.Time{} // what was cut short is not told again
		}
	}
	answer(w, http.StatusOK, r.checks.found)
}

// check looks at one worker, or at the first of all.
func (r *router) check(ctx context.Context, id string) (found checksFound) {
	c := *r.settings()
	o := checkup.DefaultOptions()
	o.Dial = dialOptions(c, r.safety.certs.DialTLS)
	o.Telemetry = telemetry.Options{DialTLS: r.safety.certs.DialTLS, Interval: c.Telemetry.Interval, Timeout: c.Telemetry.Timeout}
	o.InjectUsage, o.Requests = c.InjectUsage, false
	var workers []checkup.Worker
	r.changes.Lock()
	r.gate.View(func(v gate.View) { // in the order of /state
		for _, w := range v.Workers {
			at, known := r.configured[w.ID]
			switch {
			case !known || id != "" && w.ID != id:
			case len(workers) == checksMax:
				found.LeftOut++
			default:
				workers = append(workers, checkup.Worker{ID: w.ID, URL: at.URL, Key: r.reached[w.ID].key, Model: at.Model, Ranks: at.Ranks, GPUMetrics: at.GPUMetrics, GPUs: at.GPUList()})
			}
		}
	})
	r.changes.Unlock()
	found.Workers = checkup.All(ctx, workers, o)
	tokens, feeds := r.exact.render.States(), r.exact.feeds.Statuses()
	for i := range found.Workers {
		one := &found.Workers[i]
		if one.Verdict != checkup.VerdictBroken && modelOf(one) != "" {
			one.Add(tokensCheck(tokens, one), eventsCheck(feeds, one, c.Exact.Events))
		}
		one.Use(r.archive.traffic.of(one.ID), c.InjectUsage)
	}
	return found
}
