package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/internal/feed"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/series"
)

// What a page or a terminal is told each second.

// Bounds of one listener.
const (
	heartbeatEvery = 15 * time.Second // of silence
	takeTime       = 10 * time.Second // for an event; who takes longer is given up
	eventGap       = 200 * time.Millisecond
)

// eventsForm is the form of what they are told.
const eventsForm = "text/event-stream; charset=utf-8"

// getEvents tells a snapshot a second as server-sent events, until the listener leaves.
func (r *router) getEvents(w http.ResponseWriter, q *http.Request) {
	if askedBy(q).refused(w) {
		return
	}
	if q.Method == http.MethodHead { // it would listen until its connection ends, and hear nothing
		w.Header().Set("Content-Type", eventsForm)
		return
	}
	l, err := r.archive.feed.Listen()
	var full *feed.FullError
	if errors.As(err, &full) {
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, full.Error()+" (setting dash.listeners_max)")
		return
	}
	defer l.Close()
	h := w.Header()
	h.Set("Content-Type", eventsForm)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	send := func(event []byte) bool {
		out.SetWriteDeadline(time.Now().Add(takeTime))
		_, err := w.Write(event)
		return err == nil && out.Flush() == nil
	}
	beat := time.NewTimer(heartbeatEvery)
	defer beat.Stop()
	for more := send([]byte("retry: 1000\n\n")); more; beat.Reset(heartbeatEvery) {
		select {
		case event, open := <-l.Events():
			more = open && send(event)
		case <-beat.C:
			more = send([]byte(": heartbeat\n\n"))
		case <-q.Context().Done():
			return
		}
	}
}

// eventHead is what an event tells whole each time.
type eventHead struct {
	Time    time.Time           `json:"time"`
	Version string              `json:"version"`
	Started time.Time           `json:"started"` // another one: the router has restarted
	Policy  string              `json:"policy"`
	Inside  int                 `json:"inside"`
	States  map[string]int      `json:"states"`
	Workers map[string]int      `json:"workers"` // how many are in each state
	Second  map[string]*float64 `json:"second"`  // the newest step of /series
	Lately  map[string]*float64 `json:"lately"`  // the last 30 seconds as one step
	Queue   *eventQueue         `json:"queue,omitempty"`
	Last    uint64              `json:"last_decision"`
}

// eventQueue is the queue in short.
type eventQueue struct {
	Waiting int               `json:"waiting"`
	Fill    float64           `json:"fill"`
	Classes []eventQueueClass `json:"classes"`
}

type eventQueueClass struct {
	Class   string  `json:"class"`
	Waiting int     `json:"waiting"`
	Oldest  float64 `json:"oldest_seconds"`
}

// eventRow is a worker in short: what changes.
type eventRow struct {
	ID               string   `json:"id"`
	State            string   `json:"state"`
	Why              string   `json:"why,omitempty"` // why it gets no requests
	Engine           string   `json:"engine"`
	Models           []string `json:"models"`
	Pools            []string `json:"pools,omitempty"`
	Mode             string   `json:"mode"` // how its cache is known,
	ModeWhy          string   `json:"mode_why,omitempty"`
	InFlight         int      `json:"inflight_requests"`
	InFlightTokens   int      `json:"inflight_tokens"`
	QueuedSeconds    float64  `json:"queued_seconds"`
	Telemetry        string   `json:"telemetry"`
	EngineRunning    *int     `json:"engine_running,omitempty"`
	EngineWaiting    *int     `json:"engine_waiting,omitempty"`
	KVUsage          *float64 `json:"kv_usage,omitempty"`
	HitRate          *float64 `json:"hit_rate,omitempty"` // these are of the last half minute or so
	RequestsASecond  float64  `json:"requests_per_second"`
	PromptASecond    float64  `json:"prompt_tokens_per_second"`
	CompletionSecond float64  `json:"completion_tokens_per_second"`
	FailedASecond    float64  `json:"failed_per_second"`
	Trust            *float64 `json:"trust,omitempty"`
}

// latelySeconds are those of eventHead.Lately.
const latelySeconds = 30

