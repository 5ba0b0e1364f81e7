package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/ledger"
	"github.com/warmpath/warmpath/internal/memory"
	"github.com/warmpath/warmpath/internal/render"
	"github.com/warmpath/warmpath/internal/sched"
)

// adminBodyBytesMax bounds what the admin port reads.
const adminBodyBytesMax = 64 << 10

// adminHandler serves what operators need. It is on a port of its own: nothing of it is reachable for clients. A web page that an
// operator happens to look at cannot change anything: browsers say where a request comes from, and others' are refused.
func (r *router) adminHandler() (http.Handler, error) {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", r.metrics.Handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, r.state()) })
	mux.HandleFunc("GET /workers", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, r.state().Workers) })
	mux.HandleFunc("POST /workers", r.postWorker)
	mux.HandleFunc("GET /workers/{id}", r.getWorker)
	mux.HandleFunc("POST /workers/{id}/drain", r.postDrain)
	mux.HandleFunc("POST /workers/{id}/undrain", r.postUndrain)
	mux.HandleFunc("DELETE /workers/{id}", r.deleteWorker)
	mux.HandleFunc("GET /policy", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{"policy": r.gate.Policy(), "policies": sched.PolicyNames()})
	})
	mux.HandleFunc("POST /policy", r.postPolicy)
	mux.HandleFunc("POST /explain", r.postExplain)
	mux.HandleFunc("GET /config", r.getConfig)
	r.handleLook(mux)
	mux.HandleFunc("GET /prefixes", r.getPrefixes)
	mux.HandleFunc("POST /reload", r.postReload)
	mux.HandleFunc("POST /upgrade", r.postUpgrade)
	if r.settings().Pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index) // heap, goroutine and the like by name
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		if takes := adminMethods(mux, q); len(takes) > 0 {
			w.Header().Set("Allow", strings.Join(takes, ", "))
			refuse(w, http.StatusMethodNotAllowed, q.URL.Path+" does not take "+q.Method+", it takes "+strings.Join(takes, ", "))
			return
		}
		refuse(w, http.StatusNotFound, "no such admin path: "+q.URL.Path+"; there are GET /metrics, /state, /workers, /workers/{id}, /policy, /config, /healthz, /series, /decisions, /decisions/{id}, /prefixes, /requests, /requests/{id}, /events, POST /workers, POST /workers/{id}/drain and /undrain, DELETE /workers/{id}, DELETE /requests/{id}, POST /policy, POST /explain, POST /reload, POST /upgrade")
	})
	return mux, r.servePage(mux)
}

// adminMethods are the methods that the path of q is served with; none for a path that does not exist.
func adminMethods(mux *http.ServeMux, q *http.Request) (takes []string) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete} {
		if _, pattern := mux.Handler(&http.Request{Method: method, Host: q.Host, URL: q.URL}); pattern != "/" {
			takes = append(takes, method)
		}
	}
	return takes
}

func (r *router) postPolicy(w http.ResponseWriter, q *http.Request) {
	var in struct {
		Policy string `json:"policy"`
	}
	if err := readJSON(w, q, &in); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	if err := r.gate.SetPolicy(in.Policy); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	r.log.Info("policy switched", "policy", in.Policy)
	answer(w, http.StatusOK, map[string]string{"policy": in.Policy})
}

// readJSON reads a body into v, strictly: a misspelt key is an error that names it.
func readJSON(w http.ResponseWriter, q *http.Request, v any) error {
	d := json.NewDecoder(http.MaxBytesReader(w, q.Body, adminBodyBytesMax))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind) && kind.Field == "":
		return fmt.Errorf("the body is not what this path takes: it must be a JSON object, not %s", kind.Value)
	case errors.As(err, &kind):
		return fmt.Errorf("the body is not what this path takes: %q cannot be %s", kind.Field, kind.Value)
	case err == io.EOF:
		return errors.New("the body is not what this path takes: it is empty")
	case err != nil:
		return fmt.Errorf("the body is not what this path takes: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("the body is not what this path takes: something follows the JSON object")
	}
	return nil
}

// answer writes JSON. What cannot be written so, which is a number that JSON has no word for, is said to be a fault of ours.
func answer(w http.ResponseWriter, status int, v any) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		refuse(w, http.StatusInternalServerError, "the answer cannot be written: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(text.Bytes())
}

