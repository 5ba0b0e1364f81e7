package pools

// Lane is one worker as far as heavy prefills matter.
type Lane struct {
	In    Bits // the pools that it is in
	Heavy int  // heavy prefills under way there
}

// HeavyRooms appends, for each of all workers that serve a model, whether one more heavy prefill may start there, lanesMax being how many
// one worker has at one time. The last workers of a pool that are free of them are left alone, so that light requests find a lane; only
// the pool that heavy ones are directed to spares none, and only while there are workers outside it. Workers in no pool are one together.
func (s *Set) HeavyRooms(lanes []Lane, lanesMax int, into []bool) []bool {
	var size, light [PoolsMax + 1]int // the last is that of workers in none
	outside := false
	for _, l := range lanes {
		each(l.In, len(s.pools), func(pool int) {
			if size[pool]++; l.Heavy == 0 {
				light[pool]++
			}
		})
		outside = outside || !l.In.Has(s.heavy)
	}
	for _, l := range lanes {
		room := l.Heavy < lanesMax
		each(l.In, len(s.pools), func(pool int) {
			exempt := pool == s.heavy && outside
			if l.Heavy == 0 && !exempt && light[pool] <= s.lightMin && size[pool] > s.lightMin {
				room = false
			}
		})
		into = append(into, room)
	}
	return into
}

// each calls f for each pool of a set, and with PoolsMax for an empty one.
func each(in Bits, pools int, f func(pool int)) {
	if in == 0 {
		f(PoolsMax)
	}
	for p := range pools {
		if in.Has(p) {
			f(p)
		}
	}
}
