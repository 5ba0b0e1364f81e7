package flow

// order is one account's items of one kind, the next one first: a treap, whose nodes are the items. A heap would be simpler; but this one
// also tells in O(log n) how much work is ahead of any of them, and leaves no slice behind. Its priorities are hashes of the items'
// numbers, so that the same pushes make the same tree.
type order struct {
	root, first *Item
	all         sum // over all items; the root has it too, but far away
}

// sum counts items and their engine time.
type sum struct {
	requests int
	nanos    int64
}

func (s *sum) add(it *Item, sign int64) {
	s.requests += int(sign)
	s.nanos += sign * it.cost
}

// hash spreads numbers that follow one another (the finaliser of MurmurHash3).
func hash(n uint64) uint32 {
	n ^= n >> 33
	n *= 0xff51afd7ed558ccd
	n ^= n >> 33
	n *= 0xc4ceb9fe1a85ec53
	return uint32(n >> 32)
}

func (o *order) add(it *Item) {
	it.left, it.right, it.up, it.prio, it.below = nil, nil, nil, hash(it.seq), sum{1, it.cost}
	o.all.add(it, 1)
	at := &o.root
	for *at != nil {
		it.up = *at
		it.up.below.add(it, 1)
		if goesBefore(it, it.up) {
			at = &it.up.left
		} else {
			at = &it.up.right
		}
	}
	*at = it
	for it.up != nil && it.up.prio < it.prio {
		o.lift(it)
	}
	if o.first == nil || goesBefore(it, o.first) {
		o.first = it
	}
}

func (o *order) remove(it *Item) {
	o.all.add(it, -1)
	if o.first == it {
		o.first = it.next()
	}
	for it.left != nil || it.right != nil {
		if it.right == nil || it.left != nil && it.left.prio > it.right.prio {
			o.lift(it.left)
		} else {
			o.lift(it.right)
		}
	}
	switch up := it.up; {
	case up == nil:
		o.root = nil
	case up.left == it:
		up.left = nil
	default:
		up.right = nil
	}
	for up := it.up; up != nil; up = up.up {
		up.below.add(it, -1)
	}
	it.up = nil
}

// lift moves an item above the one it hangs on.
func (o *order) lift(it *Item) {
	down := it.up
	switch top := down.up; {
	case top == nil:
		o.root = it
	case top.left == down:
		top.left = it
	default:
		top.right = it
	}
	it.up, down.up = down.up, it
	var moved *Item
	if down.left == it {
		moved, down.left, it.right = it.right, it.right, down
	} else {
		moved, down.right, it.left = it.left, it.left, down
	}
	if moved != nil {
		moved.up = down
	}
	down.count()
	it.count()
}

func (it *Item) count() {
	it.below = sum{1, it.cost}
	for _, c := range [...]*Item{it.left, it.right} {
		if c != nil {
			it.below.requests += c.below.requests
			it.below.nanos += c.below.nanos
		}
	}
}

// next is the item after this one.
func (it *Item) next() *Item {
	if n := it.right; n != nil {
		for n.left != nil {
			n = n.left
		}
		return n
	}
	for it.up != nil && it.up.right == it {
		it = it.up
	}
	return it.up
}

// ahead sums those that go before it, which may itself be in or not.
func (o *order) ahead(it *Item) (s sum) {
	for n := o.root; n != nil; {
		if !goesBefore(n, it) {
			n = n.left
			continue
		}
		s.add(n, 1)
		if n.left != nil {
			s.requests += n.left.below.requests
			s.nanos += n.left.below.nanos
		}
		n = n.right
	}
	return s
}
