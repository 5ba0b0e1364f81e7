// Package sketch keeps any number of times in little memory.
//
//	var d sketch.Distribution
//	d.Add(0.35)
//	fmt.Println(d.Mean(), d.Quantile(0.99))
package sketch

import "math"

// A Distribution keeps times in logarithmic buckets: any number of them in little memory, quantiles within half a percent of the value
// (the idea of DDSketch, Masson et al. 2019). The zero value is empty.
type Distribution struct {
	counts []uint32 // by bucket, from low on
	low    int
	n      int
	sum    float64
	most   float64
	zeros  int // not above secondsLeast
}

const (
	secondsLeast = 1e-6
	bucketGrowth = 1.01
)

var bucketLog = math.Log(bucketGrowth)

// Add takes in one time in seconds.
func (d *Distribution) Add(seconds float64) { d.AddN(seconds, 1) }

// AddN takes in the same time so many times.
func (d *Distribution) AddN(seconds float64, n int) {
	d.n += n
	d.sum += seconds * float64(n)
	d.most = max(d.most, seconds)
	if !(seconds > secondsLeast) {
		d.zeros += n
		return
	}
	i := int(math.Ceil(math.Log(seconds/secondsLeast) / bucketLog))
	switch {
	case len(d.counts) == 0:
		d.low = i
		d.counts = append(d.counts, 0)
	case i < d.low:
		d.counts = append(make([]uint32, d.low-i, d.low-i+len(d.counts)), d.counts...)
		d.low = i
	}
	for i-d.low >= len(d.counts) {
		d.counts = append(d.counts, 0)
	}
	d.counts[i-d.low] += uint32(n)
}

// Count is how many there are.
func (d *Distribution) Count() int { return d.n }

// Mean is their mean in seconds, 0 of none.
func (d *Distribution) Mean() float64 {
	if d.n == 0 {
		return 0
	}
	return d.sum / float64(d.n)
}

// Quantile is the time that a share q of them do not exceed.
func (d *Distribution) Quantile(q float64) float64 {
	if d.n == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(d.n)))
	seen := d.zeros
	if rank <= seen {
		return 0
	}
	for i, c := range d.counts {
		if seen += int(c); seen >= rank {
			return min(d.most, secondsLeast*math.Exp((float64(i+d.low)-0.5)*bucketLog))
		}
	}
	return d.most
}

// Merge adds all of another.
func (d *Distribution) Merge(o *Distribution) {
	for i, c := range o.counts {
		if c == 0 {
			continue
		}
		n, sum, most := d.n, d.sum, d.most
		d.Add(secondsLeast * math.Exp((float64(i+o.low)-0.5)*bucketLog))
		d.n, d.sum, d.most = n, sum, most
		at := int(i) + o.low - d.low
		d.counts[at] += c - 1
	}
	d.n += o.n
	d.sum += o.sum
	d.most = max(d.most, o.most)
	d.zeros += o.zeros
}
