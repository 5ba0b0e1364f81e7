package cost

import (
	"slices"

	"github.com/warmpath/warmpath/internal/fleet"
)

// Options are what a Book knows before it has learned anything.
type Options struct {
	// Prior is the timing assumed of an engine of unknown kind; only its shape matters after the first requests.
	Prior Constants
	// Engines are the priors by engine kind, as fleet.Info.Engine names it.
	Engines map[string]Constants
	// Fixed says that these are the constants: nothing is learned. For comparisons, where they are known.
	Fixed bool
}

// DefaultOptions assumes an 8B model on one H100, and of a llama.cpp a small model on a few processor cores, where
// each token of a prompt costs nearly what a token of an answer does.
func DefaultOptions() Options {
	return Options{
		Prior: Profiles["h100-8b"].Constants,
		Engines: map[string]Constants{
			"llama.cpp": {A: 2e-3, B: 2e-3, C: 2e-8, D0: 8e-3, D1: 2e-3, D2: 2e-7},
		},
	}
}

// Book holds a Model per worker instance. Workers of one class (engine kind and model) start from one another's speed.
type Book struct {
	opts    Options
	pages   []page // by slot
	classes map[classKey]*class
	kept    map[string]KeptWorker // from before a restart, by id, until the worker's kind is known
}

type page struct {
	worker *fleet.Worker
	model  *Model
	known  bool // the worker's kind was known when the model was made
}

type classKey struct{ engine, model string }

// classesMax bounds the engine kinds and models that are told apart.
const classesMax = 1024

// class is what workers of one kind have in common.
type class struct {
	prior   Constants
	fixed   bool
	members []*Model

	prefill, step shape // of A, B, C and of D0, D1, D2

	clean  bool // a member has shown a time that is only its own
	roughs int  // rough times seen before that
	rough  [roughMax]float64

	// The members' mean log speeds, how much further their prefills lie off the prior than their steps, and the deviations of their
	// observations, 0 when not known.
	logPrefill, logStep, lead float64
	offPrefill, offStep       float64

	observed int // by all members, ever
	version  int // changes with all of this
}

// likely is the class a worker of unknown engine most likely belongs to: the largest of those that run its model. It would else be held
// against a prior of its own while its siblings are held against what they have shown, and look better or worse than it is.
func (b *Book) likely(key classKey) classKey {
	best, most := key, 0
	for k, c := range b.classes {
		n := len(c.members)
		if k.model == key.model && k.engine != "" && (n > most || n == most && n > 0 && k.engine < best.engine) {
			best, most = k, n
		}
	}
	return best
}

func newClass(k Constants) *class {
	return &class{prior: k, prefill: newShape([3]float64{k.A, k.B, k.C}), step: newShape([3]float64{k.D0, k.D1, k.D2})}
}

// NewBook returns an empty book.
func NewBook(o Options) *Book { return &Book{opts: o, classes: make(map[classKey]*class)} }

// Of returns the worker's model, made when it is asked for first. Its class is looked up until telemetry knows the
// engine's kind; observations made before that are dropped, since they were measured against another prior.
func (b *Book) Of(w *fleet.Worker) *Model {
	for len(b.pages) <= w.Slot {
		b.pages = append(b.pages, page{})
	}
	p := &b.pages[w.Slot]
	if p.worker == w && p.known {
		return p.model
	}
	info := w.Info()
	known := info.Engine != ""
	if p.worker == w && !known {
		return p.model
	}
	if p.model != nil {
		b.leave(p.model)
	}
	key := classKey{engine: info.Engine}
	if len(info.Models) > 0 {
		key.model = info.Models[0].ID
	}
	kept, same := b.keptOf(w, key)
	if same {
		key = classKey{kept.Engine, kept.Model}
	}
	*p = page{worker: w, model: newModel(b.classOf(key)), known: known}
	if same {
		p.model.prefill.recall(kept.Prefill)
		p.model.step.recall(kept.Step)
		p.model.observed = kept.Seen
	}
	if known {
		delete(b.kept, w.ID)
	}
	p.model.class.members = append(p.model.class.members, p.model)
	return p.model
}

// Forget drops what was learned of a worker that is gone.
func (b *Book) Forget(w *fleet.Worker) {
	delete(b.kept, w.ID)
	if w.Slot < len(b.pages) && b.pages[w.Slot].worker == w {
		b.leave(b.pages[w.Slot].model)
		b.pages[w.Slot] = page{}
	}
}

func (b *Book) classOf(key classKey) *class {
	if key.engine == "" {
		key = b.likely(key)
	}
	c := b.classes[key]
	if c == nil && len(b.classes) >= classesMax {
		key.model = "" // one class for all that a flood of model names would make
		c = b.classes[key]
	}
	if c == nil {
		prior, ok := b.opts.Engines[key.engine]
		if !ok {
			prior = b.opts.Prior
		}
		c = newClass(prior)
		c.fixed = b.opts.Fixed
		b.classes[key] = c
	}
	return c
}

// leave takes a model out of its class; the class keeps the speed it has, for a worker that comes back.
func (b *Book) leave(m *Model) {
	m.class.members = slices.DeleteFunc(m.class.members, func(o *Model) bool { return o == m })
}

// classVoteMax bounds a member's say in its class's speed, in observations: one busy worker must not speak for all.
const classVoteMax = 8

// classFollowMax is how many of a member's observations go by at most until the class follows.
const classFollowMax = 16

// learned follows a member's observation with the class's speed: its first ones, and then the fewer the more members have to be looked at.
// The class's speed is what workers are held against, nothing that has to be exact.
func (c *class) learned(m *Model) {
	c.version++
	c.observed++
	m.observed = c.observed
	c.clean = true
	if n := m.prefill.n + m.step.n; n > 2*classVoteMax && n%min(len(c.members), classFollowMax) != 0 {
		return
	}
	var prefills, steps, lead, offPrefills, offSteps average
	for _, o := range c.members {
		aged := 1 + o.missed()/classVoteMax
		prefills.add(o.prefill.own, say(o.prefill.n)/aged)
		steps.add(o.step.own, say(o.step.n)/aged)
		lead.add(o.prefill.own-o.step.own, say(min(o.prefill.n, o.step.n))/aged)
		offPrefills.add(o.prefill.deviation, o.prefill.tells())
		offSteps.add(o.step.deviation, o.step.tells())
	}
	c.logPrefill, c.logStep = prefills.or(c.logPrefill), steps.or(c.logStep)
	c.offPrefill, c.offStep = offPrefills.or(c.offPrefill), offSteps.or(c.offStep)
	switch { // an engine that prefills slowly also decodes slowly
	case prefills.weight == 0:
		c.logPrefill = c.logStep
	case steps.weight == 0:
		c.logStep = c.logPrefill
	}
	c.lead = lead.or(c.logPrefill - c.logStep)
}

// say is what a member with n observations weighs in its class's speed: next to nothing as long as those may be one stall, unless nobody
// has more.
func say(n int) float64 {
	if n < speedLeast {
		return float64(n) / 1000
	}
	return float64(min(n, classVoteMax))
}

// average is a weighted mean.
type average struct{ sum, weight float64 }

func (m *average) add(v, weight float64) {
	m.sum += v * weight
	m.weight += weight
}

func (m *average) or(otherwise float64) float64 {
	if m.weight == 0 {
		return otherwise
	}
	return m.sum / m.weight
}
