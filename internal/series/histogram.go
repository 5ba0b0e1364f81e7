package series

import (
	"encoding/binary"
	"math"
)

// A histogram counts times in buckets of which 32 go to each doubling: a time is told from one 1.6 % longer or shorter, whatever it is, and
// two histograms merge exactly. The bucket of a time is read off its bits, so that a token's gap costs a nanosecond and no logarithm.
type histogram struct {
	counts [buckets]uint32
	n      uint64
	sum    float64 // seconds
}

const (
	subBits   = 5                                       // 32 buckets a doubling
	leastBits = (127 - 17) << subBits                   // of 2^-17 s, 7.6 microseconds, in a float32: what is less counts as this
	buckets   = (127+12)<<subBits - leastBits           // up to 2^12 s, 68 minutes: what is more counts as this
	dropped   = 23 - subBits                            // bits of a float32's fraction that make no difference
	packedMax = buckets * (1 + binary.MaxVarintLen32/2) // room that packing rarely outgrows
)

// bucketOf is the bucket of a time in seconds.
func bucketOf(seconds float32) int {
	return min(max(int(math.Float32bits(max(seconds, 0))>>dropped)-leastBits, 0), buckets-1)
}

// middle is the time in the middle of a bucket, in seconds.
func middle(bucket int) float64 {
	low := math.Float32frombits(uint32(bucket+leastBits) << dropped)
	high := math.Float32frombits(uint32(bucket+leastBits+1) << dropped)
	return (float64(low) + float64(high)) / 2
}

func (h *histogram) add(seconds float32) {
	h.counts[bucketOf(seconds)]++
	h.n++
	h.sum += float64(max(seconds, 0))
}

func (h *histogram) merge(o *histogram) {
	if o.n == 0 {
		return
	}
	for i, c := range o.counts {
		h.counts[i] += c
	}
	h.n, h.sum = h.n+o.n, h.sum+o.sum
}

// quantile is the time that a share q of them do not exceed, NaN of none.
func (h *histogram) quantile(q float64) float64 {
	if h.n == 0 {
		return math.NaN()
	}
	rank, seen := uint64(math.Ceil(q*float64(h.n))), uint64(0)
	for i, c := range h.counts {
		if seen += uint64(c); seen >= rank && c > 0 {
			return middle(i)
		}
	}
	return middle(buckets - 1)
}

// pack writes a histogram down in the bytes of what is in it: distances between buckets that are not empty, and their counts. nil is an empty one.
func (h *histogram) pack(room []byte) []byte {
	if h.n == 0 {
		return nil
	}
	out := binary.LittleEndian.AppendUint64(room[:0], math.Float64bits(h.sum))
	last := -1
	for i, c := range h.counts {
		if c > 0 {
			out = binary.AppendUvarint(out, uint64(i-last))
			out = binary.AppendUvarint(out, uint64(c))
			last = i
		}
	}
	return append([]byte(nil), out...)
}

// unpack adds what was packed.
func (h *histogram) unpack(packed []byte) {
	if len(packed) == 0 {
		return
	}
	h.sum += math.Float64frombits(binary.LittleEndian.Uint64(packed))
	packed = packed[8:]
	for at := -1; len(packed) > 0; {
		step, n := binary.Uvarint(packed)
		count, m := binary.Uvarint(packed[n:])
		packed = packed[n+m:]
		at += int(step)
		h.counts[at] += uint32(count)
		h.n += count
	}
}
