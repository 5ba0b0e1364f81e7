package main

import (
	"maps"
	"slices"

	"github.com/warmpath/warmpath/internal/roster"
)

// standing is how a worker stands, for people.
type standing struct {
	source   string
	draining string // why; "" it is not
	labels   []string
}

// standings are those of all workers in the fleet, by id there.
func (m *members) standings() map[string]standing {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.r.changes.Lock()
	configured := maps.Clone(m.r.configured)
	m.r.changes.Unlock()
	all := make(map[string]standing, len(configured))
	for id, w := range configured {
		s, _ := m.roster.Of(w.ID)
		all[id] = standing{source: s.Source, labels: w.AllLabels(), draining: m.why(s, id)}
	}
	return all
}

// why a worker drains, "" it does not. It is called with mu held.
func (m *members) why(s roster.Standing, id string) string {
	switch {
	case s.Left:
		return "left"
	case s.Parts:
		return "leaving"
	case m.held[id]:
		return "by hand"
	}
	return ""
}

// standingOf is why one worker drains.
func (m *members) standingOf(id string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, _ := m.roster.Of(id)
	return m.why(s, id)
}

// refused are workers that sources name and that are not in the fleet.
func (m *members) refused() []roster.Refusal {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.roster.Refused()
	for _, source := range slices.Sorted(maps.Keys(m.bad)) {
		all = append(all, m.bad[source]...)
	}
	return all
}
