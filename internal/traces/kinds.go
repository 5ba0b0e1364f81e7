package traces

import (
	"fmt"
	"math"

	"github.com/warmpath/warmpath/internal/cost"
)

// Kind is a profile of some workers of a log that are alike, named fitted-1, fitted-2 and so on.
type Kind struct {
	Profile cost.Profile
	Workers []string
}

const (
	// kindEvidence is how many prefills on its own, and how many token gaps, a worker must show to be told from the others.
	kindEvidence = 20
	// kindTimes is by which factor two workers' prefills or steps differ that are of two kinds.
	kindTimes = 1.5
)

// shown is a worker of a log with what was learned of it.
type shown struct {
	name            string
	prefills, steps int
	model           *cost.Model
}

// kinds tells unlike workers of a log apart. Those that show too little count as of the first kind, which is the one that shows most.
func (f *Fitted) kinds(all []shown) {
	f.Profile = cost.Profiles["h100-8b"]
	f.Profile.Name = "fitted"
	most := 0
	for i := range all {
		if w, best := &all[i], &all[most]; w.prefills+w.steps > best.prefills+best.steps {
			most = i
		}
	}
	if len(all) == 0 {
		return
	}
	f.Profile.Constants = all[most].model.Constants()
	f.Kinds = []Kind{{Profile: f.Profile}}
	for i := range all {
		w, of := &all[i], 0
		if w.prefills >= kindEvidence && w.steps >= kindEvidence {
			k := w.model.Constants()
			for of < len(f.Kinds) && !alike(k, f.Kinds[of].Profile.Constants) {
				of++
			}
			if of == len(f.Kinds) {
				own := f.Profile
				own.Constants = k
				f.Kinds = append(f.Kinds, Kind{Profile: own})
			}
		}
		f.Kinds[of].Workers = append(f.Kinds[of].Workers, w.name)
	}
	for i := range f.Kinds {
		if len(f.Kinds) > 1 {
			f.Kinds[i].Profile.Name = fmt.Sprintf("fitted-%d", i+1)
		}
	}
}

// alike compares a prefill of 1,000 tokens, and a step of eight answers in contexts of as many.
func alike(a, b cost.Constants) bool {
	step := func(k cost.Constants) float64 { return k.D0 + 8*k.D1 + 8000*k.D2 }
	return math.Abs(math.Log(a.Prefill(1000, 0)/b.Prefill(1000, 0))) < math.Log(kindTimes) && math.Abs(math.Log(step(a)/step(b))) < math.Log(kindTimes)
}
