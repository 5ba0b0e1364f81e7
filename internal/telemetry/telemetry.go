// Package telemetry asks engines what they are and how they are doing: once what kind, which models, how much cache; then, every
// second, how many requests run and wait and how full the KV cache is.
//
// One goroutine and one keep-alive connection a worker, so a worker whose metrics hang delays nobody else's. Everything read is
// bounded. What an engine does not tell stays unknown; nothing is ever guessed to be zero:
//
//	m := telemetry.New(telemetry.Options{
//		InFlight: func(id string) int { ... },                         // our own count, for telling others' load from ours
//		OnInfo:   func(t telemetry.Target, i fleet.Info) { ... },
//		OnCounts: func(t telemetry.Target, c fleet.Counts) { ... },
//	})
//	m.Watch(telemetry.Target{ID: "a", URL: "http://10.0.0.1:8000"})
//	err := m.Run(ctx)                                                      // until ctx is done
//
// vLLM, SGLang, TensorRT-LLM, llama.cpp and warmpath's simulated engine are scraped; Ollama and LM Studio tell what they loaded, and
// like anything else that lists its models the OpenAI way they are served on the router's own counts.
package telemetry

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

// Target is one worker to watch.
type Target struct {
	ID, URL     string   // URL as the worker is configured; a trailing /v1 is ignored
	Key         string   // bearer credential of the worker, sent on every request; "" none
	Rank        string   // the one data-parallel rank behind the address that this worker is, "0", "1", ...; "" all together
	GPUURL      string   // page of a DCGM or ROCm exporter that tells of its GPUs; "" none
	GPUs        []string // which of the GPUs there are this worker's, as the exporter numbers them; nil all
	Incarnation uint64   // handed back in every hook, so that late news of an earlier instance can be told apart
}

// Options of a Manager. Zero durations and bounds take the value of DefaultOptions; nil hooks are skipped.
//
// Hooks run on the goroutine of the worker that they tell of, one at a time for each worker, with nothing locked: they may lock, and may
// call Watch and Unwatch. A hook under way when Unwatch is called still ends.
type Options struct {
	Interval     time.Duration // from one scrape's start to the next one's
	Timeout      time.Duration // of one request to an engine
	BodyBytesMax int64         // a longer metrics page fails its scrape
	StaleAfter   time.Duration // failures that go on for less are not told to the log
	Refresh      time.Duration // how often models are listed again, and how soon a worker that refuses to be scraped is asked again

	DialTLS   func(ctx context.Context, network, address string) (net.Conn, error) // for https; nil trusts the system's roots
	InFlight  func(id string) int                                                  // our requests in flight there; asked just before each scrape
	OnInfo    func(t Target, i fleet.Info)                                         // first knowledge, and every change
	OnCounts  func(t Target, c fleet.Counts)                                       // every good scrape
	OnRestart func(t Target)                                                       // the engine is another process than before: its cache is empty. OnInfo follows
	OnDown    func(t Target, err error)                                            // nobody answers at the address
	OnFail    func(t Target, err error)                                            // any failed attempt, OnDown's included
	OnHealth  func(t Target, unwell error)                                         // what a known engine says of itself; nil: it is well
	Log       *slog.Logger                                                         // changes only: found, unreachable, failing, working again

	dial func(ctx context.Context, network, address string) (net.Conn, error) // tests run without sockets, in virtual time
}

// DefaultOptions: a scrape a second, given up after 1.5 s, at most 8 MiB each, stale after 5 s.
func DefaultOptions() Options {
	return Options{Interval: time.Second, Timeout: 1500 * time.Millisecond, StaleAfter: 5 * time.Second, BodyBytesMax: 8 << 20, Refresh: 10 * time.Second}
}

// withDefaults fills in what is zero, so that the rest of the room need not ask.
func (o Options) withDefaults() Options {
	d := DefaultOptions()
	if o.Interval <= 0 {
		o.Interval = d.Interval
	}
	if o.Timeout <= 0 {
		o.Timeout = o.Interval * 3 / 2
	}
	if o.BodyBytesMax <= 0 {
		o.BodyBytesMax = d.BodyBytesMax
	}
	if o.StaleAfter <= 0 {
		o.StaleAfter = 5 * o.Interval
	}
	if o.Refresh <= 0 {
		o.Refresh = 10 * o.Interval
	}
	if o.InFlight == nil {
		o.InFlight = func(string) int { return 0 }
	}
	if o.OnInfo == nil {
		o.OnInfo = func(Target, fleet.Info) {}
	}
	if o.OnCounts == nil {
		o.OnCounts = func(Target, fleet.Counts) {}
	}
	if o.OnRestart == nil {
		o.OnRestart = func(Target) {}
	}
	if o.OnDown == nil {
		o.OnDown = func(Target, error) {}
	}
	if o.OnFail == nil {
		o.OnFail = func(Target, error) {}
	}
	if o.OnHealth == nil {
		o.OnHealth = func(Target, error) {}
	}
	if o.dial == nil {
		o.dial = new(net.Dialer).DialContext // bounded by each request's own deadline
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Manager watches any number of workers.
type Manager struct {
	opts Options

	mu      sync.Mutex
	ctx     context.Context // of Run; nil before and after
	watches map[string]*watch
	running sync.WaitGroup
}

// New makes a Manager that watches nobody yet.
func New(o Options) *Manager {
	return &Manager{opts: o.withDefaults(), watches: make(map[string]*watch)}
}

// Watch starts to watch a worker, at once when Run is under way, else when it starts. A second call for an id only replaces the
// target handed to hooks; with another URL or key it starts afresh.
func (m *Manager) Watch(t Target) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.watches[t.ID]; w != nil {
		old := w.target.Load()
		if old.URL == t.URL && old.Key == t.Key && old.Rank == t.Rank && old.GPUURL == t.GPUURL && slices.Equal(old.GPUs, t.GPUs) {
			w.target.Store(&t)
			return
		}
		w.stop()
	}
	w := newWatch(t, &m.opts)
	m.watches[t.ID] = w
	if m.ctx != nil {
		m.start(w)
	}
}

// Unwatch stops watching a worker. It does not wait: a hook may call it.
func (m *Manager) Unwatch(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.watches[id]; w != nil {
		w.stop()
		delete(m.watches, id)
	}
}

// Run watches until ctx is done, then waits for every worker's goroutine. It returns nil; it may run once.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	m.ctx = ctx
	for _, w := range m.watches {
		m.start(w)
	}
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	m.ctx = nil // from here on no Watch adds to running
	m.mu.Unlock()
	m.running.Wait()
	return nil
}

// start is called with mu held.
func (m *Manager) start(w *watch) {
	ctx, cancel := context.WithCancel(m.ctx)
	w.cancel = cancel
	m.running.Go(func() { w.run(ctx) })
}
