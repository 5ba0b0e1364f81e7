package cost

import (
	"math"
	"slices"
)

const (
	// speedVotes is how many of the last observations decide a speed; their median changes its mind after half of them.
	speedVotes = 31
	// speedErrors is how many standard errors a worker's speed must lie off its class's to be believed. Equal workers then stay equal:
	// otherwise each would differ by its luck, and the luckiest would draw the traffic.
	speedErrors = 3
	// speedLeast is how many observations of its own it takes until a worker is told from its class at all: one stall of this machine, as
	// the only thing ever seen of a worker, would keep all traffic from it, and with that every chance to be seen again.
	speedLeast = 3
	// speedSame is the least difference that is believed at all, in log: 10 %.
	speedSame = 0.1
	// deviationFirst is the deviation, in log, assumed before any worker of the class has enough observations to tell; one that has
	// fewer than its siblings is held against theirs, which is widened by deviationWider because its own sizes may be others.
	deviationFirst, deviationFrom, deviationWider = 0.5, 10, 1.5
	// borrowWeight is how many observations of its own it takes until half of what a phase is held against is the class's again, and
	// no longer what the worker's other phase tells.
	borrowWeight = 8.0
	// deviationMin keeps the clip of the shape from closing on a worker whose times hardly vary.
	deviationMin = 0.1

	// shapeShrink is how many observations it takes until half of the shape is the class's own: weight n/(n+50).
	shapeShrink = 50.0
	// shapeShareMin is the least share of a time at which a constant is learned that fast: below it, noise outweighs it.
	shapeShareMin = 0.05
	// shapeForget is what remains of an observation after each later one: the shape remembers some 2,000.
	shapeForget = 0.9995
	// shapeMax bounds how far one constant may lie from the common speed factor, either way.
	shapeMax = 8.0
	// shapeClip is how many deviations off an observation may be until it counts as if it were no further off.
	shapeClip = 3.0
)

// speed is how many times as long as its class's prior one worker takes, as a logarithm: a weighted median of the last log ratios, so
// that it is there after a few observations and does not follow outliers.
type speed struct {
	n     int
	votes [speedVotes]vote // a ring of the last observations

	own       float64 // by its own observations alone
	deviation float64 // of one observation from own
	log       float64 // what is believed, own and class together
}

// vote is one observation: the logarithm of its time over the prior's, and what it weighs.
type vote struct{ log, weight float64 }

// add takes an observed time against the prior's for the same work. weight in (0, 1] says how much that time tells about work that
// depends on its size.
func (s *speed) add(seconds, priorSeconds, weight float64) {
	s.votes[s.n%speedVotes] = vote{math.Log(seconds / priorSeconds), min(max(weight, 0.05), 1)}
	s.n++
	var held [speedVotes]vote
	vs := append(held[:0], s.votes[:min(s.n, speedVotes)]...)
	s.own = median(vs)
	if s.n < deviationFrom {
		s.deviation = deviationFirst
		return
	}
	for i := range vs {
		vs[i] = vote{math.Abs(s.votes[i].log - s.own), s.votes[i].weight}
	}
	s.deviation = max(1.48*median(vs), deviationMin) // 1.48 mean absolute deviations are one standard deviation
}

// tells is what a worker's deviation weighs in its class's.
func (s *speed) tells() float64 {
	if s.n < deviationFrom {
		return 0
	}
	return float64(min(s.n, speedVotes))
}

// lean returns what is believed: what the worker is held against, nothing of a difference within chance, and all of one of twice that
// (firm thresholding, Gao and Bruce 1997; soft thresholding was rejected: it takes chance off every difference for good, and a worker
// three times as slow as its siblings stayed one of 2.5 times). siblings is the deviation that the class has, 0 when none is known; missed
// is how many observations each sibling made since the worker's last: what was seen long ago widens what may be chance, so that a worker
// that once looked slow, and is avoided for it, is looked at again.
func (s *speed) lean(against, siblings, missed float64) float64 {
	if s.n < speedLeast {
		return against
	}
	deviation := s.deviation
	if s.n < deviationFrom && siblings > 0 {
		deviation = min(deviationWider*siblings, deviationFirst)
	}
	held := float64(min(s.n, speedVotes)) / (1 + missed/classVoteMax)
	chance := max(speedErrors*deviation/math.Sqrt(held), speedSame)
	off := s.own - against
	beyond := max(0, math.Abs(off)-chance)
	return against + math.Copysign(min(2*beyond, math.Abs(off)), off)
}

