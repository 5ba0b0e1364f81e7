package engine

import "github.com/warmpath/warmpath/internal/prefix"

// keyIndex finds a block by its key: an open hash table with linear probing. A full cache gives up a block for each that it takes, and Go's map,
// which marks what is deleted and probes past the marks, took a quarter to a half of the time of a replay whose caches are full.
type keyIndex struct {
	slots []keySlot // a power of two of them, at most half in use
	shift uint8     // 64 less their bits
	used  int
}

type keySlot struct {
	key prefix.Key
	id  int32 // 0: not in use
}

func newKeyIndex() keyIndex { return keyIndex{slots: make([]keySlot, 1<<8), shift: 64 - 8} }

// home is where a key belongs (Knuth's multiplicative hash: keys need not be spread).
func (x *keyIndex) home(key prefix.Key) int {
	return int(uint64(key) * 0x9e3779b97f4a7c15 >> x.shift)
}

// find returns the block of a key, or 0.
func (x *keyIndex) find(key prefix.Key) int32 {
	for i := x.home(key); ; i = (i + 1) & (len(x.slots) - 1) {
		if s := &x.slots[i]; s.id == 0 || s.key == key {
			return s.id
		}
	}
}

// put enters a key that is not there.
func (x *keyIndex) put(key prefix.Key, id int32) {
	if 2*(x.used+1) > len(x.slots) {
		old := x.slots
		x.slots, x.used = make([]keySlot, 2*len(old)), 0
		x.shift--
		for _, s := range old {
			if s.id != 0 {
				x.put(s.key, s.id)
			}
		}
	}
	i := x.home(key)
	for x.slots[i].id != 0 {
		i = (i + 1) & (len(x.slots) - 1)
	}
	x.slots[i] = keySlot{key, id}
	x.used++
}

// remove takes out a key that is there, and closes the gap: what was put behind it moves up unless it is before its home then.
func (x *keyIndex) remove(key prefix.Key) {
	last := len(x.slots) - 1
	gap := x.home(key)
	for x.slots[gap].key != key || x.slots[gap].id == 0 {
		gap = (gap + 1) & last
	}
	for i := (gap + 1) & last; x.slots[i].id != 0; i = (i + 1) & last {
		if home := x.home(x.slots[i].key); (i-home)&last >= (i-gap)&last {
			x.slots[gap] = x.slots[i]
			gap = i
		}
	}
	x.slots[gap] = keySlot{}
	x.used--
}
