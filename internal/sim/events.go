package sim

import "time"

// eventKind says what an event is.
type eventKind uint8

const (
	arrival      eventKind = iota
	noticeFirst            // a router hears of a first token,
	noticeEnd              // of an end,
	noticeCounts           // of an engine's counts
	scrape                 // a router asks all engines for their counts
	turn                   // a router looks at those who wait
	sample                 // the load is noted for the report
)

type event struct {
	at     time.Duration
	serial uint64
	kind   eventKind
	flight *flight
	router *router
	counts *observation
}

// before orders events by time, and those of one time as they were made.
func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.serial < o.serial }

// events is a heap of what is to come.
type events struct {
	heap   []event
	serial uint64
}

func (q *events) peek() *event {
	if len(q.heap) == 0 {
		return nil
	}
	return &q.heap[0]
}

func (q *events) push(e event) {
	q.serial++
	e.serial = q.serial
	q.heap = append(q.heap, e)
	i := len(q.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !q.heap[i].before(&q.heap[up]) {
			break
		}
		q.heap[i], q.heap[up] = q.heap[up], q.heap[i]
		i = up
	}
}

func (q *events) pop() event {
	first := q.heap[0]
	last := len(q.heap) - 1
	q.heap[0] = q.heap[last]
	q.heap[last] = event{}
	q.heap = q.heap[:last]
	for i := 0; ; {
		least := i
		for down := 2*i + 1; down <= 2*i+2 && down < last; down++ {
			if q.heap[down].before(&q.heap[least]) {
				least = down
			}
		}
		if least == i {
			return first
		}
		q.heap[i], q.heap[least] = q.heap[least], q.heap[i]
		i = least
	}
}

// stepLogLen is how many computations of a worker are remembered, to tell a request's token gaps.
const stepLogLen = 1024

// stepLog is what a worker computed last: stretches of steps.
type stepLog struct {
	ring [stepLogLen]stretch
	n    int
}

type stretch struct {
	begun, end time.Duration
	steps      int
}

func (s *stepLog) add(begun, end time.Duration, steps int) {
	s.ring[s.n%stepLogLen] = stretch{begun, end, steps}
	s.n++
}

// gaps appends the seconds of up to most steps that began at or after from and ended by to.
func (s *stepLog) gaps(into []float32, from, to time.Duration, most int) []float32 {
	low, high := max(0, s.n-stepLogLen), s.n
	for low < high {
		if middle := (low + high) / 2; s.ring[middle%stepLogLen].begun < from {
			low = middle + 1
		} else {
			high = middle
		}
	}
	for ; low < s.n && len(into) < most; low++ {
		x := &s.ring[low%stepLogLen]
		if x.end > to {
			break
		}
		gap := float32((x.end - x.begun).Seconds() / float64(x.steps))
		for range min(x.steps, most-len(into)) {
			into = append(into, gap)
		}
	}
	return into
}
