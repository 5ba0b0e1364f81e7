// Package discovery asks sources who is there: a file, DNS, an HTTP endpoint, Kubernetes, engines that register themselves. Each source
// tells whole sets, as often as it likes; what went wrong is told as an error, and the set that was told before stays true until there
// is a better one.
//
//	m := discovery.New(discovery.Options{OnSet: func(name string, set []discovery.Worker) { ... }})
//	m.Add("dns engines.internal", discovery.DNS{Name: "engines.internal", Port: 8000})
//	m.Run(ctx)
package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Worker is one worker as a source names it.
type Worker struct {
	URL      string   // http://host:port or https://
	ID       string   // "" host:port of the URL
	Instance string   // another one at the same address is another engine with nothing cached; "" not told
	Model    string   // that it serves, where the engine cannot tell; "" the engine is asked
	Labels   []string // key=value
	Leaving  bool     // it answers what it has, and is to get nothing new
	Settings any      // what else whoever reads the source made of it; nil: nothing
}

// Source is where workers are known. Follow tells what it knows until ctx ends, and returns then. tell takes either a whole set that is
// true now, though it may be the one told before, or an error that says why there is none. It must not be called after Follow returned.
// There are five: File, DNS, HTTP, Kubernetes and Registry.
type Source interface {
	Follow(ctx context.Context, tell func(set []Worker, err error))
}

// Options are what a Manager goes by.
type Options struct {
	OnSet      func(name string, set []Worker) // called with each set that is told, from the source's goroutine
	StaleAfter time.Duration                   // age from which on a set that was not told again is stale; default 2 min
	WorkersMax int                             // a source that names more is wrong; default 4096
	Log        *slog.Logger
}

// Defaults of Options.
const (
	StaleAfter = 2 * time.Minute
	WorkersMax = 4096
)

// Manager follows sources. It is safe for concurrent use.
type Manager struct {
	o       Options
	running sync.WaitGroup

	mu      sync.Mutex
	ctx     context.Context // of Run; nil before and after
	sources []*followed
}

// followed is a source and what is known of it.
type followed struct {
	name   string
	source Source
	stop   context.CancelFunc // nil: it is not followed yet

	mu     sync.Mutex
	status Status
}

// Status is how a source stands.
type Status struct {
	Name    string
	Workers int       // of the last set
	Told    time.Time // when it was told, or told again; zero: never
	Error   string    // what came after it, "" nothing
	Failed  time.Time // when it went wrong first, since the last set
	Errors  uint64    // since the start
	Stale   bool      // the last set is all there is, and may not be true any more
}

// New makes a manager without sources.
func New(o Options) *Manager {
	if o.StaleAfter <= 0 {
		o.StaleAfter = StaleAfter
	}
	if o.WorkersMax <= 0 {
		o.WorkersMax = WorkersMax
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Manager{o: o}
}

// Add has a source be followed, at once when Run is under way. No other source has its name.
func (m *Manager) Add(name string, s Source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := &followed{name: name, source: s, status: Status{Name: name}}
	m.sources = append(m.sources, f)
	if m.ctx != nil {
		m.follow(f)
	}
}

// Remove ends following a source. It does not wait: a set that is being told just now may still come.
func (m *Manager) Remove(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sources = slices.DeleteFunc(m.sources, func(f *followed) bool {
		if f.name == name && f.stop != nil {
			f.stop()
		}
		return f.name == name
	})
}

// Run follows all sources until ctx ends, and returns when they have ended.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	m.ctx = ctx
	for _, f := range m.sources {
		m.follow(f)
	}
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	m.ctx = nil // from here on no Add adds to running
	m.mu.Unlock()
	m.running.Wait()
	return nil
}

// follow is called with mu held.
func (m *Manager) follow(f *followed) {
	ctx, stop := context.WithCancel(m.ctx)
	f.stop = stop
	m.running.Go(func() {
		f.source.Follow(ctx, func(set []Worker, err error) {
			if ctx.Err() == nil {
				m.told(f, set, err)
			}
		})
	})
}

// told takes what a source says. An error never empties a set.
func (m *Manager) told(f *followed, set []Worker, err error) {
	if err == nil && len(set) > m.o.WorkersMax {
		err = fmt.Errorf("it names %d workers, more than the %d that there may be (setting discovery.workers_max)", len(set), m.o.WorkersMax)
	}
	now := time.Now()
	f.mu.Lock()
	was := f.status
	if err != nil {
		f.status.Errors++
		f.status.Error = err.Error()
		if was.Error == "" {
			f.status.Failed = now
		}
	} else {
		f.status.Told, f.status.Workers, f.status.Error, f.status.Failed = now, len(set), "", time.Time{}
	}
	is := f.status
	f.mu.Unlock()
	switch {
	case err != nil && is.Error != was.Error:
		m.o.Log.Warn("a source of workers fails: what it told last stays", "source", f.name, "error", is.Error, "workers", is.Workers)
	case err == nil && (was.Error != "" || was.Told.IsZero() || was.Workers != is.Workers):
		m.o.Log.Info("a source of workers told its set", "source", f.name, "workers", is.Workers)
	}
	if err == nil {
		m.o.OnSet(f.name, set)
	}
}

// Statuses are how the sources stand, in the order in which they were added.
func (m *Manager) Statuses(now time.Time) []Status {
	m.mu.Lock()
	sources := slices.Clone(m.sources)
	m.mu.Unlock()
	all := make([]Status, 0, len(sources))
	for _, f := range sources {
		f.mu.Lock()
		s := f.status
		f.mu.Unlock()
		s.Stale = s.Error != "" || s.Told.IsZero() || now.Sub(s.Told) > m.o.StaleAfter
		all = append(all, s)
	}
	return all
}

// Once asks each source until it has told a set or an error, or ctx ends, and returns what they told by their order. It is for looks that
// are over soon.
func Once(ctx context.Context, sources ...Source) (sets [][]Worker, errs []error) {
	sets, errs = make([][]Worker, len(sources)), make([]error, len(sources))
	var all sync.WaitGroup
	for i, s := range sources {
		all.Go(func() {
			asking, enough := context.WithCancel(ctx)
			defer enough()
			told := false
			s.Follow(asking, func(set []Worker, err error) {
				if !told {
					sets[i], errs[i], told = set, err, true
					enough()
				}
			})
			if !told {
				errs[i] = fmt.Errorf("it told nothing: %w", context.Cause(asking))
			}
		})
	}
	all.Wait()
	return sets, errs
}
