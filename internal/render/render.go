// Package render finds the tokens that an engine makes of a request, before the request is sent:
//
//	m := render.New(render.Options{Seed: seed, Files: map[string]string{"qwen3": "/models/qwen3"}})
//	m.Follow(render.Target{ID: "a", URL: "http://10.0.0.1:8000", Engine: "vllm", Models: models})
//	ids, ok := m.Tokens(ctx, render.Ask{Model: "qwen3", API: llmapi.Chat, Req: &req, Body: body}, nil)
//
// Each model is in one of three modes. Exact: its own template and tokenizer are at hand, and every engine that serves it and can be asked
// made the same tokens of the built-in conversations. EngineSide: engines are asked for each request, within a deadline. Approximate:
// neither is possible. Whatever is not known for sure is not ok, and never a guess; why, and what would change it, is in States.
package render

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/chat"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/modelfile"
	"github.com/warmpath/warmpath/internal/prefix"
)

// Mode is how a model's tokens are found.
type Mode string

// The modes, best first.
const (
	Exact       Mode = "exact"       // in process, and proven
	EngineSide  Mode = "engine-side" // an engine is asked
	Approximate Mode = "approximate" // not at all
)

// Options of a Manager. Zero fields but Seed and Files are taken from DefaultOptions.
type Options struct {
	Seed        prefix.Seed
	Files       map[string]string // where a model's files are, by its name
	Deadline    time.Duration     // the longest that a request waits for an engine to tell its tokens
	LateMax     time.Duration     // the longest that an engine takes for an answer that later requests may use
	InFlightMax int               // requests that engines are asked about at one time
	CacheBytes  int               // of tokens that are remembered: once for each model's own, once for what engines told
	SampleEvery time.Duration     // how often one request of a model in exact mode is compared with what an engine makes of it
	BackoffMin  time.Duration     // the first wait before asking a worker again that did not answer; it doubles
	BackoffMax  time.Duration     // the longest; and how often a worker that made other tokens is asked again
	Client      *http.Client      // for questions to engines; it should not follow redirects, which would take keys elsewhere
	Log         *slog.Logger
	Now         func() time.Time
	Load        func(path, model string) (*modelfile.Model, error)
	OnMode      func(model string, m Mode, why string) // every change of a mode, in order; it must not call Close
}

