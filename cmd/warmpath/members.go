package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/roster"
)

// members is who is in the fleet, and why: the workers that the configuration names, those that operators add and those that are found,
// brought together in a roster whose steps are taken here.
type members struct {
	r        *router
	found    *discovery.Manager
	registry *discovery.Registry
	again    chan struct{} // holds one word at most: steps are due soon

	mu       sync.Mutex // taken before router.changes
	roster   *roster.Roster[config.Worker]
	held     map[string]bool             // workers that an operator drains, by id in the fleet
	bad      map[string][]roster.Refusal // workers that sources name and that cannot be, by source
	heard    map[string]bool             // sources whose first set was taken
	moving   map[string]time.Time        // workers that left while nobody else was ready, by id in the fleet, and until when that is waited for
	followed map[string]any              // sources that the configuration names, and what it says of them
	awaited  map[string]bool             // those that came while the router ran, and have told no set yet
	parting  []string                    // those that it names no more, whose workers stay until all of the awaited ones have told a set
	logged   map[string]string           // why a worker could not be added, as the log was told, by id
}

// Names of the sources that are not looked for.
const (
	fromConfig     = "config"     // named by the configuration or by --worker
	fromAdmin      = "admin"      // added at the admin port
	fromThemselves = "registered" // engines that keep saying that they are there
)

// restlessEvery is how often workers that have left are looked at: whether the last of their requests is over.
const restlessEvery = 200 * time.Millisecond

func newMembers(r *router) *members {
	d := r.settings().Discovery
	m := &members{r: r, again: make(chan struct{}, 1), held: map[string]bool{}, bad: map[string][]roster.Refusal{}, heard: map[string]bool{}, moving: map[string]time.Time{}, logged: map[string]string{}, followed: map[string]any{}, awaited: map[string]bool{}}
	m.registry = discovery.NewRegistry(d.HeartbeatsMissed, d.WorkersMax)
	m.found = discovery.New(discovery.Options{StaleAfter: d.StaleAfter, WorkersMax: d.WorkersMax, Log: r.log,
		OnSet: func(name string, set []discovery.Worker) { m.tell(name, m.entries(name, set)) }})
	m.roster = roster.New(roster.Options[config.Worker]{Linger: d.ForgetAfter, WorkersMax: d.WorkersMax, Setting: "discovery.workers_max", Compare: changed})
	m.follow(*r.settings())
	clear(m.awaited) // nobody is to part yet
	return m
}

// Run follows the sources, and takes the steps that come with time, until ctx ends.
func (m *members) Run(ctx context.Context) error {
	var all sync.WaitGroup
	all.Go(func() { m.found.Run(ctx) })
	tick := time.NewTimer(restlessEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			all.Wait()
			return nil
		case <-m.again:
			tick.Reset(restlessEvery)
		case <-tick.C:
			m.mu.Lock()
			_ = m.settle() // what could not be added is logged, and tried again
			m.mu.Unlock()
		}
	}
}

// entriesOf are workers of the configuration as the roster has them.
func entriesOf(workers []config.Worker) []roster.Entry[config.Worker] {
	all := make([]roster.Entry[config.Worker], 0, len(workers))
	for _, w := range workers {
		all = append(all, roster.Entry[config.Worker]{ID: w.ID, URL: w.URL, Settings: w})
	}
	return all
}

// entries are workers that a source names, as the roster has them. Those that cannot be are left out, and the others come.
func (m *members) entries(source string, set []discovery.Worker) (all []roster.Entry[config.Worker]) {
	var bad []roster.Refusal
	for _, f := range set {
		w := workerOf(f)
		if err := m.r.settings().CheckWorker(&w); err != nil {
			bad = append(bad, roster.Refusal{Source: source, ID: w.ID, URL: w.URL, Why: err.Error()})
			continue
		}
		all = append(all, roster.Entry[config.Worker]{ID: w.ID, URL: w.URL, Instance: f.Instance, Leaving: f.Leaving, Settings: w})
	}
	m.mu.Lock()
	known := slices.Equal(m.bad[source], bad)
	m.bad[source] = bad
	m.mu.Unlock()
	if !known {
		for _, b := range bad {
			m.r.log.Warn("a worker that was found cannot be used", "source", source, "worker", b.ID, "url", b.URL, "error", b.Why)
		}
	}
	return all
}

