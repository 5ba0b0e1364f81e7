package models

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/llmapi"
)

// anything is what a model of unknown capabilities can do.
const anything = ^llmapi.Needs(0)

// checker collects all that is wrong, so that one run shows all there is to mend.
type checker struct {
	o        *Options
	chooser  *Chooser
	priced   Prices // of Options.Prices alone
	problems []Problem
}

func (k *checker) report(key, format string, args ...any) {
	k.problems = append(k.problems, Problem{key, fmt.Sprintf(format, args...)})
}

func (k *checker) check() {
	if !number(k.o.SecondValue) {
		k.report("value_of_second", "is %v, want 0 or more", k.o.SecondValue)
	}
	if k.o.ConversationsMax < 0 {
		k.report("conversations_max", "is %d, want 0 or more", k.o.ConversationsMax)
	}
	if len(k.o.Models) > ModelsMax {
		k.report("models", "has %d models, at most %d", len(k.o.Models), ModelsMax)
		return
	}
	first := map[string]int{}
	for i, m := range k.o.Models {
		key := fmt.Sprintf("models[%d]", i)
		if at, twice := first[m.Name]; twice {
			k.report(key+".name", "%q is the name of models[%d] already", m.Name, at)
			continue
		}
		if m.Name == "" {
			k.report(key+".name", "is empty")
		}
		first[m.Name] = i
		v := &virtual{name: m.Name, id: hash(m.Name), tenants: m.Tenants, tierMin: m.TierMin}
		k.chooser.virtuals[m.Name] = v
		k.chooser.order = append(k.chooser.order, v)
	}
	k.prices()
	if len(k.problems) > 0 {
		return
	}
	for i := range k.o.Models {
		k.virtual(fmt.Sprintf("models[%d]", i), &k.o.Models[i], k.chooser.order[i])
	}
	k.circles()
}

func number(v float64) bool { return v >= 0 && !math.IsInf(v, 0) }

func (k *checker) virtual(key string, m *Virtual, v *virtual) {
	choose := m.Choose
	if choose == "" {
		choose = "cost"
	}
	v.pick, v.soft = strategies[choose], choose != "weight"
	if v.pick == nil {
		k.report(key+".choose", "unknown way %q; there are: %s", m.Choose, strings.Join(slices.Sorted(maps.Keys(strategies)), ", "))
	}
	if n := len(m.Candidates); n == 0 || n > CandidatesMax {
		k.report(key+".candidates", "has %d candidates, want 1 to %d", n, CandidatesMax)
		return
	}
	weights := 0.0
	for j := range m.Candidates {
		at := fmt.Sprintf("%s.candidates[%d]", key, j)
		c := &m.Candidates[j]
		for i, other := range v.candidates {
			if other.model == c.Model {
				k.report(at+".model", "can never be chosen: %q is candidates[%d] already", c.Model, i)
			}
		}
		if c.Weight != 0 && choose != "weight" {
			k.report(at+".weight", "has no effect without choose: weight")
		}
		weights += c.Weight
		v.candidates = append(v.candidates, k.candidate(at, c, m))
	}
	if weights == 0 {
		for j := range v.candidates {
			v.candidates[j].weight = 1
		}
	}
	for j, f := range m.Fallback {
		k.fallback(fmt.Sprintf("%s.fallback[%d]", key, j), f, v)
	}
}

