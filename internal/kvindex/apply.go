package kvindex

import "github.com/warmpath/warmpath/internal/prefix"

const (
	// warmBlocks is how many blocks are looked at together before they are worked on, see table.warm.
	warmBlocks = 16
	// sweepNodes is how many nodes each block's work looks at while lanes are dying.
	sweepNodes = 16
)

// Store notes that the worker holds a run of blocks in a tier: keys are ours, names the engine's, and the first follows the block with
// the key parent (0: it begins a prompt). A block that the worker holds under that name already is one more copy. It returns the number
// of blocks that were new to the worker.
func (x *Index) Store(h Handle, parent prefix.Key, keys []prefix.Key, names []uint64, t Tier) (news int) {
	return x.store(h, parent, keys, names, t, true)
}

// Confirm is Store for a report of what was there already: blocks that the worker is known to hold do not count as copies.
func (x *Index) Confirm(h Handle, parent prefix.Key, keys []prefix.Key, names []uint64, t Tier) (news int) {
	return x.store(h, parent, keys, names, t, false)
}

func (x *Index) store(h Handle, parent prefix.Key, keys []prefix.Key, names []uint64, t Tier, copies bool) (news int) {
	if !t.valid() {
		return 0
	}
	x.writing()
	defer x.written()
	at := uint32(0)
	for i := range min(len(keys), len(names)) {
		x.giveWay()
		n, ok := x.lane(h)
		if !ok {
			return news
		}
		if i == 0 && parent != 0 {
			at = x.node(parent, 0)
		}
		if i%warmBlocks == 0 {
			x.warm(x.lanes[n].salt, keys[i:min(i+warmBlocks, len(keys))], names[i:min(i+warmBlocks, len(names))])
		}
		if i > 0 && (at == 0 || x.nodes.at(at).key != keys[i-1]) {
			at = x.node(keys[i-1], 0) // it went while others had their turn
		}
		fresh, ok := x.storeOne(n, &at, keys[i], names[i], t, copies)
		if !ok {
			break
		}
		if fresh {
			news++
		}
		x.sweepSome(sweepNodes)
	}
	x.release(at)
	return news
}

// storeOne notes one block behind the node *at, and moves *at to it. It is not ok when the name stands for another block: then what
// follows is in doubt too.
func (x *Index) storeOne(n uint16, at *uint32, key prefix.Key, name uint64, t Tier, copies bool) (fresh, ok bool) {
	l := &x.lanes[n]
	x.advance()
	x.counts.Stored++
	if i, held := x.byNameOf(n, name); held != nil {
		found := x.nodes.at(i)
		if found.key != key {
			x.counts.Conflicts++
			return false, false
		}
		*at = i
		x.again(n, found, held, t, copies)
		return false, true
	}
	parent := *at
	i := x.node(key, parent)
	*at = i
	found := x.nodes.at(i)
	if x.find(found, n) != nil {
		x.counts.Conflicts++
		return false, true
	}
	held := holder{}
	held.setName(name)
	held.set(t, 1)
	if !held.fast() {
		l.lower++
		x.judge(n)
	}
	if len(l.holes) > 0 {
		held.next = x.fillHole(n, key)
	}
	x.add(found, n, held)
	found.stamp = x.clock
	l.pairs++
	x.cost += pairCost
	x.file(&x.byName, mix(name, l.salt), i)
	if parent != 0 {
		x.follow(n, x.nodes.at(parent))
	}
	if x.over() {
		x.makeRoom(i)
	}
	return true, true
}

// again notes a block that the lane holds already.
func (x *Index) again(n uint16, at *node, h *holder, t Tier, copies bool) {
	at.stamp = x.clock
	have := h.count(t)
	if have > 0 && !copies {
		return
	}
	slow := !h.fast()
	h.set(t, have+1)
	if slow && h.fast() {
		x.lanes[n].lower--
		x.judge(n)
	}
}

// node returns the node of a key, and makes it when there is none.
func (x *Index) node(key prefix.Key, parent uint32) uint32 {
	hash := mix(uint64(key), 0)
	if i := x.lookup(key, hash); i != 0 {
		if n := x.nodes.at(i); n.parent == 0 && parent != 0 && parent != i {
			n.parent = parent // so far it only stood in front of a block whose own parent was known by its key alone
			x.nodes.at(parent).kids++
		}
		return i
	}
	i := x.nodes.take()
	*x.nodes.at(i) = node{key: key, parent: parent, stamp: x.clock}
	if parent != 0 {
		x.nodes.at(parent).kids++
	}
	x.cost += nodeCost
	x.file(&x.byKey, hash, i)
	return i
}

func (x *Index) lookup(key prefix.Key, hash uint64) uint32 {
	s := x.byKey.shard(hash)
	tag := tagOf(hash)
	for i, left := s.home(hash), len(s.lines); left > 0; i, left = s.behind(i), left-1 {
		l := &s.lines[i]
		low, high := l.candidates(tag)
		for j := next(&low, &high); j >= 0; j = next(&low, &high) {
			if x.nodes.at(l.refs[j]).key == key && l.tag(j) == tag {
				return l.refs[j]
			}
		}
		if l.over == 0 {
			break
		}
	}
	return 0
}