// tell gives a source's whole set and takes the steps that come of it.
func (m *members) tell(source string, set []roster.Entry[config.Worker]) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.followed[source]; !ok && source != fromConfig && source != fromAdmin {
		return nil // it was told while it ceased to be followed
	}
	m.roster.Tell(source, set)
	m.heard[source] = true
	delete(m.awaited, source)
	m.part()
	return m.settle()
}

// settle takes the steps that are due. It is called with mu held. The error is of the first worker that could not be added; the others are.
func (m *members) settle() (err error) {
	for _, s := range m.roster.Steps(time.Now(), m.inFlight) {
		if failed := m.take(s); err == nil {
			err = failed
		}
	}
	m.moveOn()
	if err != nil || m.roster.Restless() {
		select {
		case m.again <- struct{}{}:
		default:
		}
	}
	return err
}

// take takes one step. What cannot be added is tried again.
func (m *members) take(s roster.Step[config.Worker]) error {
	w, log := s.Entry.Settings, m.r.log.With(slog.String("worker", s.Entry.ID), slog.String("why", s.Why))
	switch s.Do {
	case roster.Add:
		if err := m.r.addWorkers(w); err != nil {
			m.roster.Failed(s.Entry.ID, err.Error())
			if m.logged[s.Entry.ID] != err.Error() {
				m.logged[s.Entry.ID] = err.Error()
				log.Warn("worker cannot be added", "error", err)
			}
			return err
		}
		delete(m.logged, s.Entry.ID)
		log.Info("worker added", "url", w.URL)
	case roster.Remove:
		m.remove(w)
	case roster.Drain, roster.Move:
		for _, id := range fleetIDs(w) {
			if s.Do == roster.Move {
				m.moving[id] = time.Now().Add(othersTime)
			}
			if m.r.gate.Drain(id, false) == nil {
				log.Info("worker draining", "moves", s.Do == roster.Move)
			}
		}
	case roster.Undrain:
		for _, id := range fleetIDs(w) {
			delete(m.moving, id)
			if !m.held[id] && m.r.gate.Undrain(id) == nil {
				log.Info("worker takes requests again")
			}
		}
	case roster.Relabel:
		for _, id := range fleetIDs(w) {
			m.r.relabelWorker(id, w)
		}
		log.Info("worker relabelled", "labels", w.AllLabels())
	}
	return nil
}

// othersTime is how long requests without an answer stay on a worker that left, where nobody else is ready to take them: all workers may be
// others now, that are only being asked who they are.
const othersTime = time.Second

// moveOn has requests placed elsewhere that wait on workers which left. It is called with mu held.
func (m *members) moveOn() {
	for id, until := range m.moving {
		if m.r.gate.Spared(id) || time.Now().After(until) {
			delete(m.moving, id)
			_ = m.r.gate.Drain(id, true) // one that is gone has none
		}
	}
}

// remove takes what an entry stands for out of the fleet; ranks may be gone already.
func (m *members) remove(w config.Worker) {
	for _, id := range fleetIDs(w) {
		delete(m.held, id)
		delete(m.moving, id)
		_ = m.r.removeWorker(id)
	}
}

// fleetIDs are the workers in the fleet that an entry stands for.
func fleetIDs(w config.Worker) []string {
	if w.Ranks == 0 {
		return []string{w.ID}
	}
	ids := make([]string, w.Ranks)
	for rank := range ids {
		ids[rank] = rankID(w.ID, rank)
	}
	return ids
}

// inFlight is called with mu held.
func (m *members) inFlight(id string) (n int) {
	for _, in := range m.of(id) {
		n += m.r.gate.InFlight(in)
	}
	return n
}

