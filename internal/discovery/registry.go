package discovery

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Registry is engines that register themselves and say again and again that they are there. One that misses too many of its heartbeats
// is taken to have left. It is safe for concurrent use.
type Registry struct {
	missedMax  int
	workersMax int
	changed    chan struct{} // holds one word at most

	mu      sync.Mutex
	entries map[string]registered // by id
}

// registered is one engine's word.
type registered struct {
	worker Worker
	every  time.Duration
	until  time.Time
}

// Bounds of a heartbeat's interval, and the default of how many may be missed.
const (
	HeartbeatMin = time.Second
	HeartbeatMax = 5 * time.Minute
	MissedMax    = 3
)

// NewRegistry makes an empty one. After missedMax heartbeats that did not come (0: 3) an engine has left.
func NewRegistry(missedMax, workersMax int) *Registry {
	if missedMax <= 0 {
		missedMax = MissedMax
	}
	if workersMax <= 0 {
		workersMax = WorkersMax
	}
	return &Registry{missedMax: missedMax, workersMax: workersMax, changed: make(chan struct{}, 1), entries: map[string]registered{}}
}

// Beat notes that a worker is there, and will say so again within every. It returns until when it is believed, and whether the worker was
// not known before. The worker has an id and settings that were checked.
func (r *Registry) Beat(w Worker, every time.Duration, now time.Time) (until time.Time, fresh bool, err error) {
	if every < HeartbeatMin || every > HeartbeatMax {
		return until, false, fmt.Errorf("heartbeat %v: it may be %v to %v", every, HeartbeatMin, HeartbeatMax)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old, known := r.entries[w.ID]
	if !known && len(r.entries) >= r.workersMax {
		return until, false, fmt.Errorf("%d workers are registered already, the most there may be (setting discovery.workers_max)", len(r.entries))
	}
	if known && old.worker.URL != w.URL && old.worker.Instance == w.Instance && now.Before(old.until) {
		return until, false, &TakenError{ID: w.ID, URL: old.worker.URL}
	}
	until = now.Add(time.Duration(r.missedMax) * every)
	r.entries[w.ID] = registered{w, every, until}
	r.tell()
	return until, !known, nil
}

// TakenError is an id that another engine has, which still says that it is there.
type TakenError struct{ ID, URL string }

func (e *TakenError) Error() string {
	return fmt.Sprintf("worker %q is registered already, at %s; an engine that moved says so by another instance", e.ID, e.URL)
}

// Leave takes a worker out that says goodbye. false: it was not registered.
func (r *Registry) Leave(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.entries[id]
	delete(r.entries, id)
	if known {
		r.tell()
	}
	return known
}

// Beat is an engine's word as it stands.
type Beat struct {
	Worker Worker
	Every  time.Duration
}

// Beats are those that are there, in order of their ids, to be told to another Registry.
func (r *Registry) Beats() (all []Beat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.entries {
		all = append(all, Beat{e.worker, e.every})
	}
	slices.SortFunc(all, func(a, b Beat) int { return strings.Compare(a.Worker.ID, b.Worker.ID) })
	return all
}

// tell is called with mu held.
func (r *Registry) tell() {
	select {
	case r.changed <- struct{}{}:
	default: // somebody is about to look
	}
}

// take returns those that are there, in order of their ids, and when the next one is missed; those that are missed now are out.
func (r *Registry) take(now time.Time) (set []Worker, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, e := range r.entries {
		if !now.Before(e.until) {
			delete(r.entries, id)
			continue
		}
		set = append(set, e.worker)
		if next.IsZero() || e.until.Before(next) {
			next = e.until
		}
	}
	slices.SortFunc(set, func(a, b Worker) int { return strings.Compare(a.ID, b.ID) })
	return set, next
}

// registryIdle is how often the set is told though nothing changes, so that it never looks stale.
const registryIdle = 30 * time.Second

// Follow implements Source.
func (r *Registry) Follow(ctx context.Context, tell func([]Worker, error)) {
	for {
		now := time.Now()
		set, next := r.take(now)
		tell(set, nil)
		wait := registryIdle
		if !next.IsZero() {
			wait = min(wait, next.Sub(now))
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-r.changed:
		case <-t.C:
		}
		t.Stop()
	}
}
