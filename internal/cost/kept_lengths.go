package cost

import (
	"cmp"
	"fmt"
	"slices"
)

// KeptLengths is how long answers were.
type KeptLengths struct {
	N      float64      `json:"n"`
	Mean   float64      `json:"mean"`
	Counts [][3]float64 `json:"counts,omitempty"` // bucket, answers in it, and the sum of their tokens; those that are not empty
	Heavy  float64      `json:"heavy"`            // of all answers, in the weight of each
	Latest float64      `json:"latest"`           // the weight of the latest
}

// KeptOutput is that of one model, tenant and shape of request.
type KeptOutput struct {
	Model  string      `json:"model"`
	Tenant string      `json:"tenant,omitempty"`
	Whole  bool        `json:"whole,omitempty"`
	Shape  uint16      `json:"shape,omitempty"`
	Is     KeptLengths `json:"is"`
}

// KeptText is how many bytes were how many tokens.
type KeptText struct {
	Bytes  float64 `json:"bytes"`
	Tokens float64 `json:"tokens"`
}

// KeptRatio is that of one model.
type KeptRatio struct {
	Model string   `json:"model"`
	Is    KeptText `json:"is"`
}

// KeptOutputsMax bounds the models, tenants and shapes whose lengths are kept, the latest first. Each takes a few microseconds to
// write down, while nothing is placed.
const KeptOutputsMax = 512

// Keep writes down all that was learned, in an order of its own that is the same for the same knowledge.
func Keep(b *Book, o *Outputs, r *Ratio) *Kept {
	k := &Kept{All: keepLengths(&o.all, &o.spread), AllText: KeptText{r.all.bytes, r.all.tokens}}
	b.keep(k)
	slices.SortFunc(k.Classes, func(a, b KeptClass) int {
		return cmp.Or(cmp.Compare(a.Engine, b.Engine), cmp.Compare(a.Model, b.Model))
	})
	for e := o.order.Front(); e != nil && len(k.Lengths) < KeptOutputsMax; e = e.Next() {
		in := e.Value.(*outputEntry)
		k.Lengths = append(k.Lengths, KeptOutput{in.key.model, in.key.tenant, in.key.whole, in.key.shape, keepLengths(&in.mean, &in.spread)})
	}
	for model, m := range r.models {
		k.Ratios = append(k.Ratios, KeptRatio{model, KeptText{m.bytes, m.tokens}})
	}
	slices.SortFunc(k.Ratios, func(a, b KeptRatio) int { return cmp.Compare(a.Model, b.Model) })
	return k
}

// Recall takes back what Keep wrote, into empty rooms: all of it or, with an error that says what cannot be, none.
func (k *Kept) Recall(b *Book, o *Outputs, r *Ratio) error {
	if err := k.fitTimes(); err != nil {
		return err
	}
	if err := k.fitLengths(); err != nil {
		return err
	}
	b.recall(k)
	k.All.recall(&o.all, &o.spread)
	for _, in := range slices.Backward(k.Lengths[:min(len(k.Lengths), o.max)]) {
		e := o.entry(outputKey{in.Model, in.Tenant, in.Whole, in.Shape})
		in.Is.recall(&e.mean, &e.spread)
	}
	r.all = ratio{k.AllText.Bytes, k.AllText.Tokens}
	for _, in := range k.Ratios[:min(len(k.Ratios), ratioModelsMax)] {
		r.models[in.Model] = &ratio{in.Is.Bytes, in.Is.Tokens}
	}
	return nil
}

func keepLengths(m *mean, s *spread) KeptLengths {
	k := KeptLengths{N: m.n, Mean: m.value, Heavy: s.n, Latest: s.weight}
	for i, c := range s.counts {
		if c.n > 0 {
			k.Counts = append(k.Counts, [3]float64{float64(i), c.n, c.sum})
		}
	}
	return k
}

func (k *KeptLengths) recall(m *mean, s *spread) {
	*m, *s = mean{k.N, k.Mean}, spread{n: k.Heavy, weight: k.Latest}
	for _, c := range k.Counts {
		s.counts[int(c[0])].n, s.counts[int(c[0])].sum = c[1], c[2]
	}
}

// fitLengths says what of lengths and of texts cannot be; nil: all can.
func (k *Kept) fitLengths() error {
	if !k.All.fits() {
		return fmt.Errorf("the lengths of all answers cannot be")
	}
	for i := range k.Lengths {
		if in := &k.Lengths[i]; !in.Is.fits() {
			return fmt.Errorf("the lengths of answers of %q cannot be", in.Model)
		}
	}
	if !k.AllText.fits() {
		return fmt.Errorf("the bytes a token of all prompts cannot be")
	}
	for _, in := range k.Ratios {
		if !in.Is.fits() {
			return fmt.Errorf("the bytes a token of %q cannot be: %v bytes, %v tokens", in.Model, in.Is.Bytes, in.Is.Tokens)
		}
	}
	return nil
}

func (k *KeptLengths) fits() bool {
	if !(k.N >= 0 && k.N <= outputMemory) || !(k.Mean >= 0 && k.Mean <= sizeMax) || k.N > 0 && !(k.Mean > 0) {
		return false
	}
	const heavyMax = 4 * lengthScaleMax * spreadMemory
	if !(k.Heavy >= 0 && k.Heavy <= heavyMax) || !(k.Latest >= 0 && k.Latest <= 2*lengthScaleMax) || k.Heavy > 0 && !(k.Latest > 0) {
		return false
	}
	for _, c := range k.Counts {
		if !(c[0] >= 0 && c[0] < lengthBuckets) || !(c[1] > 0 && c[1] <= heavyMax) || !(c[2] > 0 && c[2] <= heavyMax*sizeMax) {
			return false
		}
	}
	return true
}

func (k *KeptText) fits() bool {
	if k.Bytes == 0 && k.Tokens == 0 {
		return true
	}
	return k.Tokens > 0 && k.Tokens <= 2*ratioMemoryTokens && k.Bytes >= k.Tokens*bytesPerTokenMin*0.999 && k.Bytes <= k.Tokens*bytesPerTokenMax*1.001
}
