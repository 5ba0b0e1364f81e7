package main

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/metrics"
)

// What operators, and engines that register themselves, do to workers at the admin port.

// postedWorker is the body of POST /workers.
type postedWorker struct {
	URL         string   `json:"url"`
	ID          string   `json:"id,omitempty"`
	Key         string   `json:"key,omitempty"`
	InFlightMax int      `json:"in_flight_max,omitempty"`
	Model       string   `json:"model,omitempty"`
	Ranks       int      `json:"ranks,omitempty"`
	GPUMetrics  string   `json:"gpu_metrics,omitempty"`
	GPUs        string   `json:"gpus,omitempty"`
	Pool        string   `json:"pool,omitempty"`
	Labels      []string `json:"labels,omitempty"`
	Events      string   `json:"events,omitempty"`
	Replay      string   `json:"replay,omitempty"`
	Instance    string   `json:"instance,omitempty"` // of one that registers itself
}

func (p *postedWorker) worker() config.Worker {
	w := config.WorkerAt(p.URL)
	w.Key, w.InFlightMax, w.Model = config.Secret(p.Key), p.InFlightMax, p.Model
	w.Ranks, w.GPUMetrics, w.GPUs, w.Events, w.Replay = p.Ranks, p.GPUMetrics, p.GPUs, p.Events, p.Replay
	w.Pool, w.Labels = p.Pool, p.Labels
	if p.ID != "" {
		w.ID = p.ID
	}
	return w
}

// heartbeat is the query by which an engine that registers itself says how often it will, such as 5s. It is no part of the body, so that
// who may do so can be told before the body is read.
const heartbeat = "heartbeat"

// postWorker adds a worker, takes one back that is drained by hand, or hears the heartbeat of one that registers itself.
func (r *router) postWorker(w http.ResponseWriter, q *http.Request) {
	var in postedWorker
	if err := readJSON(w, q, &in); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	checked := in.worker()
	trial := *r.settings()
	trial.Workers = []config.Worker{checked}
	if err := trial.Validate(); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	if asked := q.URL.Query(); asked.Has(heartbeat) {
		r.register(w, asked.Get(heartbeat), in.Instance, checked)
		return
	}
	if in.Instance != "" {
		refuse(w, http.StatusBadRequest, "instance is for engines that register themselves; say how often they do, as in POST /workers?heartbeat=5s")
		return
	}
	if err := r.members.add(checked); err != nil {
		refuse(w, http.StatusConflict, err.Error())
		return
	}
	answer(w, http.StatusCreated, map[string]string{"id": checked.ID})
}

// registered is the answer to a heartbeat.
type registered struct {
	ID    string    `json:"id"`
	Until time.Time `json:"until"` // it has left when no other comes before
}

func (r *router) register(w http.ResponseWriter, often, instance string, checked config.Worker) {
	if !r.settings().Discovery.Register {
		refuse(w, http.StatusForbidden, "engines may not register themselves here (setting discovery.register, flag --workers-register); without heartbeat a worker is added for good")
		return
	}
	every, err := time.ParseDuration(often)
	if err != nil {
		refuse(w, http.StatusBadRequest, fmt.Sprintf("heartbeat=%s is no duration; write how often it comes, such as 5s", often))
		return
	}
	if why := r.members.takenByOthers(checked); why != "" {
		refuse(w, http.StatusConflict, why)
		return
	}
	until, fresh, err := r.members.registry.Beat(discovery.Worker{ID: checked.ID, URL: checked.URL, Instance: instance, Settings: checked}, every, time.Now())
	var taken *discovery.TakenError
	switch {
	case errors.As(err, &taken):
		refuse(w, http.StatusConflict, err.Error())
	case err != nil:
		refuse(w, http.StatusBadRequest, err.Error())
	case fresh:
		answer(w, http.StatusCreated, registered{checked.ID, until})
	default:
		answer(w, http.StatusOK, registered{checked.ID, until})
	}
}

