package ghost

// flights are the requests on their way in a ghost: a heap by when they end.
type flights struct {
	heap   []*flight
	counts []int32            // by slot
	own    map[uint64]*flight // each session's latest one
	spare  []*flight
}

type flight struct {
	end     int64 // nanoseconds
	session uint64
	slot    int32
	landed  bool // before its time
}

// flightsMax bounds them; those beyond it count as done at once.
const flightsMax = 1 << 16

func (f *flights) of(slot int32) int {
	if int(slot) >= len(f.counts) {
		return 0
	}
	return int(f.counts[slot])
}

// add lets a request begin when it is told of, and take as long as it did.
func (f *flights) add(r *record, slot int32) {
	if r.end <= r.start || len(f.heap) >= flightsMax {
		return
	}
	for len(f.counts) <= int(slot) {
		f.counts = append(f.counts, 0)
	}
	f.counts[slot]++
	one := new(flight)
	if n := len(f.spare); n > 0 {
		one = f.spare[n-1]
		f.spare = f.spare[:n-1]
	}
	*one = flight{end: 2*r.end - r.start, session: r.session, slot: slot}
	if r.session != 0 {
		if f.own == nil {
			f.own = map[uint64]*flight{}
		}
		f.own[r.session] = one
	}
	f.heap = append(f.heap, one)
	for i := len(f.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if f.heap[up].end <= f.heap[i].end {
			break
		}
		f.heap[i], f.heap[up] = f.heap[up], f.heap[i]
		i = up
	}
}

// land takes out what has ended when a request comes, and what its own session had under way: whoever asks again has their answer.
func (f *flights) land(r *record) {
	if one := f.own[r.session]; one != nil && r.session != 0 {
		f.down(one)
	}
	for len(f.heap) > 0 && f.heap[0].end <= r.end {
		one := f.pop()
		f.down(one)
		f.spare = append(f.spare, one)
	}
}

func (f *flights) down(one *flight) {
	if one.landed {
		return
	}
	one.landed = true
	f.counts[one.slot]--
	if f.own[one.session] == one {
		delete(f.own, one.session)
	}
}

func (f *flights) pop() *flight {
	one, last := f.heap[0], len(f.heap)-1
	f.heap[0], f.heap[last] = f.heap[last], nil
	f.heap = f.heap[:last]
	for i := 0; ; {
		least := i
		for down := 2*i + 1; down <= 2*i+2 && down < last; down++ {
			if f.heap[down].end < f.heap[least].end {
				least = down
			}
		}
		if least == i {
			return one
		}
		f.heap[i], f.heap[least] = f.heap[least], f.heap[i]
		i = least
	}
}