// snapshot is what those who listen are told. It is made only while somebody listens.
func (r *router) snapshot() feed.Snapshot {
	inside, states := r.archive.inside.Count()
	head := eventHead{Time: time.Now(), Version: version, Started: r.started, Policy: r.gate.Policy(), Inside: inside, States: statesOf(states), Workers: map[string]int{},
		Second: numbersOf(r.archive.series.Newest(1)), Lately: numbersOf(r.archive.series.Newest(latelySeconds)), Last: r.archive.recent.Stats().Last}
	if q, some := r.gate.QueueStats(); some {
		head.Queue = &eventQueue{Waiting: q.Waiting, Fill: rounded(q.Fill), Classes: []eventQueueClass{}}
		for _, c := range q.Classes {
			head.Queue.Classes = append(head.Queue.Classes, eventQueueClass{c.Class, c.Waiting, rounded(c.Oldest.Seconds())})
		}
	}
	var s feed.Snapshot
	for _, row := range r.eventRows() {
		head.Workers[row.State]++
		text, err := json.Marshal(row)
		if err == nil {
			s.Rows = append(s.Rows, feed.Row{ID: row.ID, JSON: text})
		}
	}
	var err error
	if s.Head, err = json.Marshal(head); err != nil {
		s.Head = fmt.Appendf(nil, `{"error":%q}`, err.Error())
	}
	return s
}

// eventRows are the workers in short, in the order in which they were added.
func (r *router) eventRows() (rows []eventRow) {
	modes := r.exact.modes(r.exact.render.States())
	standings := r.members.standings()
	r.gate.View(func(v gate.View) {
		rows = make([]eventRow, 0, len(v.Workers))
		for _, w := range v.Workers {
			row := eventRowOf(describe(w, v))
			if at := standings[w.ID]; at.draining != "" {
				row.Why = at.draining
			}
			row.use(cacheMode(modes, w))
			row.Pools = v.PoolsOf(w)
			rows = append(rows, row)
		}
	})
	for i := range rows {
		rows[i].lately(r.archive.rates.Of(rows[i].ID))
	}
	return rows
}

// withoutRequests says what a state means that has no longer reason of its own.
var withoutRequests = map[string]string{"down": "nobody answers at its address", "loading": "its engine loads the model"}

func eventRowOf(s workerState) eventRow {
	row := eventRow{ID: s.ID, State: s.State, Engine: s.Engine, Models: s.Models, InFlight: s.InFlight, InFlightTokens: s.InFlightTokens, QueuedSeconds: rounded(s.QueuedSeconds),
		Telemetry: s.Telemetry, EngineRunning: s.EngineRunning, EngineWaiting: s.EngineWaiting, KVUsage: orNull(s.KVUsage)}
	if row.Why = withoutRequests[s.State]; s.Out != nil {
		row.Why = s.Out.Why
	}
	return row
}

func (e *eventRow) use(m modeState) {
	e.Mode, e.ModeWhy = m.Mode, m.Why
	if m.Truth != nil {
		e.Trust = orNull(&m.Truth.Trust)
	}
}

func (e *eventRow) lately(r series.Rate) {
	e.RequestsASecond, e.FailedASecond, e.PromptASecond, e.CompletionSecond = rounded(r.Requests), rounded(r.Failed), rounded(r.PromptTokens), rounded(r.CompletionTokens)
	hits := r.HitRate()
	e.HitRate = orNull(&hits)
}

// numbersOf are values by name; what is not known is left out.
func numbersOf(values []series.Value) map[string]*float64 {
	all := make(map[string]*float64, len(values))
	for _, v := range values {
		if n := orNull(&v.Value); n != nil {
			all[v.Name] = n
		}
	}
	return all
}

// orNull is a value as it is shown, nil where there is none.
func orNull(v *float64) *float64 {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
		return nil
	}
	n := rounded(*v)
	return &n
}

// rounded keeps four digits: what does not show is no change.
func rounded(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	short, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64) // it was a number
	return short
}

// there says of workers whether they are in the fleet.
func (r *router) there() func(id string) bool {
	ids := map[string]bool{}
	r.gate.View(func(v gate.View) {
		for _, w := range v.Workers {
			ids[w.ID] = true
		}
	})
	return func(id string) bool { return ids[id] }
}

// failed counts an attempt that a worker failed.
func (a *archive) failed(w *fleet.Worker) { a.rates.Fail(w.ID) }
