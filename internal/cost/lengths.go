package cost

import (
	"math"
	"math/bits"
)

// Shape is what makes answers differ in length besides model and tenant. The zero Shape says nothing and is told apart from none.
type Shape struct {
	Tools     bool // the answer may be a call
	JSON      bool // it is held to a form
	Reasoning bool // thinking was asked for
	Streamed  bool
	// PromptTokens and MaxTokens tell answers apart by powers of four.
	PromptTokens, MaxTokens int
}

// key is the shape as a number, 0 for the zero Shape.
func (s Shape) key() uint16 {
	fours := func(tokens int) uint16 { return min(uint16(bits.Len(uint(max(tokens, 0)))+1)/2, 15) }
	key := fours(s.PromptTokens)<<8 | fours(s.MaxTokens)<<4
	for i, set := range [...]bool{s.Tools, s.JSON, s.Reasoning, s.Streamed} {
		if set {
			key |= 1 << i
		}
	}
	return key
}

// Lengths is how long one answer is expected to be, in tokens, and never longer than the request allows. Zero: none is generated.
type Lengths struct {
	Mean, P50, P90 float64
	// Longest is expected of the longest of all answers to one prompt, since they are decoded side by side.
	Longest float64
}

// Asking is what an answer's length is told by.
type Asking struct {
	Model, Tenant string
	Shape         Shape
	Answers       int // to one prompt, 0 is 1
}

// Lengths tells how long each answer will be, from what like requests were answered: those of the same model, then also of the same
// shape, then of the same tenant, then of both, each as far as it is known.
func (o *Outputs) Lengths(a Asking) Lengths {
	mix := lengthPrior
	if o.all.n > 0 {
		o.spread.into(&mix)
	}
	keys, n := a.keys()
	for _, k := range keys[:n] {
		if e := o.models[k]; e != nil {
			e.Value.(*outputEntry).spread.into(&mix)
		}
	}
	return mix.lengths(a.Shape.MaxTokens, max(a.Answers, 1))
}

// LearnShaped takes the length of one finished answer, as Learn does, and the shape of what it answers. One that is as long as its request
// allows was cut there, and says only that it would have been as long or longer: it counts for all such lengths, as likely as each is.
func (o *Outputs) LearnShaped(a Asking, tokens int) {
	if tokens <= 0 {
		return
	}
	cut := a.Shape.MaxTokens > 0 && tokens >= a.Shape.MaxTokens
	mix := lengthPrior
	learn := func(m *mean, s *spread) {
		m.add(float64(tokens))
		if !cut {
			s.add(tokens)
			return
		}
		s.into(&mix)
		s.addLonger(tokens, &mix)
	}
	learn(&o.all, &o.spread)
	keys, n := a.keys()
	for _, k := range keys[:n] {
		e := o.entry(k)
		learn(&e.mean, &e.spread)
	}
}

// keys are the entries that such a request is told by, from the widest to the narrowest, and how many they are.
func (a *Asking) keys() (keys [4]outputKey, n int) {
	all := outputKey{model: a.Model, whole: true}
	own := outputKey{model: a.Model, tenant: a.Tenant}
	shape := a.Shape.key()
	if shape == 0 {
		return [4]outputKey{all, own}, 2
	}
	allLike, ownLike := all, own
	allLike.shape, ownLike.shape = shape, shape
	return [4]outputKey{all, allLike, own, ownLike}, 4
}

// The buckets of a spread: every length below lengthExact has its own, from there on each power of two has lengthParts. The last one
// begins near a million tokens.
const (
	lengthPartBits = 2
	lengthParts    = 1 << lengthPartBits
	lengthExact    = 2 * lengthParts
	lengthBuckets  = lengthExact + 17*lengthParts
	// lengthScaleMax is the weight of one answer at which all are scaled down.
	lengthScaleMax = 1e6
)

// spread counts answers by length, and forgets as spreadMemory says: each new one weighs more, in place of all others weighing less. Where
// the answers of a bucket lie in it is told by their sum: without, quantiles of narrow distributions would be off by a bucket's width.
type spread struct {
	counts    [lengthBuckets]struct{ n, sum float64 }
	n, weight float64 // weight is of the latest
}

func (s *spread) add(tokens int) {
	s.age()
	in := &s.counts[lengthBucket(tokens)]
	in.n += s.weight
	in.sum += s.weight * float64(tokens)
}

// addLonger adds an answer of at least so many tokens, spread over those lengths as d has them.
func (s *spread) addLonger(tokens int, d *distribution) {
	s.age()
	from, longer := lengthBucket(tokens), 0.0
	for _, m := range d[from:] {
		longer += m.share
	}
	if longer < lengthShareLeast {
		s.counts[from].n += s.weight
		s.counts[from].sum += s.weight * float64(tokens)
		return
	}
	for i, m := range d[from:] {
		if m.share == 0 {
			continue
		}
		part := s.weight * m.share / longer
		s.counts[from+i].n += part
		s.counts[from+i].sum += part * max(m.sum/m.share, float64(tokens))
	}
}