func refuse(w http.ResponseWriter, status int, message string) {
	answer(w, status, map[string]any{"error": map[string]any{"message": message, "status": status}})
}

// routerState is /state: everything an operator, a script or a page wants to know, as of one moment.
type routerState struct {
	Version     string          `json:"version"`
	Started     time.Time       `json:"started"`
	Policy      string          `json:"policy"`
	Config      configState     `json:"config"`
	Running     int             `json:"running_requests"`
	SeedPrint   string          `json:"seed_fingerprint"`
	Index       indexState      `json:"index"`
	EventIndex  eventState      `json:"event_index"`
	Models      []render.State  `json:"models"`
	DecisionLog *logState       `json:"decision_log,omitempty"`
	Queue       *queueState     `json:"queue,omitempty"`
	Tenants     []tenantState   `json:"tenants,omitempty"`
	TenantsMore int             `json:"tenants_left_out,omitempty"`
	Pools       []poolState     `json:"pools,omitempty"`
	Virtual     []virtualState  `json:"virtual_models,omitempty"`
	Forecasts   []forecastState `json:"forecasts"`
	Regret      regretState     `json:"regret"`
	Ghosts      []ghostState    `json:"ghosts,omitempty"`
	GhostsAbout *ghostsAbout    `json:"ghosts_about,omitempty"`
	Sources     []sourceState   `json:"discovery"`
	Refused     []refusedState  `json:"refused_workers,omitempty"`
	Memory      memory.State    `json:"memory"`
	Bounds      []ledger.Line   `json:"bounds"`
	Workers     []workerState   `json:"workers"`
}

type indexState struct {
	Bytes     int64  `json:"bytes"`
	BytesMax  int64  `json:"bytes_max"`
	Blocks    int    `json:"blocks"`
	Evictions uint64 `json:"evictions"`           // all of them
	Bound     uint64 `json:"evictions_for_bound"` // those that bytes_max put out; the others are mostly beyond what a worker's cache is assumed to hold
}

type logState struct {
	Written uint64 `json:"written"`
	Dropped uint64 `json:"dropped"`
	Rotated uint64 `json:"rotated"`
}

type workerState struct {
	ID              string      `json:"id"`
	URL             string      `json:"url"`
	State           string      `json:"state"`
	Draining        string      `json:"draining,omitempty"`   // why: by hand, leaving or left
	Out             *outState   `json:"out,omitempty"`        // why it gets no requests, or hardly any, and until when
	SlowStart       *float64    `json:"slow_start,omitempty"` // the share of its part that it may have as yet; absent when all
	LastFault       *faultState `json:"last_fault,omitempty"`
	Source          string      `json:"source"` // who names it
	Labels          []string    `json:"labels,omitempty"`
	Incarnation     uint64      `json:"incarnation"`
	Engine          string      `json:"engine"`
	Version         string      `json:"version"`
	Models          []string    `json:"models"`
	Pools           []string    `json:"pools,omitempty"`
	ContextMax      int         `json:"context_max"`
	SlotsMax        int         `json:"slots_max"`
	KVTokensMax     int         `json:"kv_tokens_max"`
	InFlight        int         `json:"inflight_requests"`
	InFlightTokens  int         `json:"inflight_tokens"`
	InFlightMax     int         `json:"inflight_max"`
	QueuedSeconds   float64     `json:"queued_seconds"`
	Telemetry       string      `json:"telemetry"` // fresh, stale or missing
	TelemetryAge    float64     `json:"telemetry_age_seconds,omitempty"`
	EngineRunning   *int        `json:"engine_running,omitempty"`
	EngineWaiting   *int        `json:"engine_waiting,omitempty"`
	KVUsage         *float64    `json:"kv_usage,omitempty"`
	SignalsMissing  []string    `json:"signals_missing,omitempty"` // what the engine does not tell though it is asked
	GPUUsage        *float64    `json:"gpu_usage,omitempty"`
	GPUMemory       *float64    `json:"gpu_memory,omitempty"`
	ForeignRunning  int         `json:"foreign_running"`
	ForeignWaiting  int         `json:"foreign_waiting"`
	AssumedBytes    int64       `json:"assumed_cache_bytes"`
	AssumedBytesMax int64       `json:"assumed_cache_bytes_max"`
	Speed           float64     `json:"speed"` // times as fast as its class's prior
	PrefillsLearned int         `json:"prefills_learned"`
	StepsLearned    int         `json:"steps_learned"`

	Cache modeState `json:"cache"` // how what it has cached is known
}

