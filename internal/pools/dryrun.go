package pools

import (
	"cmp"
	"iter"
	"slices"

	"github.com/warmpath/warmpath/internal/declog"
)

// Move is how many requests went from one pool to another by a change of rules; those that stayed have the same pool twice.
type Move struct {
	From, To     string
	Requests     int
	PromptTokens int64
}

// Count is what one rule sends to one pool.
type Count struct {
	Pool, Rule string // "any" and "" where there is none
	Requests   int
	Tokens     int64 // of prompts and answers
}

// Change is a dry run of other rules over requests that were.
type Change struct {
	Requests      int
	Moved         int // that would go elsewhere
	Moves         []Move
	Before, After []Count
}

// Compare routes requests by two sets of rules, load left aside: where each belongs, not where it would spill to.
func Compare(before, after *Set, requests iter.Seq[Request]) Change {
	var c Change
	moves := map[[2]string]*Move{}
	var counts [2]map[[2]string]*Count
	for i := range counts {
		counts[i] = map[[2]string]*Count{}
	}
	for r := range requests {
		c.Requests++
		var names [2]string
		for i, set := range [2]*Set{before, after} {
			pool, rule := set.Home(r)
			names[i] = set.Name(pool)
			count := one(counts[i], [2]string{names[i], rule}, Count{Pool: names[i], Rule: rule})
			count.Requests++
			count.Tokens += int64(max(r.TotalTokens, r.PromptTokens))
		}
		if names[0] != names[1] {
			c.Moved++
		}
		m := one(moves, names, Move{From: names[0], To: names[1]})
		m.Requests++
		m.PromptTokens += int64(r.PromptTokens)
	}
	c.Moves = ordered(moves, func(a, b Move) int {
		return cmp.Or(b.Requests-a.Requests, cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	byUse := func(a, b Count) int {
		return cmp.Or(b.Requests-a.Requests, cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Rule, b.Rule))
	}
	c.Before, c.After = ordered(counts[0], byUse), ordered(counts[1], byUse)
	return c
}

func one[T any](all map[[2]string]*T, key [2]string, fresh T) *T {
	if all[key] == nil {
		all[key] = &fresh
	}
	return all[key]
}

func ordered[T any](all map[[2]string]*T, before func(a, b T) int) []T {
	list := make([]T, 0, len(all))
	for _, v := range all {
		list = append(list, *v)
	}
	slices.SortFunc(list, before)
	return list
}

// RequestOf is a request as far as its decision record tells: its modality and effort are not in it, its tokens are those reported, else
// estimated.
func RequestOf(r *declog.Record) Request {
	prompt := r.PromptTokens
	if prompt == 0 {
		prompt = r.PromptTokensEst
	}
	total := prompt + max(r.CompletionTokens, r.StreamedTokenCount)
	return Request{Model: r.Model, Adapter: r.Adapter, Tenant: r.Tenant, PromptTokens: prompt, TotalTokens: total, KVTokensPeak: total}
}
