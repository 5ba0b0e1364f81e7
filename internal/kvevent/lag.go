package kvevent

import (
	"math"
	"time"
)

// Stamp is the time at which an engine made a message, by its own clock: Unix seconds, the first field of vLLM's and SGLang's batches, or ts
// where these are maps. Nothing else of the message is read. It is false for a message without one, or with one that no clock would show.
func Stamp(payload []byte) (time.Time, bool) {
	r := &reader{b: payload}
	switch r.next() {
	case kindArray:
		if r.length(kindArray) == 0 {
			return time.Time{}, false
		}
		return r.stamp()
	case kindMap:
		for n := r.length(kindMap); n > 0 && r.err == nil; n-- {
			if string(r.key()) == "ts" {
				return r.stamp()
			}
			r.skip()
		}
	}
	return time.Time{}, false
}

// stampLeast and stampMost bound times that clocks show, in Unix seconds: the years 2001 to 2286. What is below is a time since some start, what is
// above is counted in less than seconds.
const (
	stampLeast = 1e9
	stampMost  = 1e10
)

func (r *reader) stamp() (time.Time, bool) {
	if k := r.next(); k != kindFloat && k != kindInt {
		return time.Time{}, false
	}
	seconds := r.float()
	if r.err != nil || !(seconds >= stampLeast && seconds <= stampMost) {
		return time.Time{}, false
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), true
}

// Lag tells how late messages of one connection come, though the clocks of two hosts differ. Of message k
//
//	delay_k = came_k - made_k = transit_k + what the clocks differ by
//	lag_k   = delay_k - the least delay of the last ten minutes
//
// so that the difference of the clocks, and the least transit with it, cancel. A lag that has been the same since the connection stands is
// therefore not seen; Offset shows it, if the clocks agree. Clocks that drift apart are followed, since the least is looked for in the last
// minutes only. An engine whose clock was set back looks late by so much until it is forgotten. The zero value is ready.
type Lag struct {
	messages int
	least    extreme // delay
	most     extreme // lag, below zero so that it is the least, too
}

const (
	leastHalf = 5 * time.Minute  // the least delay is that of the last one or two of them,
	mostHalf  = 30 * time.Second // and the most lag
	// lagMessages is how many messages it takes to tell: by one alone nothing is late.
	lagMessages = 8
	// lagAbsurd is a delay that no clocks in use differ by: such messages tell nothing.
	lagAbsurd = 24 * time.Hour
)

// Note takes in a message that came, and was made, at these times.
func (l *Lag) Note(came, made time.Time) {
	delay := came.Sub(made)
	if delay > lagAbsurd || delay < -lagAbsurd {
		return
	}
	l.messages++
	l.least.note(came, leastHalf, delay)
	least, _ := l.least.at(came, leastHalf)
	l.most.note(came, mostHalf, least-delay)
}

// Most is by how much messages of the last minute were late, the latest of them, and the least delay that this is told from. It is false while
// none came, or too few.
func (l *Lag) Most(now time.Time) (lag, offset time.Duration, told bool) {
	most, some := l.most.at(now, mostHalf)
	offset, _ = l.least.at(now, leastHalf)
	return -most, offset, some && l.messages >= lagMessages
}

// extreme is the least of what was noted in the half of time under way and the one before.
type extreme struct {
	begun        time.Time // the half under way
	now, before  time.Duration
	some, former bool
}

func (e *extreme) note(at time.Time, half, v time.Duration) {
	e.turn(at, half)
	if !e.some || v < e.now {
		e.now, e.some = v, true
	}
}

// turn begins the half that a time is in. A clock that was set back begins anew.
func (e *extreme) turn(at time.Time, half time.Duration) {
	switch passed := at.Sub(e.begun); {
	case passed >= 0 && passed < half:
	case passed >= half && passed < 2*half:
		*e = extreme{begun: e.begun.Add(half), before: e.now, former: e.some}
	default:
		*e = extreme{begun: at}
	}
}

func (e extreme) at(now time.Time, half time.Duration) (least time.Duration, some bool) {
	e.turn(now, half)
	switch {
	case e.some && e.former:
		return min(e.now, e.before), true
	case e.former:
		return e.before, true
	}
	return e.now, e.some
}