// of are the ids in the fleet of what an operator may mean by id: a worker, or all ranks behind an address. It is called with mu held.
func (m *members) of(id string) []string {
	if w, ok := m.roster.Settings(id); ok {
		return fleetIDs(w)
	}
	return []string{id}
}

// add adds a worker by hand. Naming one that an operator drains takes it back.
func (m *members) add(w config.Worker) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := m.roster.Taken(w.ID, w.URL)
	if was, ok := m.roster.Settings(w.ID); taken != "" && ok && was.URL == w.URL && slices.ContainsFunc(fleetIDs(was), func(id string) bool { return m.held[id] }) {
		return m.undrain(w.ID)
	}
	if taken != "" {
		return errors.New(taken)
	}
	set := m.roster.Set(fromAdmin)
	m.roster.Recall(w.ID)
	m.roster.Tell(fromAdmin, append(slices.Clone(set), entriesOf([]config.Worker{w})...))
	_ = m.settle() // what others could not be is logged
	if why := m.roster.Failure(w.ID); why != "" {
		m.roster.Tell(fromAdmin, set)
		return errors.New(why)
	}
	return nil
}

// dismiss takes a worker out at once. One that a source names stays out until that source has ceased to name it.
func (m *members) dismiss(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, member := m.roster.Settings(id)
	if !member {
		delete(m.held, id)
		return m.r.removeWorker(id) // one of several ranks
	}
	m.registry.Leave(id)
	m.roster.Dismiss(id)
	m.roster.Tell(fromAdmin, slices.DeleteFunc(slices.Clone(m.roster.Set(fromAdmin)), func(e roster.Entry[config.Worker]) bool { return e.ID == id }))
	m.remove(w)
	return m.settle()
}

// drain keeps new requests from a worker until it is taken back, whatever sources say, and returns the ids in the fleet that are meant. move has
// its requests placed elsewhere that have no answer yet, where somebody else could take them: its engine is well, and will answer them.
func (m *members) drain(id string, move bool) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := m.of(id)
	for _, in := range ids {
		if err := m.r.gate.Drain(in, move && m.r.gate.Spared(in)); err != nil {
			return nil, fmt.Errorf("%w; there are: %s", err, strings.Join(m.ids(), ", "))
		}
		m.held[in] = true
	}
	m.r.log.Info("worker draining", "worker", id, "why", "by hand", "moves", move)
	return ids, nil
}

// idsShownMax bounds the workers that an error names.
const idsShownMax = 20

// ids are some of the workers in the fleet.
func (m *members) ids() (ids []string) {
	m.r.gate.View(func(v gate.View) {
		for _, w := range v.Workers {
			if len(ids) == idsShownMax {
				ids = append(ids, "...")
				return
			}
			ids = append(ids, w.ID)
		}
	})
	return ids
}

// takeBack ends a drain by hand.
func (m *members) takeBack(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.undrain(id)
}

// takenByOthers says which worker of another source has an id or address that one which registers itself would have; "" none.
func (m *members) takenByOthers(w config.Worker) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, ok := m.roster.Of(w.ID); ok && s.Source == fromThemselves {
		return ""
	}
	return m.roster.Taken(w.ID, w.URL)
}

// undrain is called with mu held. A worker that its source lets go goes on draining.
func (m *members) undrain(id string) error {
	ids := m.of(id)
	for _, in := range ids {
		if !m.r.gate.Known(in) {
			return fmt.Errorf("no worker %q in the fleet; there are: %s", in, strings.Join(m.ids(), ", "))
		}
		delete(m.held, in)
	}
	if s, ok := m.roster.Of(id); ok && (s.Left || s.Parts) {
		return nil
	}
	for _, in := range ids {
		if err := m.r.gate.Undrain(in); err != nil {
			return err
		}
	}
	m.r.log.Info("worker takes requests again", "worker", id)
	return nil
}