// borrow moves what one phase is held against towards what the worker's other phase tells, the more the fewer observations it has
// itself: an engine that decodes slowly also prefills slowly, and a busy one may never be seen to prefill alone. other is how far the
// other phase lies off its class's for certain; its own apart from that keeps what is held against, so that equal workers stay equal.
func (s *speed) borrow(class, other, told float64) float64 {
	if other == 0 {
		return class
	}
	return class + borrowWeight/(borrowWeight+float64(s.n))*(told-class)
}

// shape learns which of three constants a class's time is made of: seconds = speed * sum_j(ratio_j * prior_j * x_j). It is a recursive
// least squares of relative errors with a ridge at 1, in which an outlier is clipped, over all workers of the class, each held against
// its own speed: a worker that slows down changes no shape. A plain least squares of all constants was rejected: one bad time in the
// first ten moves it by factors, and requests alike make it singular.
type shape struct {
	prior  [3]float64
	ratio  [3]float64
	gram   [3][3]float64 // sum of x*x', x the share of each regressor in the prediction
	moment [3]float64    // sum of x*z, z the observed time in units of the prediction
	mass   float64       // how many observations the sums stand for
}

func newShape(prior [3]float64) shape { return shape{prior: prior, ratio: [3]float64{1, 1, 1}} }

// bend takes an observation of a worker of speed s: x are the three regressors, predicted the seconds expected for them.
func (f *shape) bend(x [3]float64, seconds, predicted float64, s *speed) {
	reach := math.Exp(shapeClip * s.deviation)
	z := min(max(seconds/predicted, 1/reach), reach)
	factor := math.Exp(s.log)
	for j := range x {
		x[j] *= f.prior[j] * factor / predicted
	}
	f.mass = f.mass*shapeForget + 1
	for i := range x {
		for j := range x {
			f.gram[i][j] = f.gram[i][j]*shapeForget + x[i]*x[j]
		}
		f.moment[i] = f.moment[i]*shapeForget + x[i]*z
	}
	system, right := f.gram, f.moment
	for i := range x {
		// In proportion to the constant's mean squared share, so that each has its weight n/(n+50): with one ridge for all, a constant
		// that makes a tenth of a usual time, and all of a long document's, would take thousands.
		ridge := shapeShrink * max(f.gram[i][i]/f.mass, shapeShareMin*shapeShareMin)
		system[i][i] += ridge
		right[i] += ridge
	}
	f.ratio = solve(system, right)
	for j := range f.ratio {
		f.ratio[j] = min(max(f.ratio[j], 1/shapeMax), shapeMax)
	}
}

// constants returns the three constants of a worker of the given log speed.
func (f *shape) constants(log float64) (k [3]float64) {
	factor := math.Exp(log)
	for j := range k {
		k[j] = f.prior[j] * f.ratio[j] * factor
	}
	return k
}

// median returns the weighted median; it sorts vs. Equal weights of an even number give the mean of the middle two.
func median(vs []vote) float64 {
	slices.SortFunc(vs, func(a, b vote) int {
		switch {
		case a.log < b.log:
			return -1
		case a.log > b.log:
			return 1
		}
		return 0
	})
	var sum, passed float64
	for _, v := range vs {
		sum += v.weight
	}
	for i, v := range vs {
		passed += v.weight
		if i+1 < len(vs) && math.Abs(passed-sum/2) < 1e-9*sum {
			return (v.log + vs[i+1].log) / 2
		}
		if passed > sum/2 {
			return v.log
		}
	}
	return 0
}

// solve returns x of s*x = r by elimination; s is symmetric and, by its ridge, positive definite.
func solve(s [3][3]float64, r [3]float64) (x [3]float64) {
	for i := range 3 {
		for k := i + 1; k < 3; k++ {
			m := s[k][i] / s[i][i]
			for j := i; j < 3; j++ {
				s[k][j] -= m * s[i][j]
			}
			r[k] -= m * r[i]
		}
	}
	for i := 2; i >= 0; i-- {
		x[i] = r[i]
		for j := i + 1; j < 3; j++ {
			x[i] -= s[i][j] * x[j]
		}
		x[i] /= s[i][i]
	}
	return x
}