func (k *checker) candidate(key string, c *Candidate, m *Virtual) node {
	n := node{virtual: k.chooser.virtuals[c.Model], model: c.Model, id: hash(c.Model), weight: c.Weight, price: c.Price,
		contextMax: c.ContextMax, tier: c.Tier, tenants: c.Tenants}
	if c.Model == "" {
		k.report(key+".model", "is empty")
	}
	if !number(c.Weight) {
		k.report(key+".weight", "is %v, want 0 or more", c.Weight)
	}
	if n.virtual != nil {
		if c.Price != (cost.Price{}) || c.ContextMax != 0 || c.Tier != 0 || c.Can != nil || c.Tenants != nil {
			k.report(key, "%q is virtual: price, context_max, can, tier and tenants are its own candidates'", c.Model)
		}
		return n
	}
	if setting, value := c.Price.Check(); setting != "" {
		k.report(key+".price."+setting, "is %v, want 0 or more", value)
	}
	if c.ContextMax < 0 {
		k.report(key+".context_max", "is %d, want 0 or more", c.ContextMax)
	}
	if c.Tier < m.TierMin {
		k.report(key+".tier", "can never be chosen: %d is below the tier_min %d of %q", c.Tier, m.TierMin, m.Name)
	}
	if m.Tenants != nil && c.Tenants != nil && !slices.ContainsFunc(c.Tenants, func(t string) bool { return slices.Contains(m.Tenants, t) }) {
		k.report(key+".tenants", "can never be chosen: none of them may ask for %q", m.Name)
	}
	if n.price == (cost.Price{}) {
		n.price = k.priced.Of(c.Model)
	}
	n.can = k.can(key+".can", c.Can)
	return n
}

func (k *checker) can(key string, names []string) llmapi.Needs {
	if names == nil {
		return anything
	}
	can := llmapi.Needs(0)
	for j, name := range names {
		need := llmapi.NeedOf(name)
		if need == 0 && name != "text" {
			k.report(fmt.Sprintf("%s[%d]", key, j), "unknown capability %q; there are: text, %s", name, strings.Join(llmapi.NeedNames(), ", "))
		}
		can |= need
	}
	return can
}

func (k *checker) fallback(key string, f Fallback, v *virtual) {
	w := way{node: node{virtual: k.chooser.virtuals[f.Model], model: f.Model, id: hash(f.Model), can: anything, price: k.priced.Of(f.Model)}}
	for _, c := range v.candidates {
		if c.model == f.Model {
			w.node = c // what is said of it there holds here
		}
	}
	w.weight = 1 // also of a candidate that gets no share otherwise
	if f.Model == "" {
		k.report(key+".model", "is empty")
	}
	for j, name := range f.On {
		class, ok := classes[name]
		if !ok {
			k.report(fmt.Sprintf("%s.on[%d]", key, j), "unknown error %q; there are: context, overloaded, down", name)
		}
		w.on |= class
	}
	if len(f.On) == 0 {
		w.on = anyClass
	}
	covered := Class(0)
	for _, before := range v.fallback {
		if before.model == f.Model {
			covered |= before.on
		}
	}
	if w.on&^covered == 0 && covered != 0 {
		k.report(key, "can never be chosen: %q stands before it for the same errors", f.Model)
	}
	v.fallback = append(v.fallback, w)
}

// models calls f for each setting that names a model.
func (k *checker) models(f func(key, model string)) {
	if k.o.Default != "" {
		f("default_model", k.o.Default)
	}
	for i, m := range k.o.Models {
		for j, c := range m.Candidates {
			f(fmt.Sprintf("models[%d].candidates[%d].model", i, j), c.Model)
		}
		for j, w := range m.Fallback {
			f(fmt.Sprintf("models[%d].fallback[%d].model", i, j), w.Model)
		}
	}
}

// circles finds virtual models that stand for themselves, by candidates or fallbacks.
func (k *checker) circles() {
	done := map[*virtual]bool{}
	for i := range k.chooser.order {
		k.follow(fmt.Sprintf("models[%d]", i), k.chooser.order[i], nil, done)
	}
}

func (k *checker) follow(key string, v *virtual, path []string, done map[*virtual]bool) {
	if at := slices.Index(path, v.name); at >= 0 {
		k.report(key, "stands for itself: %s -> %s", strings.Join(path[at:], " -> "), v.name)
		return
	}
	if done[v] {
		return
	}
	path = append(path, v.name)
	where := fmt.Sprintf("models[%d]", slices.Index(k.chooser.order, v))
	for j, n := range v.candidates {
		if n.virtual != nil {
			k.follow(fmt.Sprintf("%s.candidates[%d].model", where, j), n.virtual, path, done)
		}
	}
	for j, w := range v.fallback {
		if w.virtual != nil {
			k.follow(fmt.Sprintf("%s.fallback[%d].model", where, j), w.virtual, path, done)
		}
	}
	done[v] = true
}
