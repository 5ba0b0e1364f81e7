package flow

import (
	"math"
	"time"
)

// Item is one request that may wait. Its owner makes it, sets what is exported before Push and leaves it alone after; it can be part of
// something larger, so that waiting allocates nothing.
type Item struct {
	Line   string  // who could serve it: a model and pool, or one worker
	Tenant string  // by credential; "" where there are none
	Class  int     // of Options.Classes; beyond them the last
	Weight float64 // of the tenant, 0.001 to 1000; 0 is 1
	// Heavy says that its prefill is out of all proportion, see Heavy: it then waits for one of few lanes, and lighter ones pass it.
	Heavy   bool
	Bytes   int64         // of memory that it holds while it waits
	Seconds float64       // engine time it is expected to take in all: what its tenant is charged
	Prefill float64       // of these, prefill: what it is ordered by
	StartBy time.Time     // when starting it would be too late; zero: never
	WaitMax time.Duration // it wants to wait; 0: as long as its class may
	Owner   any

	// What its account's order is made of lies together: to walk the tree is mostly to wait for memory.
	key             int64 // what it is ordered by, in nanoseconds
	seq             uint64
	left, right, up *Item
	below           sum
	cost            int64 // nanoseconds of engine time
	prio            uint32
	state           state

	leaveAt      int
	older, newer *Item // of its band
	band         *band
	account      *account
	hold         *hold // of its tenant

	pushed, leaves, taken time.Time
	expected              float64 // plainWait when it came
	times                 int     // taken back from a worker,
	wasted                float64 // where so many seconds were spent in vain
}

// state is where an item is in its life. Each way out of it happens once, whoever comes first.
type state uint8

const (
	fresh state = iota
	waiting
	taken
	aside // taken back, and not waiting yet
	over
)

// Preempted is how often the item was taken back from a worker, and how many seconds of engine time were spent on it in vain.
func (it *Item) Preempted() (times int, wasted float64) { return it.times, it.wasted }

// Pushed is when the item came to the queue; zero when it never did.
func (it *Item) Pushed() time.Time { return it.pushed }

// kind is 1 for heavy items. The two kinds of a line wait for different room.
func (it *Item) kind() int {
	if it.Heavy {
		return 1
	}
	return 0
}

// kinds of items in a line.
const kinds = 2

// costMax bounds what one item may be charged: a prediction gone wrong must not lock its tenant out for good.
const costMax = 24 * time.Hour

// nanos turns predicted seconds into whole nanoseconds. What is no number counts as nothing.
func nanos(seconds float64) int64 {
	if !(seconds > 0) {
		return 0
	}
	return int64(math.Min(seconds*1e9, float64(costMax)))
}

// prepare works out what the item is ordered and charged by.
func (q *Queue) prepare(now time.Time, it *Item) {
	class := &q.o.Classes[q.classOf(it)]
	it.pushed, it.leaves, it.taken, it.times, it.wasted = now, now.Add(q.waitMax(it)), time.Time{}, 0, 0
	if !it.StartBy.IsZero() && it.StartBy.Before(it.leaves) {
		it.leaves = it.StartBy
	}
	it.cost = nanos(it.Seconds)
	it.Bytes = max(0, it.Bytes)
	q.seq++
	it.seq = q.seq
	switch class.Order {
	case Shortest:
		it.key = now.UnixNano() + nanos(q.o.SizeMultiple*it.Prefill)
	case ByDeadline:
		it.key = it.leaves.UnixNano()
	default:
		it.key = now.UnixNano()
	}
}

// waitMax is the longest that the item may wait.
func (q *Queue) waitMax(it *Item) time.Duration {
	wait := q.o.Classes[q.classOf(it)].WaitMax
	if it.WaitMax > 0 {
		wait = min(wait, it.WaitMax)
	}
	return wait
}

// weightMin and weightMax bound how unlike tenants may be: a charge must stay a number that others can catch up with.
const (
	weightMin = 0.001
	weightMax = 1000
)

// weight is the tenant's, as far as it makes sense.
func (it *Item) weight() float64 {
	if !(it.Weight > 0) {
		return 1
	}
	return min(max(it.Weight, weightMin), weightMax)
}

// goesBefore is the order within a tenant.
func goesBefore(a, b *Item) bool {
	if a.key != b.key {
		return a.key < b.key
	}
	return a.seq < b.seq
}
