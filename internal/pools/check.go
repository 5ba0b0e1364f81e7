package pools

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/spelling"
)

// checker collects all that is wrong, so that one run shows all there is to mend.
type checker struct {
	o        *Options
	index    map[string]int // of pools, by name
	problems []Problem
}

func (c *checker) report(key, format string, args ...any) {
	c.problems = append(c.problems, Problem{key, fmt.Sprintf(format, args...)})
}

// pool looks a name up; -1 when there is none.
func (c *checker) pool(key, name string) int {
	i, ok := c.index[name]
	if !ok {
		names := make([]string, len(c.o.Pools))
		for i, p := range c.o.Pools {
			names[i] = p.Name
		}
		known := "there are none"
		if len(names) > 0 {
			known = "there are: " + strings.Join(names, ", ")
		}
		c.report(key, "unknown pool %q; %s", name, known)
		return -1
	}
	return i
}

func (c *checker) pools(set *Set) {
	if len(c.o.Pools) > PoolsMax {
		c.report("pools", "has %d pools, at most %d are told apart", len(c.o.Pools), PoolsMax)
		return
	}
	for i, p := range c.o.Pools {
		key := fmt.Sprintf("pools[%d]", i)
		if first, twice := c.index[p.Name]; twice || p.Name == "any" || !spelling.IsName(p.Name) {
			switch {
			case twice:
				c.report(key+".name", "%q is the name of pools[%d] already", p.Name, first)
			default:
				c.report(key+".name", "%.100q is no name for a pool, want %s; any is all workers", p.Name, spelling.NameForm)
			}
			continue
		}
		c.index[p.Name] = i
	}
	for i, p := range c.o.Pools {
		key := fmt.Sprintf("pools[%d]", i)
		set.labels = append(set.labels, c.labels(key, p))
		for _, n := range []struct {
			setting string
			value   int
		}{{"kv_tokens_max", p.KVTokensMax}, {"idle_below", p.IdleBelow}, {"overflow.wait", int(p.Overflow.Wait)}, {"overflow.price", int(p.Overflow.Price)}} {
			if n.value < 0 {
				c.report(key+"."+n.setting, "is negative, want 0 or more")
			}
		}
		over := -1
		if to := p.Overflow.To; to != "" {
			over = c.pool(key+".overflow.to", to)
		} else if p.Overflow.Wait != 0 || p.Overflow.Price != 0 {
			c.report(key+".overflow", "says when to spill but not where; set overflow.to")
		}
		set.over = append(set.over, over)
	}
	c.circles(set.over)
}

func (c *checker) labels(key string, p Pool) (all []label) {
	for j, text := range p.Labels {
		l, ok := labelOf(text)
		if !ok {
			c.report(fmt.Sprintf("%s.labels[%d]", key, j), "%q is no label, write key=value", text)
		}
		all = append(all, l)
	}
	if len(p.Labels) == 0 && len(p.Workers) == 0 {
		all = append(all, label{"pool", p.Name})
	}
	return all
}

// circles finds pools that spill back to themselves.
func (c *checker) circles(over []int) {
	for i := range over {
		path, least := []string{c.o.Pools[i].Name}, i
		for at := over[i]; at >= 0 && len(path) <= len(over); at = over[at] {
			path, least = append(path, c.o.Pools[at].Name), min(least, at)
			if at == i {
				if least == i { // each circle once, at its first pool
					c.report(fmt.Sprintf("pools[%d].overflow.to", i), "spills in a circle: %s", strings.Join(path, " -> "))
				}
				break
			}
		}
	}
}

// rule is a Rule to match by. Nil lists hold for all.
type rule struct {
	name                      string
	number, order             int
	prompt, total             span
	models, adapters, tenants []string
	modality, effort          uint8 // bits of the kinds of request that match
	to                        []int
}

// span is from min up to max, both included.
type span struct{ min, max int }

func (s span) has(n int) bool       { return n >= s.min && n <= s.max }
func (s span) covers(o span) bool   { return s.min <= o.min && s.max >= o.max }
func (s span) overlaps(o span) bool { return s.min <= o.max && o.min <= s.max }

// The kinds of request by modality: a bit for each of text alone, vision, audio, both.
const (
	modalityText   = 1 << iota
	modalityVision // the bits are those of a set of two, as numbers
	modalityAudio
	modalityBoth
	modalityAny = 1<<4 - 1
)

// modalityOf is the bit of a request's kind.
func modalityOf(needs llmapi.Needs) uint8 {
	kind := uint8(modalityText)
	if needs&llmapi.NeedVision != 0 {
		kind = modalityVision
	}
	if needs&llmapi.NeedAudio != 0 {
		kind <<= 2
	}
	return kind
}

var modalities = map[string]uint8{
	"text": modalityText, "vision": modalityVision | modalityBoth, "audio": modalityAudio | modalityBoth,
}

var efforts = map[string]uint8{"": 3, "no": 1, "yes": 2}

