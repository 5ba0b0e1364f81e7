// Package kvfeed brings engines' cache events to their trackers: it finds out where each worker publishes, subscribes over ZeroMQ (vLLM,
// SGLang) or polls (TensorRT-LLM), asks for replays, and reconnects.
//
//	m := kvfeed.New(index, kvfeed.Options{Seed: seed})
//	m.Follow(kvfeed.Target{ID: "a", URL: "http://10.0.0.1:8000", Slot: 3, Rank: -1, Model: "llama-8b"})
//	...
//	m.Leave("a")
//	m.Close()
//
// Each worker, one data-parallel rank, has one goroutine that reads and one that asks for replays. What they learn goes straight into the
// index; there is no queue in which something of a worker that is gone could wait.
package kvfeed

import (
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/kvevent"
	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/zmtp"
)

// Options of a Manager. Zero fields but Seed are taken from DefaultOptions.
type Options struct {
	Seed prefix.Seed
	// Template is where a worker publishes that tells nothing and for which nothing is configured, as tcp://{host}:5557; a rank's number is
	// added to the port. "" leaves such workers alone.
	Template string

	Socket       zmtp.Options
	BackoffMin   time.Duration // the first wait before connecting again; it doubles
	BackoffMax   time.Duration // the longest
	ReplayWait   time.Duration // how long a replay may bring nothing before it is taken to have ended
	ReplayPause  time.Duration // at least between two replays of a worker
	PollInterval time.Duration // between two questions to an engine that has to be asked
	SilentAfter  time.Duration // without events, though requests were computed
	Client       *http.Client  // for questions to engines
	Log          *slog.Logger
	// Hints say what has an engine of a kind publish its events, for the log.
	Hints map[string]string
	// OnState is called when a worker's knowledge changes; it must not call the Manager. It may be nil.
	OnState func(id string, state kvevent.State)
}

// DefaultOptions are the defaults as visible values.
func DefaultOptions() Options {
	return Options{
		Socket: zmtp.DefaultOptions(), BackoffMin: 200 * time.Millisecond, BackoffMax: 10 * time.Second, ReplayWait: 2 * time.Second,
		ReplayPause: time.Second, PollInterval: 100 * time.Millisecond, SilentAfter: 30 * time.Second,
		Client: http.DefaultClient, Log: slog.New(slog.DiscardHandler), OnState: func(string, kvevent.State) {},
	}
}

func (o Options) withDefaults() Options {
	d := DefaultOptions()
	for _, f := range []struct{ have, want *time.Duration }{
		{&o.BackoffMin, &d.BackoffMin}, {&o.BackoffMax, &d.BackoffMax}, {&o.ReplayWait, &d.ReplayWait}, {&o.ReplayPause, &d.ReplayPause},
		{&o.PollInterval, &d.PollInterval}, {&o.SilentAfter, &d.SilentAfter},
	} {
		if *f.have <= 0 {
			*f.have = *f.want
		}
	}
	if o.Client == nil {
		o.Client = d.Client
	}
	if o.Log == nil {
		o.Log = d.Log
	}
	if o.OnState == nil {
		o.OnState = d.OnState
	}
	return o
}

// Target is one worker, one data-parallel rank of it.
type Target struct {
	ID          string
	URL         string // of its HTTP interface
	Key         string // bearer token for it, "" none
	Slot        int
	Incarnation uint64 // another one is another engine
	Rank        int    // -1: the worker is no rank of several
	Ranks       int    // that the worker has behind it all together, where that is known
	Model       string // base model, as requests' keys have it
	Engine      string // as telemetry recognises it: "tensorrt-llm" is polled
	Told        string // the engine's own settings of its publisher, where it tells them (fleet.Info.Events); "" it is asked
	BlocksMax   int    // blocks of its cache, 0 unknown
	// Events and Replay are configured endpoints, which win over what the engine tells. Events with "bind+" in front is where the engine
	// connects to.
	Events, Replay string
}

// Status is what is known of a worker's events.
type Status struct {
	ID     string
	Source Source
	Error  string // why nothing comes at present; "" when it does
	// Subscribed says that a publisher was connected to, and still is for all that is known: an idle one says nothing.
	Subscribed bool
	// Stamped says that events carry the engine's time, and came in the last minute: by how much the latest of these was late, and the least
	// delay that this is told from, the difference of the clocks included; see kvevent.Lag.
	Stamped          bool
	Lag, ClockOffset time.Duration
	kvevent.TrackerStats
}

// Manager follows workers. Its methods may be called from any goroutine.
type Manager struct {
	o       Options
	index   *kvindex.Index
	running sync.WaitGroup

	mu       sync.Mutex // guards the fields below; a feed's mu may be taken while it is held
	feeds    map[string]*feed
	sweeping bool
	closed   bool
}

// New makes a Manager that keeps index up to date.
func New(index *kvindex.Index, o Options) *Manager {
	return &Manager{o: o.withDefaults(), index: index, feeds: map[string]*feed{}}
}

// Follow begins to follow a worker. The same target again changes nothing; another one with its id takes its place, with nothing known.
func (m *Manager) Follow(t Target) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	if old := m.feeds[t.ID]; old != nil {
		if old.target == t {
			return
		}
		old.stop()
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := newFeed(t, m.index, &m.o, cancel)
	m.feeds[t.ID] = f
	m.running.Go(func() { f.run(ctx) })
}

// Leave ends following a worker; what it holds is forgotten before Leave returns.
func (m *Manager) Leave(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.feeds[id]; f != nil {
		f.stop()
		delete(m.feeds, id)
		m.sweep()
	}
}

// sweepNodes is how many blocks are looked at under one lock of the index: some 50 microseconds.
const sweepNodes = 1024

// sweep takes out of memory what workers that are gone held. Events of others do it in passing, but there may be none. It is called with
// mu held.
func (m *Manager) sweep() {
	if m.sweeping || m.closed {
		return
	}
	m.sweeping = true
	m.running.Go(func() {
		for m.index.Sweep(sweepNodes) && m.mayGoOn() {
			runtime.Gosched()
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.sweeping = false; m.index.Sweep(0) {
			m.sweep() // another left meanwhile
		}
	})
}

func (m *Manager) mayGoOn() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.closed
}

// Expect says that a worker computed blocks that were not cached, so that events must come. When they have not for too long, its knowledge
// is in doubt until the next one.
func (m *Manager) Expect(id string, now time.Time) {
	m.mu.Lock()
	f := m.feeds[id]
	m.mu.Unlock()
	if f != nil {
		f.expect(now)
	}
}

// Statuses returns what is known of each worker's events, in no order.
func (m *Manager) Statuses() []Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Status, 0, len(m.feeds))
	for _, f := range m.feeds {
		all = append(all, f.status())
	}
	return all
}

// Close ends all and waits for it.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	for id, f := range m.feeds {
		f.stop()
		delete(m.feeds, id)
	}
	m.mu.Unlock()
	m.running.Wait()
}
