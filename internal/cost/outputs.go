package cost

import (
	"container/list"
	"math"
	"strings"
)

const (
	// outputStartTokens is an answer's expected length before any was seen: the mean of published chat traces.
	outputStartTokens = 256.0
	// outputShrink is how many answers it takes until half of an estimate is a tenant's (a model's) own.
	outputShrink = 20.0
	// outputMemory is how many answers a mean remembers.
	outputMemory = 500.0
)

// Outputs estimates how long an answer will be, in tokens, per model, tenant and shape of request. What a tenant has not shown yet comes
// from its model, and what a model has not shown yet from all of them. Bounded: what was not seen for longest is forgotten.
type Outputs struct {
	max    int
	all    mean
	spread spread // of all
	models map[outputKey]*list.Element
	order  *list.List // of *outputEntry, latest first
}

// outputKey names a tenant's answers from a model; whole is the model's answers to everybody.
type outputKey struct {
	model, tenant string
	whole         bool
	shape         uint16 // of the requests; 0: all of them
}

type outputEntry struct {
	key outputKey
	mean
	spread spread
}

// mean is a running mean that forgets: after outputMemory samples each new one counts 1/outputMemory.
type mean struct{ n, value float64 }

// NewOutputs returns an estimator that tells at most entriesMax models, tenants and shapes of theirs apart, some 1,400 bytes each; 0 means 4096.
func NewOutputs(entriesMax int) *Outputs {
	if entriesMax <= 0 {
		entriesMax = 4096
	}
	return &Outputs{max: entriesMax, models: make(map[outputKey]*list.Element), order: list.New()}
}

// Expect returns the expected tokens of an answer, at least 1 and at most maxTokens when the request says one (> 0).
func (o *Outputs) Expect(model, tenant string, maxTokens int) float64 {
	e := o.all.over(outputStartTokens)
	e = o.peek(outputKey{model: model, whole: true}).over(e)
	e = o.peek(outputKey{model: model, tenant: tenant}).over(e)
	if maxTokens > 0 {
		e = min(e, float64(maxTokens))
	}
	return max(e, 1)
}

// Learn takes the length of one finished answer. Answers that were cancelled say nothing and are the caller's to leave out.
func (o *Outputs) Learn(model, tenant string, tokens int) {
	o.LearnShaped(Asking{Model: model, Tenant: tenant}, tokens)
}

// Len returns how many entries are held.
func (o *Outputs) Len() int { return len(o.models) }

func (o *Outputs) peek(k outputKey) mean {
	if e := o.models[k]; e != nil {
		return e.Value.(*outputEntry).mean
	}
	return mean{}
}

func (o *Outputs) entry(k outputKey) *outputEntry {
	e := o.models[k]
	if e == nil {
		if len(o.models) >= o.max {
			last := o.order.Back()
			delete(o.models, last.Value.(*outputEntry).key)
			o.order.Remove(last)
		}
		k.model, k.tenant = strings.Clone(k.model), strings.Clone(k.tenant) // they are a request's, all of which they would hold
		e = o.order.PushFront(&outputEntry{key: k})
		o.models[k] = e
	}
	o.order.MoveToFront(e)
	return e.Value.(*outputEntry)
}

func (m *mean) add(v float64) {
	m.n = min(m.n+1, outputMemory)
	m.value += (v - m.value) / m.n
}

// over shrinks the mean to its parent's with weight n/(n+outputShrink), in the logarithm: lengths differ by factors.
func (m mean) over(parent float64) float64 {
	if m.n == 0 {
		return parent
	}
	w := m.n / (m.n + outputShrink)
	return math.Exp(w*math.Log(m.value) + (1-w)*math.Log(parent))
}
