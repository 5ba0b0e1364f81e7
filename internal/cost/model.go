package cost

import (
	"math"
	"slices"
)

const (
	// roughMax is how many rough times decide the class's rough speed.
	roughMax = 20

	// floorBoundRatio is how near to its floor a short prefill must be to say nothing about the seconds a token costs.
	floorBoundRatio = 1.5

	// What an observation can be; anything else is ignored.
	secondsMin, secondsMax = 1e-7, 86400.0
	sizeMax                = 1 << 30
)

// Model is the timing of one worker instance: its own two speeds, of prefill and of decoding, over its class's shape. Speeds differ by
// worker (other GPUs, other clocks); what a time is made of is a matter of engine and model, and is learned from all that run them.
type Model struct {
	prior         Constants
	class         *class
	prefill, step speed
	observed      int // the class's count at this worker's last observation

	learned Constants
	seen    int // the class's version that learned was worked out with
}

func newModel(c *class) *Model { return &Model{prior: c.prior, class: c, seen: -1} }

// Constants returns the worker's constants as far as they are known: of the class's shape its own with weight n/(n+50), of the
// worker's speed what differs from its class's beyond chance.
func (m *Model) Constants() Constants {
	if m.seen != m.class.version {
		m.settle()
	}
	return m.learned
}

// LearnPrefill takes the seconds that a prefill of uncached tokens behind cached ones took. Only a prefill that found
// no queue and shared the engine with no other is fit to learn from: a wait is not the worker's speed.
func (m *Model) LearnPrefill(uncached, cached int, seconds float64) {
	if m.class.fixed || uncached <= 0 || cached < 0 || uncached > sizeMax || cached > sizeMax || !usable(seconds) {
		return
	}
	u, h := float64(uncached), float64(cached)
	x := [3]float64{1, u, u * (u + 2*h)}
	k := m.Constants()
	share := (k.B*u + k.C*x[2]) / k.Prefill(uncached, cached)
	m.prefill.add(seconds, m.prior.Prefill(uncached, cached), share*share)
	m.class.learned(m)

	k = m.Constants()
	if k.B*u >= k.D0 || seconds > floorBoundRatio*(k.A+k.D0) {
		m.class.prefill.bend(x, seconds, max(k.A+k.B*u+k.C*x[2], k.D0), &m.prefill)
		m.class.version++
	}
}

// LearnStep takes the gap between two tokens of one sequence, with the sequences in the batch and the sum of their
// contexts at that moment. Gaps during which a prefill ran on the worker are the caller's to leave out.
func (m *Model) LearnStep(batch, contextTokens, seconds float64) {
	if m.class.fixed || !(batch >= 1 && batch < sizeMax) || !(contextTokens >= 0 && contextTokens < sizeMax) || !usable(seconds) {
		return
	}
	m.step.add(seconds, m.prior.Step(batch, contextTokens), 1)
	m.class.learned(m)
	m.class.step.bend([3]float64{1, batch, contextTokens}, seconds, m.Constants().Step(batch, contextTokens), &m.step)
	m.class.version++
}

// LearnRough takes a time that is fit for no more than the order of magnitude: until a first token (generated 0) or until the end of a
// whole answer, others' work included. It counts while no worker of the class has shown anything better, so that a prior that is wrong
// by factors is put right even where no request ever has a worker to itself. Others' work only adds: the lower quartile is believed.
func (m *Model) LearnRough(uncached, cached, generated int, seconds float64) {
	c := m.class
	if c.fixed || c.clean || uncached <= 0 || cached < 0 || generated < 0 || uncached > sizeMax || cached > sizeMax || !usable(seconds) {
		return
	}
	alone := c.prior.Prefill(uncached, cached) + float64(generated)*c.prior.Step(1, float64(uncached+cached))
	c.rough[c.roughs%len(c.rough)] = math.Log(seconds / alone)
	c.roughs++
	held := c.rough
	seen := held[:min(c.roughs, len(held))]
	slices.Sort(seen)
	c.logPrefill = seen[len(seen)/4]
	c.logStep = c.logPrefill
	c.version++
}

// LearnWhole takes the time of a whole answer that had its worker to itself, and splits it between prefill and decoding in the proportion
// that the present constants give: enough to learn a speed, when no stream tells more.
func (m *Model) LearnWhole(uncached, cached, generated int, seconds float64) {
	k, context := m.Constants(), float64(uncached+cached)
	prefill, decode := k.Prefill(uncached, cached), float64(generated)*k.Step(1, context)
	share := seconds / (prefill + decode)
	m.LearnPrefill(uncached, cached, prefill*share)
	if generated > 0 {
		m.LearnStep(1, context, decode*share/float64(generated))
	}
}

// Samples returns how many prefills and how many decode steps were learned from.
func (m *Model) Samples() (prefills, steps int) { return m.prefill.n, m.step.n }

// Speed returns how many times as fast as its class's prior the worker prefills: 1 until something is known.
func (m *Model) Speed() float64 { return m.prior.B / m.Constants().B }

// missed is how many observations each of the worker's siblings made on the mean since its own last one.
func (m *Model) missed() float64 {
	return float64(m.class.observed-m.observed) / float64(max(1, len(m.class.members)-1))
}

// settle works the constants out again.
func (m *Model) settle() {
	m.seen = m.class.version
	c := m.class
	missed := m.missed()
	prefill, step := m.prefill.lean(c.logPrefill, c.offPrefill, missed), m.step.lean(c.logStep, c.offStep, missed)
	m.prefill.log = m.prefill.lean(m.prefill.borrow(c.logPrefill, step-c.logStep, step+c.lead), c.offPrefill, missed)
	m.step.log = m.step.lean(m.step.borrow(c.logStep, prefill-c.logPrefill, prefill-c.lead), c.offStep, missed)
	p, s := m.class.prefill.constants(m.prefill.log), m.class.step.constants(m.step.log)
	m.learned = Constants{A: p[0], B: p[1], C: p[2], D0: s[0], D1: s[1], D2: s[2]}
}

// usable tells an observed time from a broken clock: no prefill and no step lasts a day or a tenth of a microsecond.
func usable(seconds float64) bool { return seconds > secondsMin && seconds < secondsMax }
