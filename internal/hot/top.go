package hot

import (
	"cmp"
	"math"
	"slices"
)

// Order is what prefixes are ordered by, most first.
type Order string

// The orders.
const (
	ByRequests Order = "requests"
	ByCached   Order = "cached" // tokens that did not have to be computed
	ByTokens   Order = "tokens"
	ByLast     Order = "last"
)

// Orders are all of them.
var Orders = []string{string(ByRequests), string(ByCached), string(ByTokens), string(ByLast)}

const (
	// sureLeast is how many requests a prefix must have had for certain to be told of: one that left at a block alone is no shared prefix.
	sureLeast = 2
	// sameShare is the share of a prefix's requests from which on a longer one stands for it.
	sameShare = 0.9
)

// Top is up to n prefixes at that time. One whose requests nearly all go on with a longer one is left out: that is the prefix they share.
func (t *Table) Top(now int64, n int, by Order) []Prefix {
	perMinute := 60 * math.Ln2 / t.o.HalfLife / t.weigh(now)
	longest := make(map[int32]float64, len(t.all)) // the most that any longer one of an entry counts
	for i := range t.all {
		if at, ok := t.at[t.all[i].parent]; ok && t.all[i].parent != 0 {
			longest[at] = max(longest[at], t.all[i].weight-t.all[i].error)
		}
	}
	var top []Prefix
	for i := range t.all {
		e := &t.all[i]
		if sure := e.weight - e.error; e.Requests < sureLeast || longest[int32(i)] >= sameShare*sure && longest[int32(i)] > 0 {
			continue
		}
		p := e.Prefix
		p.Error, p.Leads = e.error*perMinute/t.grown(t.now-t.began), e.leads()
		p.PerMinute = (e.weight-e.error)*perMinute/t.grown(t.now-e.First) + p.Error
		top = append(top, p)
	}
	slices.SortFunc(top, func(a, b Prefix) int {
		order := 0
		switch by {
		case ByCached:
			order = cmp.Compare(b.CachedTokens, a.CachedTokens)
		case ByTokens:
			order = cmp.Compare(b.Tokens, a.Tokens)
		case ByLast:
			order = cmp.Compare(b.Last, a.Last)
		}
		return cmp.Or(order, cmp.Compare(b.PerMinute-b.Error, a.PerMinute-a.Error), cmp.Compare(b.Tokens, a.Tokens), cmp.Compare(a.Key, b.Key))
	})
	return top[:min(n, len(top))]
}

// grownLeast is the time that one is taken to have come for at least: of a few requests in the first seconds no rate is made.
const grownLeast = 60e9

// grown is the share of its weight that what comes at an even pace has reached after so many nanoseconds: r requests a second weigh
// r * HalfLife/ln 2 * (1 - 2^(-age/HalfLife)), the integral of what each still counts. Without it all that is new would look slow.
func (t *Table) grown(age int64) float64 {
	return 1 - math.Exp2(-float64(max(age, grownLeast))/1e9/t.o.HalfLife)
}

// Len is how many are in the table, and how many may be.
func (t *Table) Len() (n, most int) { return len(t.all), t.o.Max }

// Out is how many gave way to others.
func (t *Table) Out() uint64 { return t.out }
