package main

import (
	"context"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/life"
)

// firstSetsTime is how long clients wait at a start until all sources have told their first set: before that, whom they ask for may not be known
// yet, and would be told as a model that does not exist.
const firstSetsTime = time.Second

// awaitFirst returns when each source has told its first set, or why it cannot, or when limit is over.
func (m *members) awaitFirst(limit time.Duration) {
	ctx, done := context.WithTimeout(m.r.asking, limit)
	defer done()
	for !m.heardAll() && ctx.Err() == nil {
		life.Pause(ctx, firstSetsTime/200)
	}
}

func (m *members) heardAll() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !slices.ContainsFunc(m.found.Statuses(time.Now()), func(s discovery.Status) bool {
		return s.Error == "" && !m.heard[s.Name] && s.Name != fromThemselves
	})
}
