package kvevent

import (
	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/prefix"
)

// apply takes in a message whose turn it is.
func (t *Tracker) apply(seq uint64, payload []byte) {
	t.started, t.next = true, seq+1
	t.stats.Messages++
	t.marks[seq%marksKept] = mark{seq, t.digest(payload)}
	b, err := t.decoder.Decode(payload)
	if err != nil {
		t.stats.Undecodable++
		t.giveUp(seq + 1) // whatever it said is lost
		return
	}
	t.Apply(b)
}

// Apply takes in events that need no order, or whose order was checked elsewhere.
func (t *Tracker) Apply(b *Batch) {
	t.silent = false
	t.stats.UnknownEvents += uint64(b.Unknown)
	if b.Rank >= 0 && t.o.Rank >= 0 && b.Rank != t.o.Rank {
		t.stats.OtherRank++
		return
	}
	for i := range b.Events {
		e := &b.Events[i]
		if e.Kind != Removed || e.Tier != t.tier {
			t.flush()
		}
		if e.Kind == Cleared {
			t.cleared()
			continue
		}
		switch {
		case !t.follows(e):
			t.stats.OtherGroup++
		case !e.TierKnown:
			t.stats.OtherTier++
		case e.Kind == Stored:
			t.store(e)
		case e.Kind == Removed:
			t.remove(e)
		case e.Kind == Moved:
			t.x.Copy(t.handle, e.Names, e.Tier)
			t.x.Remove(t.handle, e.Names, nil, e.From)
		}
	}
	t.flush()
	if t.partial && t.o.BlocksMax > 0 && t.inARow >= t.o.BlocksMax && t.orphans.blocks == 0 {
		t.partial = false
	}
	t.complete()
}

// follows says whether the event is of the layers that decide what a prompt finds. Engines of mixed models keep several caches, each with
// blocks of its own under the same hashes; those with a window give blocks up as a prompt grows, and would tell holes where none are.
func (t *Tracker) follows(e *Event) bool {
	switch e.GroupKind {
	case "", "full_attention", "mla_attention":
	default:
		t.stats.SlidingToo = true
		return false
	}
	if e.Group < 0 {
		return true
	}
	if t.group < 0 && e.Kind == Stored {
		t.group = e.Group
	}
	return e.Group == t.group || t.group < 0
}

func (t *Tracker) cleared() {
	t.stats.Cleared++
	t.handle = t.x.Clear(t.handle)
	t.told = false
	t.orphans.clear()
	t.partial, t.inARow = false, 0 // whatever was missed is gone too
}

// remove gathers removals, which come one by one, for one call.
func (t *Tracker) remove(e *Event) {
	if len(e.Left) > 0 || len(t.left) > 0 {
		for len(t.left) < len(t.removals) {
			t.left = append(t.left, -1)
		}
		for i := range e.Names {
			left := -1
			if i < len(e.Left) {
				left = e.Left[i]
			}
			t.left = append(t.left, left)
		}
	}
	t.removals, t.tier = append(t.removals, e.Names...), e.Tier
	t.stats.Removed += uint64(len(e.Names))
	t.orphans.remove(e.Names)
}

func (t *Tracker) flush() {
	if len(t.removals) > 0 {
		t.x.Remove(t.handle, t.removals, t.left, t.tier)
		t.removals, t.left = t.removals[:0], t.left[:0]
	}
	t.tier = kvindex.GPU
}

func (t *Tracker) store(e *Event) {
	blocks := len(e.Names)
	t.stats.Stored += uint64(blocks)
	if len(e.Tokens) == 0 {
		// Blocks that were named before, now in another tier too.
		if t.x.Copy(t.handle, e.Names, e.Tier) < blocks {
			t.stats.OrphansDropped++
		}
		return
	}
	if blocks == 0 || e.BlockTokens <= 0 || len(e.Tokens) != blocks*e.BlockTokens || len(e.Extra) > 0 && len(e.Extra) != blocks {
		t.stats.Malformed++
		t.inARow = 0
		return
	}
	parent, known := t.parent(e)
	if !known {
		t.inARow = 0
		t.stats.OrphansDropped += uint64(t.orphans.keep(e))
		return
	}
	t.inARow += blocks
	t.storeBehind(parent, e)
	t.adopt(e.Names)
}

// parent is the key of the block in front of the event's first one.
func (t *Tracker) parent(e *Event) (prefix.Key, bool) {
	if !e.HasParent {
		return t.o.Seed.TokenRoot(t.o.Model, e.Adapter), true
	}
	key := t.x.Resolve(t.handle, e.Parent)
	return key, key != 0
}

func (t *Tracker) storeBehind(parent prefix.Key, e *Event) {
	t.keys = t.keys[:0]
	key := parent
	for i := range e.Names {
		key = t.o.Seed.NextTokens(key, e.Tokens[i*e.BlockTokens:(i+1)*e.BlockTokens], e.extra(i))
		t.keys = append(t.keys, key)
	}
	if !e.HasParent {
		parent = 0
	}
	// An engine that is asked to report in full tells a prompt's cached blocks again, from the first one on, without having made copies.
	// Copies it makes itself are of a prompt's last block, computed again because a token has to be; or of what follows one that was gone.
	if e.Reused || !e.HasParent && len(e.Names) > 1 && (t.partial || t.x.Resolve(t.handle, e.Names[0]) != 0) {
		t.x.Confirm(t.handle, parent, t.keys, e.Names, e.Tier)
		return
	}
	t.x.Store(t.handle, parent, t.keys, e.Names, e.Tier)
}

// adopt stores the orphans whose parent became known, and theirs.
func (t *Tracker) adopt(names []uint64) {
	if t.orphans.blocks == 0 {
		return
	}
	names = append([]uint64(nil), names...)
	for len(names) > 0 {
		parent := names[len(names)-1]
		names = names[:len(names)-1]
		for _, e := range t.orphans.take(parent) {
			key := t.x.Resolve(t.handle, parent)
			if key == 0 {
				break
			}
			t.storeBehind(key, e)
			names = append(names, e.Names...)
		}
	}
}