// byNameOf finds the node that the engine of lane n calls name, and how the lane holds it.
func (x *Index) byNameOf(n uint16, name uint64) (uint32, *holder) {
	hash := mix(name, x.lanes[n].salt)
	s := x.byName.shard(hash)
	tag := tagOf(hash)
	for i, left := s.home(hash), len(s.lines); left > 0; i, left = s.behind(i), left-1 {
		l := &s.lines[i]
		low, high := l.candidates(tag)
		for j := next(&low, &high); j >= 0; j = next(&low, &high) {
			if l.tag(j) != tag {
				continue
			}
			if h := x.find(x.nodes.at(l.refs[j]), n); h != nil && h.name() == name {
				return l.refs[j], h
			}
		}
		if l.over == 0 {
			break
		}
	}
	return 0, nil
}

// file puts a node into a table, which grows for it when it must.
func (x *Index) file(t *table, hash uint64, i uint32) {
	if t.full(hash) {
		if t == &x.byKey {
			t.grow(hash, x.refileKeys)
		} else {
			t.grow(hash, x.refileNames)
		}
	}
	t.put(hash, i)
}

// warmLine reads the nodes of a line that will be filed anew soon.
func (x *Index) warmLine(old []line, i int) {
	if i >= len(old) {
		return
	}
	sum := uint64(0)
	for _, ref := range old[i].refs {
		sum += uint64(x.nodes.at(ref).key) // one that is empty names node 0, which is none
	}
	x.byKey.warmed += sum
}

// warmLines is how many lines ahead that is done.
const warmLines = 2

func (x *Index) refileKeys(old []line, s *shard) {
	for i := range old {
		x.warmLine(old, i+warmLines)
		for j, ref := range old[i].refs {
			if old[i].tag(j) != 0 {
				s.put(mix(uint64(x.nodes.at(ref).key), 0), ref)
			}
		}
	}
}

// refileNames finds out which of a node's holders an entry stands for by its tag and shard. When several have both, they are filed
// together where the first of their entries is met.
func (x *Index) refileNames(old []line, s *shard) {
	type seen struct {
		ref uint32
		tag uint8
	}
	var done []seen
	for i := range old {
		x.warmLine(old, i+warmLines)
		for j, ref := range old[i].refs {
			tag := old[i].tag(j)
			if tag == 0 {
				continue
			}
			n := x.nodes.at(ref)
			if n.lane != sharedMark {
				s.put(mix(n.name(), x.lanes[n.lane-1].salt), ref)
				continue
			}
			first := true
			for _, d := range done {
				first = first && d != seen{ref, tag}
			}
			filed := 0
			lanes, holders := x.shared(n)
			for k := range holders {
				hash := mix(holders[k].name(), x.lanes[lanes[k]-1].salt)
				if first && tagOf(hash) == tag && x.byName.shard(hash) == s {
					s.put(hash, ref)
					filed++
				}
			}
			if filed > 1 {
				done = append(done, seen{ref, tag})
			}
		}
	}
}

// Remove notes that the worker gave up blocks in a tier. left, when there is one for each name, is how many copies the engine says
// remain. Names that are not known are passed over. It returns how many were known.
func (x *Index) Remove(h Handle, names []uint64, left []int, t Tier) (known int) {
	if !t.valid() {
		return 0
	}
	x.writing()
	defer x.written()
	for i, name := range names {
		x.giveWay()
		n, ok := x.lane(h)
		if !ok {
			return known
		}
		if i%warmBlocks == 0 {
			x.warmHeld(x.lanes[n].salt, names[i:min(i+warmBlocks, len(names))])
		}
		remain := -1
		if i < len(left) {
			remain = left[i]
		}
		if x.removeOne(n, name, remain, t) {
			known++
			x.counts.Removed++
		} else {
			x.counts.Unknown++
		}
		x.sweepSome(sweepNodes)
	}
	return known
}

func (x *Index) removeOne(n uint16, name uint64, remain int, t Tier) bool {
	i, h := x.byNameOf(n, name)
	if h == nil || h.count(t) == 0 {
		return false
	}
	fast := h.fast()
	if remain < 0 {
		remain = int(h.count(t)) - 1
	}
	h.set(t, uint16(min(remain, int(t.most()))))
	if fast && !h.fast() {
		x.lanes[n].lower++
		x.judge(n)
	}
	if h.copies == 0 {
		x.drop(n, i, h)
	}
	return true
}

// Resolve returns our key of the block that the worker calls name; 0 when it holds no such block.
func (x *Index) Resolve(h Handle, name uint64) prefix.Key {
	x.writing() // it is asked by those that write, and may wait for its turn
	defer x.written()
	if n, ok := x.lane(h); ok {
		if i, held := x.byNameOf(n, name); held != nil {
			return x.nodes.at(i).key
		}
	}
	return 0
}

// advance moves the clock by which blocks grow old.
func (x *Index) advance() {
	if x.ticks++; x.ticks >= x.tick {
		x.ticks = 0
		x.clock++
	}
}

// Copy notes that blocks which the worker is known to hold are in another tier too. It returns how many were known.
func (x *Index) Copy(h Handle, names []uint64, t Tier) (known int) {
	if !t.valid() {
		return 0
	}
	x.writing()
	defer x.written()
	for _, name := range names {
		x.giveWay()
		n, ok := x.lane(h)
		if !ok {
			return known
		}
		if i, held := x.byNameOf(n, name); held != nil {
			x.again(n, x.nodes.at(i), held, t, false)
			known++
		}
	}
	return known
}
