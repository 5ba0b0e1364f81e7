package cost

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/warmpath/warmpath/internal/fleet"
)

// Kept is what was learned, in a form that outlives the process: times of workers, lengths of answers, bytes a token. It holds no prompt.
// Times are logarithms of seconds over those of the class's prior, lengths are tokens.
type Kept struct {
	Classes []KeptClass  `json:"classes,omitempty"`
	Workers []KeptWorker `json:"workers,omitempty"`
	All     KeptLengths  `json:"all"` // of all answers
	Lengths []KeptOutput `json:"lengths,omitempty"`
	Ratios  []KeptRatio  `json:"ratios,omitempty"`
	AllText KeptText     `json:"all_text"` // of all prompts
}

// KeptClass is what engines of one kind that run one model have in common.
type KeptClass struct {
	Engine  string            `json:"engine"`
	Model   string            `json:"model"`
	Prior   Constants         `json:"prior"` // against which all of it was measured
	Prefill KeptShape         `json:"prefill"`
	Step    KeptShape         `json:"step"`
	Speeds  [5]float64        `json:"speeds"` // logPrefill, logStep, lead, offPrefill, offStep
	Clean   bool              `json:"clean"`
	Roughs  int               `json:"roughs"`
	Rough   [roughMax]float64 `json:"rough"`
	Seen    int               `json:"seen"` // observations of all members
}

// KeptShape is a shape without its prior.
type KeptShape struct {
	Ratio  [3]float64    `json:"ratio"`
	Gram   [3][3]float64 `json:"gram"`
	Moment [3]float64    `json:"moment"`
	Mass   float64       `json:"mass"`
}

// KeptWorker is a worker's own speed in its class, by its id and its address.
type KeptWorker struct {
	ID      string    `json:"id"`
	URL     string    `json:"url"`
	Engine  string    `json:"engine"`
	Model   string    `json:"model"`
	Prefill KeptSpeed `json:"prefill"`
	Step    KeptSpeed `json:"step"`
	Seen    int       `json:"seen"` // the class's observations at its last
}

// KeptSpeed is a speed: its votes as log and weight, the ring as it is.
type KeptSpeed struct {
	N         int          `json:"n"`
	Votes     [][2]float64 `json:"votes,omitempty"`
	Own       float64      `json:"own"`
	Deviation float64      `json:"deviation"`
}

// keptWorkersMax bounds the workers whose speeds are kept.
const keptWorkersMax = 1024

// keptLogMax bounds a logarithm of times: beyond it no engine is so far from another.
const keptLogMax = 40.0

// keep writes down what the book has learned. A worker of which nothing was seen is left out.
func (b *Book) keep(k *Kept) {
	keys := map[*class]classKey{}
	for key, c := range b.classes {
		if c.observed == 0 && c.roughs == 0 {
			continue
		}
		keys[c] = key
		k.Classes = append(k.Classes, KeptClass{Engine: key.engine, Model: key.model, Prior: c.prior, Prefill: c.prefill.keep(), Step: c.step.keep(),
			Speeds: [5]float64{c.logPrefill, c.logStep, c.lead, c.offPrefill, c.offStep}, Clean: c.clean, Roughs: c.roughs, Rough: c.rough, Seen: c.observed})
	}
	for _, p := range b.pages {
		if p.model == nil || p.model.prefill.n+p.model.step.n == 0 {
			continue
		}
		key := keys[p.model.class]
		k.Workers = append(k.Workers, KeptWorker{ID: p.worker.ID, URL: p.worker.URL, Engine: key.engine, Model: key.model,
			Prefill: p.model.prefill.keep(), Step: p.model.step.keep(), Seen: p.model.observed})
	}
	for id, w := range b.kept { // of those that have not said yet what they are
		if !slices.ContainsFunc(k.Workers, func(o KeptWorker) bool { return o.ID == id }) {
			k.Workers = append(k.Workers, w)
		}
	}
	slices.SortFunc(k.Workers, func(a, b KeptWorker) int { return cmp.Or(cmp.Compare(b.Seen, a.Seen), cmp.Compare(a.ID, b.ID)) })
	k.Workers = k.Workers[:min(len(k.Workers), keptWorkersMax)]
}

func (f *shape) keep() KeptShape { return KeptShape{f.ratio, f.gram, f.moment, f.mass} }

