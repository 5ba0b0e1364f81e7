package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/flow"
)

// Tenant is what came of one tenant's requests, see Config.ByTenant. Times are in seconds.
type Tenant struct {
	Name           string
	Class          string // in the queue; "" without one
	Came, Finished int
	Preempted      int // times that its work gave way to a more urgent request
	// TTFT and E2E count from when a request came, the wait in the queue included; ITL is of every gap between two tokens.
	TTFT, E2E, ITL Distribution
	// Seconds of engine time that it took, by the second in which it did: its prefills at their first token, its tokens as they came, and of
	// each step's floor as much as of its tokens.
	Seconds []float64
	Turns   []Turn    // of those that waited
	Refused []Refused // by the queue
}

// Turn is one request that waited in the queue and had its turn.
type Turn struct{ Came, Waited time.Duration }

// Refused is one request that the queue refused, or that waited in vain, and when it was told to come again.
type Refused struct {
	At, After time.Duration
	Reason    flow.Reason
}

// Between is the engine time that a tenant took in a stretch of the run, in whole seconds.
func (t *Tenant) Between(from, to time.Duration) (seconds float64) {
	for i := int(from / time.Second); i < min(len(t.Seconds), int(to/time.Second)); i++ {
		seconds += t.Seconds[i]
	}
	return seconds
}

// Together is what came of several tenants: their requests and times, refusals and turns. The name is left out, the class is the first one's.
func Together(all []*Tenant) Tenant {
	sum := Tenant{Class: all[0].Class}
	for _, t := range all {
		sum.Came, sum.Finished = sum.Came+t.Came, sum.Finished+t.Finished
		sum.TTFT.Merge(&t.TTFT)
		sum.E2E.Merge(&t.E2E)
		sum.ITL.Merge(&t.ITL)
		sum.Turns, sum.Refused = append(sum.Turns, t.Turns...), append(sum.Refused, t.Refused...)
		for i, seconds := range t.Seconds {
			if i == len(sum.Seconds) {
				sum.Seconds = append(sum.Seconds, 0)
			}
			sum.Seconds[i] += seconds
		}
	}
	return sum
}

// Tenant is the tenant of that name; nil: it asked for nothing.
func (r *Result) Tenant(name string) *Tenant {
	for _, t := range r.Tenants {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// tenant is the same, and makes one. They are in the order of their names.
func (r *Result) tenant(q *Queue, name string) *Tenant {
	i, found := slices.BinarySearchFunc(r.Tenants, name, func(t *Tenant, name string) int { return strings.Compare(t.Name, name) })
	if !found {
		r.Tenants = slices.Insert(r.Tenants, i, &Tenant{Name: name, Class: q.className(name)})
	}
	return r.Tenants[i]
}

// turned takes in a request that had its turn, refused one that the queue refused, or that fits on no worker.
func (r *Result) turned(f *flight) {
	if waited := f.guest.Waited; f.tenant != nil && waited > 0 {
		f.tenant.Turns = append(f.tenant.Turns, Turn{f.came, waited})
	}
}

func (r *Result) refused(l *lab, f *flight, why *flow.Refusal) {
	if why == nil {
		r.Refused++
		return
	}
	r.TurnedAway++
	if f.tenant != nil {
		f.tenant.Refused = append(f.tenant.Refused, Refused{l.now, why.After, why.Reason})
	}
}

// account books to the tenants what a worker's requests got in the steps that ended.
func (r *Result) account(l *lab, w *worker) {
	decoding := 0.0
	for _, f := range w.flights {
		if f.counted > 0 && f.sequence.Generated > f.counted {
			decoding++
		}
	}
	k, second := &w.profile.Constants, int(l.now/time.Second)
	for _, f := range w.flights {
		s := f.sequence
		n := s.Generated - f.counted
		if n <= 0 || f.tenant == nil {
			continue
		}
		seconds := 0.0
		if f.counted == 0 {
			u, h := float64(s.PromptTokens-s.CachedTokens), float64(s.CachedTokens)
			seconds = k.A + k.B*u + k.C*u*(u+2*h)
		} else {
			f.tenant.ITL.AddN((l.now-f.lastToken).Seconds()/float64(n), n)
			seconds = float64(n) * (k.D0/decoding + k.D1 + k.D2*float64(s.PromptTokens+s.Generated))
		}
		f.counted, f.lastToken = s.Generated, l.now
		t := f.tenant
		for len(t.Seconds) <= second {
			t.Seconds = append(t.Seconds, 0)
		}
		t.Seconds[second] += seconds
		f.pick.seconds += seconds
	}
}
