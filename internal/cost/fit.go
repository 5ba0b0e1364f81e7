package cost

import (
	"math"
	"slices"
)

const (
	// fitVotes is how many of the last observations decide the speed; their median changes its mind after half of them.
	fitVotes = 31
	// fitClass is how many observations of its own outweigh a worker's class: its log speed is its own with weight n/(n+8). Without it
	// equal workers look unequal after one lucky observation each, and the luckiest draws the traffic.
	fitClass = 8.0
	// fitShrink is how many observations it takes until half of the shape is a worker's own: weight n/(n+50).
	fitShrink = 50.0
	// fitShareMin is the least share of a time at which a constant is learned that fast: below it, noise outweighs it.
	fitShareMin = 0.05
	// fitForget is what remains of an observation after each later one: the shape remembers some 2,000.
	fitForget = 0.9995
	// fitShapeMax bounds how far one constant may lie from the common speed factor, either way.
	fitShapeMax = 8.0
	// fitClip is how many deviations off an observation may be until it counts as if it were no further off.
	fitClip = 3.0
	// fitDeviationMin keeps the clip from closing on a worker whose times hardly vary.
	fitDeviationMin = 0.1
)

// fit learns seconds = speed * sum_j(shape_j * prior_j * x_j) for three regressors. The speed is a weighted median of
// the last log ratios to the prior, so it is there after a few observations and does not follow outliers; the shape is
// a recursive least squares of relative errors with a ridge at 1, in which an outlier is clipped. The speed is divided
// out before the shape sees an observation: a worker that slows down keeps its shape. A plain least squares of all
// constants was rejected: one bad time in the first ten moves it by factors, and requests alike make it singular.
type fit struct {
	prior [3]float64
	n     int
	votes [fitVotes]vote // a ring of the last observations

	own                 float64 // log speed by its own observations alone
	logSpeed, deviation float64
	shape               [3]float64
	gram                [3][3]float64 // sum of x*x', x the share of each regressor in the prediction
	moment              [3]float64    // sum of x*z, z the observed time in units of the prediction
	mass                float64       // how many observations the sums stand for
}

// vote is one observation: the logarithm of its time over the prior's, and what it weighs.
type vote struct{ log, weight float64 }

func newFit(prior [3]float64) fit {
	return fit{prior: prior, shape: [3]float64{1, 1, 1}, deviation: 0.5}
}

// vote takes an observed time against the prior's for the same work. weight in (0, 1] says how much that time
// tells about work that depends on its size.
func (f *fit) vote(seconds, priorSeconds, weight float64) {
	f.votes[f.n%fitVotes] = vote{math.Log(seconds / priorSeconds), min(max(weight, 0.05), 1)}
	f.n++
	var held [fitVotes]vote
	vs := append(held[:0], f.votes[:min(f.n, fitVotes)]...)
	f.own = median(vs)
	if f.n < 4 {
		return
	}
	for i := range vs {
		vs[i] = vote{math.Abs(f.votes[i].log - f.own), f.votes[i].weight}
	}
	f.deviation = max(1.48*median(vs), fitDeviationMin) // 1.48 mean absolute deviations are one standard deviation
}

// lean sets the speed: the worker's own as far as it has shown one, for the rest its class's.
func (f *fit) lean(class float64) {
	f.logSpeed = (float64(f.n)*f.own + fitClass*class) / (float64(f.n) + fitClass)
}

// bend takes the same observation for the shape: x are the three regressors, predicted the seconds expected for them
// by the constants as learned so far.
func (f *fit) bend(x [3]float64, seconds, predicted float64) {
	reach := math.Exp(fitClip * f.deviation)
	z := min(max(seconds/predicted, 1/reach), reach)
	speed := math.Exp(f.logSpeed)
	for j := range x {
		x[j] *= f.prior[j] * speed / predicted
	}
	f.mass = f.mass*fitForget + 1
	for i := range x {
		for j := range x {
			f.gram[i][j] = f.gram[i][j]*fitForget + x[i]*x[j]
		}
		f.moment[i] = f.moment[i]*fitForget + x[i]*z
	}
	system, right := f.gram, f.moment
	for i := range x {
		// In proportion to the constant's mean squared share, so that each has its weight n/(n+50): with one ridge for
		// all, a constant that makes a tenth of a usual time, and all of a long document's, would take thousands.
		ridge := fitShrink * max(f.gram[i][i]/f.mass, fitShareMin*fitShareMin)
		system[i][i] += ridge
		right[i] += ridge
	}
	f.shape = solve(system, right)
	for j := range f.shape {
		f.shape[j] = min(max(f.shape[j], 1/fitShapeMax), fitShapeMax)
	}
}

// constants returns the three learned constants.
func (f *fit) constants() (k [3]float64) {
	speed := math.Exp(f.logSpeed)
	for j := range k {
		k[j] = f.prior[j] * f.shape[j] * speed
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