// lengthShareLeast is the share of all answers beyond a length below which nothing is told about those there.
const lengthShareLeast = 1e-6

// age makes the next answer weigh more than those before it, and counts it.
func (s *spread) age() {
	s.weight = max(1, s.weight*(1+1/spreadMemory))
	if s.weight > lengthScaleMax {
		for i := range s.counts {
			s.counts[i].n /= s.weight
			s.counts[i].sum /= s.weight
		}
		s.n /= s.weight
		s.weight = 1
	}
	s.n += s.weight
}

// spreadShrink is how many answers it takes until half of a distribution is a tenant's, a shape's or a model's own. With as many as a mean
// takes, what narrow distributions borrow would for good be more than a tenth above their longest answers.
const spreadShrink = 8.0

// spreadMemory is how many answers a distribution remembers: more than a mean, since its tail has few of them.
const spreadMemory = 1000.0

// into shrinks s to the distribution that mix is, with weight n/(n+spreadShrink), n in answers as heavy as the latest.
func (s *spread) into(mix *distribution) {
	if s.n == 0 {
		return
	}
	prior := spreadShrink * s.weight
	scale := 1 / (s.n + prior)
	for i := range mix {
		m := &mix[i]
		m.share = (s.counts[i].n + prior*m.share) * scale
		m.sum = (s.counts[i].sum + prior*m.sum) * scale
	}
}

func lengthBucket(tokens int) int {
	if tokens < lengthExact {
		return max(tokens, 0)
	}
	octave := bits.Len(uint(tokens)) - 1
	part := tokens >> (octave - lengthPartBits) & (lengthParts - 1)
	return min(lengthExact+(octave-lengthPartBits-1)*lengthParts+part, lengthBuckets-1)
}

// lengthFrom is the least length in a bucket.
func lengthFrom(bucket int) float64 {
	if bucket < lengthExact {
		return float64(bucket)
	}
	octave, part := (bucket-lengthExact)/lengthParts+lengthPartBits+1, (bucket-lengthExact)%lengthParts
	return float64(int(lengthParts+part) << (octave - lengthPartBits))
}

// lengthUpTo is the greatest length in a bucket.
func lengthUpTo(bucket int) float64 { return lengthFrom(bucket+1) - 1 }

// distribution is the probability of each bucket, and that times the mean length in it.
type distribution [lengthBuckets]struct{ share, sum float64 }

// lengthPrior is what answers are like before any was seen: lognormal, as published chat traces are, with mean outputStartTokens.
var lengthPrior = lognormal(outputStartTokens, 1)

func lognormal(mean, sigma float64) (d distribution) {
	mu := math.Log(mean) - sigma*sigma/2
	below := func(v float64) float64 { return 0.5 * math.Erfc(-(math.Log(v)-mu)/(sigma*math.Sqrt2)) }
	last := 0.0
	for i := range d {
		upTo := 1.0
		if i+1 < len(d) {
			upTo = below(lengthFrom(i + 1))
		}
		d[i].share, last = upTo-last, upTo
		d[i].sum = d[i].share * (lengthFrom(i) + lengthUpTo(i)) / 2
	}
	d[1].share += d[0].share // no answer has no tokens
	d[1].sum = d[1].share
	d[0].share = 0
	return d
}

// lengths reads a distribution, answers cut at maxTokens (0: not).
func (d *distribution) lengths(maxTokens, answers int) Lengths {
	cut := math.MaxFloat64
	if maxTokens > 0 {
		cut = float64(maxTokens)
	}
	l := Lengths{P50: min(d.quantile(0.5), cut), P90: min(d.quantile(0.9), cut)}
	for _, m := range d {
		l.Mean += min(m.share*cut, m.sum)
	}
	l.Mean = max(l.Mean, 1)
	l.Longest = l.Mean
	if answers > 1 {
		// The longest of n is on the mean about where n parts of n+1 lie below.
		l.Longest = max(l.Mean, min(d.quantile(float64(answers)/float64(answers+1)), cut))
	}
	return l
}

// lengthGrain is the part of a token to which quantiles are told: answers that are all of one length must not seem longer than that by a
// rounding error.
const lengthGrain = 1 << 10

// quantile is the length that a share of p of the answers does not exceed, at least 1. Those of a bucket are taken to lie evenly around
// their mean, as far as the bucket has room to both sides.
func (d *distribution) quantile(p float64) float64 {
	left := p
	for i, m := range d {
		if left -= m.share; left > 0 {
			continue
		}
		mean := m.sum / m.share
		around := max(0, min(mean-lengthFrom(i), lengthUpTo(i)-mean))
		return max(1, math.Round((mean+around*(1+2*left/m.share))*lengthGrain)/lengthGrain)
	}
	return lengthUpTo(lengthBuckets - 1)
}
