package kvevent

import "slices"

// orphans are blocks whose parent is not known: they were stored behind blocks from before we listened. They wait, up to a bound, for the
// parent to be stored again or replayed; the oldest give way.
type orphans struct {
	tokensMax int
	byParent  map[uint64][]*Event
	byName    map[uint64]*Event
	order     []*Event // as they came; those that went have no names
	tokens    int
	blocks    int
}

// orphanCost is what an event counts for beyond its tokens, in tokens.
const (
	orphanCost = 64
	orderSlack = 64
)

func (o *orphans) clear() { *o = orphans{tokensMax: o.tokensMax} }

// keep puts an event aside and returns how many blocks had to go for it.
func (o *orphans) keep(e *Event) (dropped int) {
	if len(e.Tokens)+orphanCost > o.tokensMax {
		return len(e.Names)
	}
	if _, again := o.byName[e.Names[0]]; again {
		return 0 // a copy: it counts as one, which errs towards forgetting
	}
	if o.byParent == nil {
		o.byParent, o.byName = map[uint64][]*Event{}, map[uint64]*Event{}
	}
	own := &Event{
		Kind: Stored, Names: slices.Clone(e.Names), Parent: e.Parent, HasParent: true, Tokens: slices.Clone(e.Tokens), BlockTokens: e.BlockTokens,
		Tier: e.Tier, TierKnown: true, Adapter: e.Adapter,
	}
	for _, extra := range e.Extra {
		own.Extra = append(own.Extra, slices.Clone(extra))
	}
	o.byParent[e.Parent] = append(o.byParent[e.Parent], own)
	for _, name := range own.Names {
		o.byName[name] = own
	}
	if o.order = append(o.order, own); len(o.order) > orderSlack+2*len(o.byName) {
		o.order = slices.DeleteFunc(o.order, func(e *Event) bool { return len(e.Names) == 0 })
	}
	o.tokens += len(own.Tokens) + orphanCost
	o.blocks += len(own.Names)
	for o.tokens > o.tokensMax {
		oldest := o.order[0]
		o.order = o.order[1:]
		dropped += len(oldest.Names)
		o.cut(oldest, 0)
	}
	return dropped
}

// cut ends an event before its block n: that block is gone, and what follows cannot be of use without it.
func (o *orphans) cut(e *Event, n int) {
	if len(e.Names) == 0 {
		return
	}
	for _, name := range e.Names[n:] {
		if o.byName[name] == e {
			delete(o.byName, name)
		}
	}
	o.blocks -= len(e.Names) - n
	o.tokens -= len(e.Tokens) - n*e.BlockTokens
	e.Names, e.Tokens = e.Names[:n], e.Tokens[:n*e.BlockTokens]
	if len(e.Extra) > n {
		e.Extra = e.Extra[:n]
	}
	if n > 0 {
		return
	}
	o.tokens -= orphanCost
	siblings := o.byParent[e.Parent]
	siblings = slices.DeleteFunc(siblings, func(s *Event) bool { return s == e })
	if len(siblings) == 0 {
		delete(o.byParent, e.Parent)
	} else {
		o.byParent[e.Parent] = siblings
	}
}

// remove takes out blocks that the engine gave up.
func (o *orphans) remove(names []uint64) {
	if o.blocks == 0 {
		return
	}
	for _, name := range names {
		if e := o.byName[name]; e != nil {
			o.cut(e, slices.Index(e.Names, name))
		}
	}
}

// take returns the events whose parent is known now, and keeps them no longer.
func (o *orphans) take(parent uint64) (taken []*Event) {
	for _, e := range slices.Clone(o.byParent[parent]) {
		own := *e
		o.cut(e, 0)
		taken = append(taken, &own)
	}
	if o.blocks == 0 {
		o.clear()
	}
	return taken
}