func (c *checker) rules(set *Set) {
	if len(c.o.Rules) > RulesMax {
		c.report("pool_rules", "has %d rules, at most %d", len(c.o.Rules), RulesMax)
		return
	}
	names := map[string]int{}
	for i, r := range c.o.Rules {
		key := fmt.Sprintf("pool_rules[%d]", i)
		if first, twice := names[r.Name]; twice && r.Name != "" {
			c.report(key+".name", "%q is the name of pool_rules[%d] already", r.Name, first)
		}
		names[r.Name] = i
		set.rules = append(set.rules, c.rule(key, i, r))
	}
	if len(c.problems) > 0 {
		return // what follows would only repeat them
	}
	slices.SortStableFunc(set.rules, func(a, b rule) int { return a.order - b.order })
	for i := range set.rules {
		c.shadowed(set.rules[:i], &set.rules[i])
	}
}

func (c *checker) rule(key string, number int, r Rule) rule {
	out := rule{name: r.Name, number: number, order: r.Order, models: r.Models, adapters: r.Adapters, tenants: r.Tenants}
	if out.name == "" {
		out.name = fmt.Sprintf("rule %d", number)
	}
	out.prompt, out.total = c.span(key+".prompt_tokens", r.Prompt), c.span(key+".total_tokens", r.Total)
	if out.prompt.min > out.total.max {
		c.report(key+".total_tokens", "ends at %d, below the least prompt of %d tokens: no request matches", r.Total.Max, r.Prompt.Min)
	}
	for j, m := range r.Modalities {
		bits, ok := modalities[m]
		if !ok {
			c.report(fmt.Sprintf("%s.modalities[%d]", key, j), "unknown modality %q; there are: text, vision, audio", m)
		}
		out.modality |= bits
	}
	if len(r.Modalities) == 0 {
		out.modality = modalityAny
	}
	effort, ok := efforts[r.BestEffort]
	if !ok {
		c.report(key+".best_effort", "is %q, want yes, no or nothing", r.BestEffort)
	}
	out.effort = effort
	if len(r.To) == 0 {
		c.report(key+".to", "names no pool")
	}
	for j, name := range r.To {
		at := fmt.Sprintf("%s.to[%d]", key, j)
		pool := c.pool(at, name)
		if slices.Contains(out.to, pool) && pool >= 0 {
			c.report(at, "%q is in the list already", name)
		}
		out.to = append(out.to, pool)
	}
	return out
}

func (c *checker) span(key string, r Range) span {
	s := span{max(r.Min, 0), math.MaxInt}
	if r.Max != 0 {
		s.max = r.Max - 1
	}
	if r.Min < 0 || r.Max < 0 || s.min > s.max {
		c.report(key, "from %d up to %d is no range", r.Min, r.Max)
	}
	return s
}

// shadowed compares a rule with those that are tried before it. That several of them cover it together is seen where they differ in
// their prompts' lengths only.
func (c *checker) shadowed(before []rule, r *rule) {
	key := fmt.Sprintf("pool_rules[%d]", r.number)
	var prompts []span // for which others take all that r would
	for i := range before {
		b := &before[i]
		if b.order == r.order && b.overlaps(r) {
			c.report(key+".order", "%q and %q (pool_rules[%d]) can match the same request, such as one of %d prompt tokens; give them different orders", r.name, b.name, b.number, max(r.prompt.min, b.prompt.min))
			return
		}
		if b.coversBut(r) {
			prompts = append(prompts, b.prompt)
		}
	}
	slices.SortFunc(prompts, func(a, b span) int { return a.min - b.min })
	left := r.prompt.min
	for _, p := range prompts {
		if p.min > left {
			break
		}
		if p.max >= r.prompt.max {
			c.report(key, "%q is never reached: rules with a lower order match all that it would", r.name)
			return
		}
		left = max(left, p.max+1)
	}
}

// overlaps tells whether some request could match both.
func (r *rule) overlaps(o *rule) bool {
	return r.prompt.overlaps(o.prompt) && r.total.overlaps(o.total) && max(r.prompt.min, o.prompt.min) <= min(r.total.max, o.total.max) &&
		r.modality&o.modality != 0 && r.effort&o.effort != 0 &&
		meet(r.models, o.models) && meet(r.tenants, o.tenants) && meet(r.adapters, o.adapters)
}

// coversBut tells whether r matches all that o does, were it not for the prompt's length.
func (r *rule) coversBut(o *rule) bool {
	return r.total.covers(o.total) && r.modality&o.modality == o.modality && r.effort&o.effort == o.effort &&
		covers(r.models, o.models) && covers(r.tenants, o.tenants) && covers(r.adapters, o.adapters)
}

func meet(a, b []string) bool {
	return a == nil || b == nil || slices.Contains(a, anyAdapter) || slices.Contains(b, anyAdapter) ||
		slices.ContainsFunc(a, func(name string) bool { return slices.Contains(b, name) })
}

func covers(a, b []string) bool {
	if a == nil || slices.Contains(a, anyAdapter) && b != nil {
		return true
	}
	return b != nil && !slices.ContainsFunc(b, func(name string) bool { return !slices.Contains(a, name) })
}