// DefaultOptions are the defaults as visible values.
func DefaultOptions() Options {
	return Options{
		Deadline: 50 * time.Millisecond, LateMax: 2 * time.Second, InFlightMax: 32, CacheBytes: 64 << 20, SampleEvery: time.Minute,
		BackoffMin: time.Second, BackoffMax: 5 * time.Minute, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Load: modelfile.Load, OnMode: func(string, Mode, string) {},
		Client: &http.Client{
			Transport:     &http.Transport{MaxIdleConnsPerHost: 8, IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 64 << 10, DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func (o Options) withDefaults() Options {
	d := DefaultOptions()
	have, want := reflect.ValueOf(&o).Elem(), reflect.ValueOf(d)
	for i := range have.NumField() {
		if f := have.Field(i); f.IsZero() {
			f.Set(want.Field(i))
		}
	}
	return o
}

// Target is one worker.
type Target struct {
	ID, URL, Key string
	Engine       string // as telemetry recognises it
	Models       []fleet.Model
	ModelPath    string // of the model's files, as the engine tells it; "" unknown
	Incarnation  uint64 // another one is another process, of which nothing is known
}

// Ask is one request. Body is its text in the clear, of which nothing is kept.
type Ask struct {
	Model string // as workers call it
	API   llmapi.API
	Req   *llmapi.Request
	Body  []byte
}

// Manager knows the workers and what each model's tokens are found by. Its methods may be called from any goroutine.
type Manager struct {
	o       Options
	ctx     context.Context // of all that it started
	stop    context.CancelFunc
	running sync.WaitGroup
	views   atomic.Pointer[map[string]*view] // swapped whole by keep, by every name that requests may use
	side    *side
	talks   chan struct{} // one for each worker that is questioned at present
	changed chan struct{} // wakes keep

	mu      sync.Mutex // guards the fields below and what workers have heard
	closed  bool
	workers map[string]*worker
	models  map[string]*model
	files   map[fileKey]*files
}

// talksMax bounds the workers that are questioned at one time, so that a fleet that starts at once is not a burst.
const talksMax = 8

// promptBytesMax bounds the requests whose tokens are looked for: two million tokens.
const promptBytesMax = 8 << 20

// New makes a Manager that follows nobody yet. Close must be called.
func New(o Options) *Manager {
	m := &Manager{o: o.withDefaults(), talks: make(chan struct{}, talksMax), changed: make(chan struct{}, 1),
		workers: map[string]*worker{}, models: map[string]*model{}, files: map[fileKey]*files{}}
	m.ctx, m.stop = context.WithCancel(context.Background())
	m.side = newSide(m)
	m.views.Store(&map[string]*view{})
	m.running.Go(m.keep)
	return m
}

// Follow takes a worker that came or returned, or tells more about itself. The same target again changes nothing.
func (m *Manager) Follow(t Target) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	old := m.workers[t.ID]
	if old != nil {
		if old.target == t.engine() && slices.Equal(old.names, baseNames(t.Models)) {
			if !reflect.DeepEqual(old.models, t.Models) { // an adapter came or went: the engine is as it was
				old.models = t.Models
				m.wake()
			}
			return
		}
		old.cancel()
	}
	ctx, cancel := context.WithCancel(m.ctx)
	w := newWorker(m, t, cancel)
	m.workers[t.ID] = w
	m.running.Go(func() { w.run(ctx) })
	m.wake()
}

// Leave forgets a worker.
func (m *Manager) Leave(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.workers[id]; w != nil {
		w.cancel()
		delete(m.workers, id)
		m.wake()
	}
}

// Close ends all that is under way and waits for it.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.stop()
	m.running.Wait()
	m.o.Client.CloseIdleConnections()
}

// spawn runs f on a goroutine that Close waits for, unless it is too late.
func (m *Manager) spawn(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.running.Go(f)
	return true
}

// wake has keep look at what changed.
func (m *Manager) wake() {
	select {
	case m.changed <- struct{}{}:
	default: // it will look at this too
	}
}

// keep makes the views anew whenever something changed, and tells of each model whose mode did. It is the only one that does, so that
// news come in order and with nothing locked.
func (m *Manager) keep() {
	told := map[string]Mode{}
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-m.changed:
		}
		views, states := m.look()
		m.views.Store(&views)
		for _, s := range states {
			was, known := told[s.Model]
			if known && was == s.Mode || !known && s.Mode == Approximate && slices.ContainsFunc(s.Workers, func(w WorkerState) bool { return w.Pending }) {
				continue // nothing new, or nobody has answered yet
			}
			told[s.Model] = s.Mode
			level := slog.LevelInfo
			if _, named := m.o.Files[s.Model]; s.Mode != Exact && (named || was == Exact) { // files that are of no use, or no more
				level = slog.LevelWarn
			}
			m.o.Log.Log(m.ctx, level, "how the model's tokens are found", "model", s.Model, "mode", string(s.Mode), "why", s.Why)
			m.o.OnMode(s.Model, s.Mode, s.Why)
		}
		maps.DeleteFunc(told, func(name string, _ Mode) bool { return views[name] == nil })
	}
}

// Tokens appends the tokens that an engine makes of a request to into. In exact mode that takes as long as tokenising what is new of it;
// engine-side at most Options.Deadline. Where ok is false they are not known, and into is returned as it came.
func (m *Manager) Tokens(ctx context.Context, ask Ask, into []uint32) (ids []uint32, ok bool) {
	v := (*m.views.Load())[ask.Model]
	if v == nil || len(ask.Body) > promptBytesMax || !v.takes(ask.API) || !ask.Req.TokenIDs && v.own == nil && len(v.engines) == 0 {
		return into, false
	}
	a, err := chat.Read(ask.API, ask.Req, ask.Body)
	if err != nil {
		return into, false
	}
	if a.IDs != nil {
		return append(into, a.IDs...), true
	}
	v.counts.requests.Add(1)
	if v.own != nil && v.proof.covers(a) {
		now := m.o.Now()
		when, known := v.calendar.at(now)
		if !known {
			m.again(v, now)
			return into, false
		}
		question := m.sample(v, a, ask.Model, now) // before the template is at it, which may change what it is given
		if ids, err = v.own.tokens(into, a, when); err != nil {
			return into, false
		}
		v.counts.exact.Add(1)
		if question != nil {
			m.check(v, a, ask.Model, question, ids[len(into):])
		}
		return ids, true
	}
	if ids, ok = m.side.tokens(ctx, v, a, ask.Model, into); ok {
		v.counts.told.Add(1)
	}
	return ids, ok
}
