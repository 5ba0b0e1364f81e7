package main

import (
	"reflect"
	"slices"

	"github.com/warmpath/warmpath/internal/config"
)

// join has those come who are new in a configuration, beside those of the one before it, so that they are there before anything is sent to them.
// Files of all of them are looked at first. On an error none came.
func (m *members) join(was []config.Worker, next config.Config) error {
	if err := checkWorkers(next); err != nil {
		return err
	}
	all := slices.Clone(was)
	for _, w := range next.Workers {
		if !slices.ContainsFunc(was, func(o config.Worker) bool { return o.ID == w.ID || o.URL == w.URL }) {
			all = append(all, w)
		}
	}
	if len(all) == len(was) {
		return nil
	}
	if err := m.tell(fromConfig, entriesOf(all)); err != nil {
		m.rejoin(was)
		return err
	}
	return nil
}

// rejoin has the workers of a configuration be there, and those leave that it names no more. What cannot be is logged, and tried again.
func (m *members) rejoin(workers []config.Worker) { _ = m.tell(fromConfig, entriesOf(workers)) }

// relabelWorker has a worker go on under other settings: labels, a bound and a credential.
func (r *router) relabelWorker(id string, w config.Worker) {
	r.changes.Lock()
	was, there := r.configured[id]
	r.changes.Unlock()
	if !there {
		return
	}
	if was.Key != w.Key || was.KeyFile != w.KeyFile {
		r.reachAnew(id, w)
	}
	r.changes.Lock()
	defer r.changes.Unlock()
	if _, there := r.configured[id]; !there {
		return
	}
	r.configured[id] = w
	err := r.gate.Relabel(id, w.AllLabels())
	if err == nil {
		err = r.gate.Adjust(id, w.InFlightMax)
	}
	if err != nil {
		r.log.Debug("settings of a worker that is not in the fleet any more", "worker", id, "error", err)
	}
}

// reachAnew has another credential sent to a worker.
func (r *router) reachAnew(id string, w config.Worker) {
	to, err := r.safety.reach(r.settings().Keyed(w), func(key string) { r.rekey(id, key) })
	if err != nil {
		r.log.Error("a worker's credential cannot be had: the one before it stays", "worker", id, "error", err)
		return
	}
	r.changes.Lock()
	_, there := r.configured[id]
	if there {
		r.unreach(id)
		r.reached[id] = to
	}
	r.changes.Unlock()
	if !there {
		to.stop()
		return
	}
	r.rekey(id, to.key)
}

// follow has the sources be followed that a configuration names. One that stays as it is is not touched; of one that is to be asked otherwise, what it
// told last counts until it tells anew. Workers of one that is named no more stay until those that came in its place have told a set of their own.
func (m *members) follow(c config.Config) {
	m.mu.Lock()
	defer m.mu.Unlock()
	wanted := sourcesOf(c)
	if c.Discovery.Register {
		wanted = append(wanted, named{fromThemselves, m.registry, true})
	}
	order := []string{fromConfig, fromAdmin}
	for _, s := range wanted {
		order = append(order, s.name)
		spec, known := m.followed[s.name]
		switch {
		case known && reflect.DeepEqual(spec, s.spec):
			continue
		case known:
			m.found.Remove(s.name)
		default:
			m.awaited[s.name] = true
			m.parting = slices.DeleteFunc(m.parting, func(name string) bool { return name == s.name })
		}
		m.followed[s.name] = s.spec
		m.found.Add(s.name, s.source)
	}
	for name := range m.followed {
		if !slices.Contains(order, name) {
			m.found.Remove(name)
			delete(m.followed, name)
			delete(m.awaited, name)
			m.parting = append(m.parting, name)
		}
	}
	m.roster.Follow(order...)
	m.part()
}

// part has the workers leave of sources that are named no more, once there is nothing to wait for. It is called with mu held, before steps are taken.
func (m *members) part() {
	if len(m.awaited) > 0 {
		return
	}
	for _, name := range m.parting {
		m.roster.Tell(name, nil)
		delete(m.heard, name)
		delete(m.bad, name)
	}
	m.parting = nil
}

// tellForgotten says which workers nobody will know of at the next start: those that were added by hand. A successor is told of them.
func (r *router) tellForgotten() {
	if r.succession.silent.Load() {
		return
	}
	r.members.mu.Lock()
	added := r.members.roster.Set(fromAdmin)
	r.members.mu.Unlock()
	if len(added) > 0 {
		r.log.Warn("workers were added by hand (POST /workers) and are not remembered: name them in the configuration (setting workers), by --worker or in a file of workers",
			"workers", len(added), "first", added[0].ID)
	}
}
