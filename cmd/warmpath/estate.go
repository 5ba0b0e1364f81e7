package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/tenant"
)

// What a process hands over to the one after it besides its sockets: what no file says. It goes through a pipe between the two, credentials included.

// estate is that.
type estate struct {
	Spent      tenant.Spent      `json:"spent"`
	Policy     string            `json:"policy,omitempty"` // that was set at the admin port, "" the configuration's
	Added      []inheritedWorker `json:"added,omitempty"`  // at the admin port
	Registered []inheritedWorker `json:"registered,omitempty"`
	Held       []string          `json:"held,omitempty"`      // drained by hand, by id in the fleet
	Dismissed  []string          `json:"dismissed,omitempty"` // taken out by hand though a source names them
}

// inheritedWorker is a worker with its credential, which config.Worker tells nobody.
type inheritedWorker struct {
	Worker   config.Worker `json:"worker"`
	Key      string        `json:"key,omitempty"`
	Instance string        `json:"instance,omitempty"`
	Every    time.Duration `json:"every,omitempty"` // of its heartbeats
}

func (w *inheritedWorker) worker() config.Worker {
	w.Worker.Key = config.Secret(w.Key)
	return w.Worker
}

// bequeath writes the state down for a successor, and returns what no file says.
func (r *router) bequeath() ([]byte, error) {
	if err := errors.Join(r.writeLearned(), r.writeCaches()); err != nil {
		r.log.Warn("what was learned of engines could not be kept: the successor learns anew", "error", err)
	}
	var e estate
	e.Spent, _ = r.desk.Spent(time.Now())
	r.succession.spent = e.Spent
	if p := r.gate.Policy(); p != r.settings().Policy {
		e.Policy = p
	}
	r.members.bequeath(&e)
	return json.Marshal(e)
}

// inherit reads what the process before handed over.
func (r *router) inherit() {
	if r.came.From() == 0 {
		return
	}
	text, err := r.came.Legacy()
	if err == nil {
		err = json.Unmarshal(text, &r.inherited)
	}
	if err != nil {
		r.log.Warn("what was set at the admin port of the process before is not known here", "error", err)
	}
}

func (m *members) bequeath(e *estate) {
	for _, b := range m.registry.Beats() {
		w := workerOf(b.Worker)
		e.Registered = append(e.Registered, inheritedWorker{w, string(w.Key), b.Worker.Instance, b.Every})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.roster.Set(fromAdmin) {
		e.Added = append(e.Added, inheritedWorker{Worker: a.Settings, Key: string(a.Settings.Key)})
	}
	for id := range m.held {
		e.Held = append(e.Held, id)
	}
	e.Dismissed = m.roster.Dismissed()
}

// inherit has the workers be there that the process before was told of.
func (m *members) inherit(e estate) {
	now := time.Now()
	for _, w := range e.Registered {
		at := w.worker()
		_, _, err := m.registry.Beat(discovery.Worker{ID: at.ID, URL: at.URL, Instance: w.Instance, Settings: at}, w.Every, now)
		m.differs(at.ID, err)
	}
	for _, w := range e.Added {
		m.differs(w.Worker.ID, m.add(w.worker()))
	}
	if e.Policy != "" {
		if err := m.r.gate.SetPolicy(e.Policy); err != nil {
			m.r.log.Warn("the policy that was set at the admin port is not in force", "error", fmt.Errorf("%q: %w", e.Policy, err))
		}
	}
}

// inheritDrains has those be drained or out that the process before was told to, once sources have said who is there.
func (m *members) inheritDrains(e estate) {
	for _, id := range e.Dismissed {
		m.differs(id, m.dismiss(id))
	}
	for _, id := range e.Held {
		_, err := m.drain(id, false)
		m.differs(id, err)
	}
}

func (m *members) differs(id string, err error) {
	if err != nil {
		m.r.log.Warn("a worker is not as it was in the process before", "worker", id, "error", err)
	}
}