func (r *router) state() routerState {
	s := routerState{Version: version, Started: r.started, Policy: r.gate.Policy(), Config: *r.reloads.state.Load(), Running: r.proxy.Running(), SeedPrint: r.seed.Fingerprint(), Workers: []workerState{}}
	s.EventIndex, s.Models = r.exact.events(), r.exact.render.States()
	modes := r.exact.modes(s.Models)
	s.Queue, s.Pools, s.Virtual, s.Forecasts = r.queueNow(), r.poolsNow(), r.virtualsNow(), r.forecastsNow()
	s.Regret = r.regretsNow()
	s.Tenants, s.TenantsMore = r.tenantsNow()
	s.Ghosts, s.GhostsAbout = r.ghostsNow()
	standings := r.members.standings()
	s.Sources, s.Refused = r.sourcesNow(), r.refusedNow()
	s.Memory, s.Bounds = r.memory.State(), r.boundsNow()
	r.gate.View(func(v gate.View) {
		x := v.Index.Stats()
		s.Index = indexState{x.Bytes, x.BytesMax, x.Blocks, x.Evictions.All(), x.Evictions.Bound}
		for _, w := range v.Workers {
			state := describe(w, v)
			at := standings[w.ID]
			state.Source, state.Draining, state.Labels = at.source, at.draining, at.labels
			if w.Slot < len(x.PerSlot) {
				state.AssumedBytes, state.AssumedBytesMax = x.PerSlot[w.Slot].CachedBytes, x.PerSlot[w.Slot].CapacityBytes
			}
			state.Cache, state.Pools = cacheMode(modes, w), v.PoolsOf(w)
			s.Workers = append(s.Workers, state)
		}
	})
	if w := r.decisions.Load(); w != nil {
		d := w.Stats()
		s.DecisionLog = &logState{d.Written, d.Dropped, d.Rotated}
	}
	return s
}

func describe(w *fleet.Worker, v gate.View) workerState {
	info, load, model := w.Info(), w.Load(v.Now), v.Costs.Of(w)
	s := workerState{ID: w.ID, URL: w.URL, State: w.State(), Incarnation: w.Incarnation, Engine: info.Engine, Version: info.Version,
		SlotsMax: info.SlotsMax, KVTokensMax: info.KVTokensMax, InFlight: load.InFlight, InFlightTokens: load.ContextTokens, InFlightMax: w.InFlightMax(),
		QueuedSeconds: load.QueuedSeconds, ForeignRunning: load.ForeignRunning, ForeignWaiting: load.ForeignWaiting, Models: []string{}, Speed: model.Speed(), Telemetry: "missing"}
	s.PrefillsLearned, s.StepsLearned = model.Samples()
	s.Out, s.SlowStart, s.LastFault = healthOf(w, v.Now)
	for _, m := range info.Models {
		s.Models, s.ContextMax = append(s.Models, m.ID), max(s.ContextMax, m.ContextMax)
	}
	c, fresh := w.Counts(v.Now)
	if c.At.IsZero() {
		return s
	}
	s.Telemetry, s.TelemetryAge = "stale", v.Now.Sub(c.At).Seconds()
	if !fresh {
		return s
	}
	s.Telemetry, s.SignalsMissing = "fresh", signalsMissing(c)
	if c.Has&fleet.HasGPU != 0 {
		s.GPUUsage = &c.GPUUsage
	}
	if c.Has&fleet.HasGPUMemory != 0 {
		s.GPUMemory = &c.GPUMemory
	}
	if c.Has&fleet.HasRunning != 0 {
		s.EngineRunning = &c.Running
	}
	if c.Has&fleet.HasWaiting != 0 {
		s.EngineWaiting = &c.Waiting
	}
	if c.Has&fleet.HasKVUsage != 0 {
		s.KVUsage = &c.KVUsage
	}
	return s
}