func (s *speed) keep() KeptSpeed {
	k := KeptSpeed{N: s.n, Own: s.own, Deviation: s.deviation}
	for _, v := range s.votes[:min(s.n, speedVotes)] {
		k.Votes = append(k.Votes, [2]float64{v.log, v.weight})
	}
	return k
}

// recall takes back what keep wrote, into an empty book. Classes that are measured against another prior by now are left out, and their
// workers with them.
func (b *Book) recall(k *Kept) {
	if b.opts.Fixed {
		return
	}
	for i := range k.Classes {
		in := &k.Classes[i]
		key := classKey{in.Engine, in.Model}
		prior, ok := b.opts.Engines[key.engine]
		if !ok {
			prior = b.opts.Prior
		}
		if in.Prior != prior || len(b.classes) >= classesMax {
			continue
		}
		c := newClass(prior)
		c.prefill.recall(in.Prefill)
		c.step.recall(in.Step)
		c.logPrefill, c.logStep, c.lead, c.offPrefill, c.offStep = in.Speeds[0], in.Speeds[1], in.Speeds[2], in.Speeds[3], in.Speeds[4]
		c.clean, c.roughs, c.rough, c.observed = in.Clean, in.Roughs, in.Rough, in.Seen
		b.classes[key] = c
	}
	b.kept = make(map[string]KeptWorker, len(k.Workers))
	for _, w := range k.Workers {
		if b.classes[classKey{w.Engine, w.Model}] != nil {
			b.kept[w.ID] = w
		}
	}
}

func (f *shape) recall(k KeptShape) {
	f.ratio, f.gram, f.moment, f.mass = k.Ratio, k.Gram, k.Moment, k.Mass
}

func (s *speed) recall(k KeptSpeed) {
	s.n, s.own, s.deviation = k.N, k.Own, k.Deviation
	for i, v := range k.Votes {
		s.votes[i] = vote{v[0], v[1]}
	}
}

// keptOf is what was kept of a worker, and whether it may be believed: the id and the address are the same, and so is the class, or the
// class is not known yet.
func (b *Book) keptOf(w *fleet.Worker, key classKey) (KeptWorker, bool) {
	k, ok := b.kept[w.ID]
	if !ok || k.URL != w.URL {
		return k, false
	}
	if key.engine == "" {
		return k, key.model == "" || key.model == k.Model
	}
	return k, key == classKey{k.Engine, k.Model}
}

// fitTimes says what of the times cannot be; nil: all can.
func (k *Kept) fitTimes() error {
	for i := range k.Classes {
		c := &k.Classes[i]
		numbers := append(append(c.Speeds[:], c.Rough[:]...), c.Prefill.Mass, c.Step.Mass)
		for _, s := range [...]*KeptShape{&c.Prefill, &c.Step} {
			for j := range s.Ratio {
				numbers = append(numbers, s.Moment[j], s.Gram[j][0], s.Gram[j][1], s.Gram[j][2])
				if !(s.Ratio[j] >= 1/shapeMax && s.Ratio[j] <= shapeMax) {
					return fmt.Errorf("the times of %q on %q: a ratio of %v", c.Model, c.Engine, s.Ratio[j])
				}
			}
		}
		for j, v := range numbers {
			if most := map[bool]float64{true: keptLogMax, false: sizeMax}[j < len(c.Speeds)+len(c.Rough)]; !(math.Abs(v) <= most) {
				return fmt.Errorf("the times of %q on %q: a value of %v", c.Model, c.Engine, v)
			}
		}
		if c.Roughs < 0 || c.Seen < 0 {
			return fmt.Errorf("the times of %q on %q: fewer than no observations", c.Model, c.Engine)
		}
	}
	for i := range k.Workers {
		w := &k.Workers[i]
		if !w.Prefill.fits() || !w.Step.fits() || w.Seen < 0 {
			return fmt.Errorf("the speed of the worker %q cannot be", w.ID)
		}
	}
	return nil
}

func (k *KeptSpeed) fits() bool {
	if k.N < 0 || len(k.Votes) != min(k.N, speedVotes) || !(math.Abs(k.Own) <= keptLogMax) || !(k.Deviation >= 0 && k.Deviation <= keptLogMax) {
		return false
	}
	for _, v := range k.Votes {
		if !(math.Abs(v[0]) <= keptLogMax) || !(v[1] > 0 && v[1] <= 1) {
			return false
		}
	}
	return true
}
