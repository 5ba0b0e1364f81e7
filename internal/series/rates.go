package series

import (
	"math"
	"sync"
	"time"
)

// rateTime is how far back rates look: what happened so long ago counts for a third.
const rateTime = 30 * time.Second

// Rates are what single workers do, lately. The zero value is empty; any number of goroutines may use it. There are as many as Tick keeps.
type Rates struct {
	mu sync.Mutex
	by map[string]*Rate
}

// Rate is what one worker did lately, a second, each event counting for less the longer it is ago.
type Rate struct {
	Requests, Failed               float64 // that ended, and those whose worker failed them
	PromptTokens, CompletionTokens float64
	metered, cached                float64
}

// HitRate is the share of prompt tokens that its engine reports as cached; NaN while it reports nothing.
func (r Rate) HitRate() float64 { return r.cached / r.metered }

// Add takes in a request that ended on a worker.
func (r *Rates) Add(worker string, q *Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.of(worker)
	one := 1 / rateTime.Seconds()
	of.Requests += one
	if !q.Metered {
		return
	}
	of.PromptTokens += float64(max(q.PromptTokens, 0)) * one
	of.CompletionTokens += float64(max(q.AnswerTokens, 0)) * one
	if q.CachedReported {
		of.metered += float64(max(q.PromptTokens, 0)) * one
		of.cached += float64(max(q.CachedTokens, 0)) * one
	}
}

// Fail counts an attempt that a worker failed.
func (r *Rates) Fail(worker string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of(worker).Failed += 1 / rateTime.Seconds()
}

func (r *Rates) of(worker string) *Rate {
	of := r.by[worker]
	if of == nil {
		if r.by == nil {
			r.by = map[string]*Rate{}
		}
		of = new(Rate)
		r.by[worker] = of
	}
	return of
}

// Tick has a second pass, and forgets workers that are not there any more.
func (r *Rates) Tick(there func(worker string) bool) {
	fade := math.Exp(-time.Second.Seconds() / rateTime.Seconds())
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, of := range r.by {
		if !there(id) {
			delete(r.by, id)
			continue
		}
		for _, v := range []*float64{&of.Requests, &of.Failed, &of.PromptTokens, &of.CompletionTokens, &of.metered, &of.cached} {
			if *v *= fade; *v < 1e-6 {
				*v = 0
			}
		}
	}
}

// Of is what a worker did lately.
func (r *Rates) Of(worker string) Rate {
	r.mu.Lock()
	defer r.mu.Unlock()
	if of := r.by[worker]; of != nil {
		return *of
	}
	return Rate{}
}
