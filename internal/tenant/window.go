package tenant

// windowSeconds is how many seconds a window keeps: the running one and 60 before it, so that what is forgotten is 60 s old at least.
const windowSeconds = 61

// window sums the last minute, second by second.
type window struct {
	seconds [windowSeconds]int64 // by second, modulo their number
	last    int64                // the running second
	sum     int64
}

// to forgets what is too old at a second, which is not before the last one.
func (w *window) to(second int64) {
	if second-w.last >= windowSeconds {
		*w = window{last: second}
		return
	}
	for w.last < second {
		w.last++
		at := &w.seconds[w.last%windowSeconds] // seconds are since 1970, and never below 0
		w.sum -= *at
		*at = 0
	}
}

// add counts n in a second; when that is forgotten already, there is nothing to count or to take back.
func (w *window) add(second, n int64) {
	if w.last-second < windowSeconds {
		w.seconds[second%windowSeconds] += n
		w.sum += n
	}
}

// when is the second at which so much of the sum will be forgotten, which is not more than all of it.
func (w *window) when(n int64) int64 {
	for second := w.last - windowSeconds + 1; second <= w.last; second++ {
		if n -= w.seconds[max(0, second)%windowSeconds]; n <= 0 {
			return second + windowSeconds
		}
	}
	return w.last + windowSeconds
}
