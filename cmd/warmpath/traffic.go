package main

import (
	"sync"

	"github.com/warmpath/warmpath/internal/checkup"
	"github.com/warmpath/warmpath/internal/facts"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/outcome"
)

// traffic is what requests of clients have shown of each worker, as long as its engine runs: the checks of the page tell it, so that none has
// to be sent for them. The zero value is empty; there are as many as keep leaves.
type traffic struct {
	mu sync.Mutex
	by map[string]*trafficBy
}

// trafficBy is of one incarnation: another one may have other flags.
type trafficBy struct {
	incarnation uint64
	checkup.Traffic
}

// note takes in a request that ended on a worker.
func (s *traffic) note(w *fleet.Worker, f *facts.Facts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.by[w.ID]
	if of == nil || of.incarnation < w.Incarnation {
		if s.by == nil {
			s.by = map[string]*trafficBy{}
		}
		of = &trafficBy{incarnation: w.Incarnation}
		s.by[w.ID] = of
	}
	if of.incarnation != w.Incarnation {
		return // it began on the engine before
	}
	switch f.Outcome {
	case outcome.Cancelled:
		of.Left++
		return
	case outcome.Succeeded, outcome.Incomplete:
	default:
		return
	}
	if u := &f.Usage; u.HasCached {
		of.Told++
		of.PromptTokens += uint64(max(u.PromptTokens, 0))
		of.CachedTokens += uint64(max(u.CachedTokens, 0))
	} else if u.HasPrompt {
		of.Untold++
		if f.Decision.MatchedTokens > 0 {
			of.Expected++
		}
	}
	if !f.Stream || f.Tokens == 0 {
		return
	}
	of.Streams++
	if f.Usage.HasPrompt {
		of.Counted++
	}
	if f.Unterminated {
		of.Unterminated++
	}
}

// of is what clients' requests have shown of a worker.
func (s *traffic) of(worker string) checkup.Traffic {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.by[worker]; of != nil {
		return of.Traffic
	}
	return checkup.Traffic{}
}

// keep forgets workers that are not there any more.
func (s *traffic) keep(there func(worker string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.by {
		if !there(id) {
			delete(s.by, id)
		}
	}
}