// getWorker is one entry of /workers.
func (r *router) getWorker(w http.ResponseWriter, q *http.Request) {
	id := q.PathValue("id")
	for _, s := range r.state().Workers {
		if s.ID == id {
			answer(w, http.StatusOK, s)
			return
		}
	}
	refuse(w, http.StatusNotFound, fmt.Sprintf("no worker %q in the fleet", id))
}

// postDrain keeps new requests from a worker. Its requests without a byte of an answer are placed elsewhere, unless ?move=false leaves them.
func (r *router) postDrain(w http.ResponseWriter, q *http.Request) {
	id, move := q.PathValue("id"), q.URL.Query().Get("move")
	if move != "" && move != "true" && move != "false" {
		refuse(w, http.StatusBadRequest, fmt.Sprintf("move=%s: it is true or false", move))
		return
	}
	ids, err := r.members.drain(id, move != "false")
	if err != nil {
		refuse(w, http.StatusNotFound, err.Error())
		return
	}
	answer(w, http.StatusOK, map[string]any{"id": id, "state": "draining", "workers": ids})
}

func (r *router) postUndrain(w http.ResponseWriter, q *http.Request) {
	id := q.PathValue("id")
	if err := r.members.takeBack(id); err != nil {
		refuse(w, http.StatusNotFound, err.Error())
		return
	}
	draining := r.members.standingOf(id)
	state := "taken back"
	if draining != "" {
		state = "draining"
	}
	answer(w, http.StatusOK, map[string]string{"id": id, "state": state, "draining": draining})
}

// deleteWorker takes a worker out at once. With ?registered=true it is a goodbye: of one that registered itself, and of no other.
func (r *router) deleteWorker(w http.ResponseWriter, q *http.Request) {
	id := q.PathValue("id")
	if q.URL.Query().Get("registered") == "true" {
		if !r.members.registry.Leave(id) {
			refuse(w, http.StatusNotFound, fmt.Sprintf("no worker %q has registered itself", id))
			return
		}
		answer(w, http.StatusOK, map[string]string{"id": id, "state": "leaving"})
		return
	}
	if err := r.members.dismiss(id); err != nil {
		refuse(w, http.StatusNotFound, err.Error())
		return
	}
	answer(w, http.StatusOK, map[string]string{"id": id, "state": "removed"})
}

// sourceState is one source of workers in /state.
type sourceState struct {
	Source     string  `json:"source"`
	Workers    int     `json:"workers"`               // of the set that it told last
	AgeSeconds float64 `json:"age_seconds,omitempty"` // since it told it; absent: it never did
	Stale      bool    `json:"stale"`
	Error      string  `json:"error,omitempty"`
	Errors     uint64  `json:"errors"`
}

func (r *router) sourcesNow() []sourceState {
	now, all := time.Now(), []sourceState{}
	for _, s := range r.members.found.Statuses(now) {
		one := sourceState{Source: s.Name, Workers: s.Workers, Stale: s.Stale, Error: s.Error, Errors: s.Errors}
		if !s.Told.IsZero() {
			one.AgeSeconds = now.Sub(s.Told).Seconds()
		}
		all = append(all, one)
	}
	return all
}

// refusedState is a worker that a source names and that is not in the fleet.
type refusedState struct {
	Source string `json:"source"`
	ID     string `json:"id"`
	URL    string `json:"url"`
	Why    string `json:"why"`
}

func (r *router) refusedNow() (all []refusedState) {
	for _, f := range r.members.refused() {
		all = append(all, refusedState(f))
	}
	return all
}

// collectSources fills in what a scrape shows of it.
func (r *router) collectSources(s *metrics.State) {
	for _, one := range r.sourcesNow() {
		s.Sources = append(s.Sources, metrics.SourceState{Source: one.Source, Workers: one.Workers, HasAge: one.AgeSeconds > 0, AgeSeconds: one.AgeSeconds, Stale: one.Stale, Errors: one.Errors})
	}
	s.RefusedWorkers = len(r.members.refused())
}
