// Package series keeps the headline numbers of a router over time in bounded memory: each second for 15 minutes, 10 seconds for 2 hours, each
// minute for a day. It is pure, and guarded by a lock of its own.
//
//	s := series.New(time.Now())
//	s.Add(time.Now(), &series.Request{Outcome: "succeeded", Hit: "hit", TTFT: 0.12, Gaps: gaps, E2E: 1.4})   // as each request ends
//	s.Tick(time.Now(), series.Gauges{InFlight: 12})                                                          // each second
//	table, err := s.Table(15*time.Minute, 10*time.Second)                                                     // what came of it, by columns
//
// A step holds sums, and a histogram of each kind of time that merges exactly, so that a minute's p99 is that of its requests, and no mean of
// sixty p99s. Times are told within 2 %.
package series

import (
	"sync"
	"time"
)

// Outcomes are those that are told apart, as in warmpath_requests_total; any other counts as the last.
var Outcomes = [...]string{"succeeded", "incomplete", "cancelled", "client_error", "busy", "no_worker", "failed"}

// Hits are the outcomes of prefixes that are told apart; of a request without a worker there is none.
var Hits = [...]string{"hit", "partial", "miss", "declined"}

// ClassesMax bounds the classes of the queue that are told apart; further ones count as the last.
const ClassesMax = 8

// Request is what the series want to know of one that is over. Times are seconds; a negative one is not known.
type Request struct {
	Outcome string
	Hit     string // "" when no worker was chosen
	Class   string // of the queue; "" where nobody knew who asked

	TTFT, E2E, Waited float64
	Gaps              []float32 // between tokens

	Metered                     bool // its usage is known:
	PromptTokens, AnswerTokens  int
	CachedReported              bool // so is how much of its prompt was cached:
	CachedTokens                int  // so much,
	CachedTokensPredicted       int  // where so much was expected
	CachedTokensReachable       int  // and so much was the most that any worker held
	PrefillDone, PrefillAvoided float64
}

// Gauges are the state of the moment.
type Gauges struct {
	InFlight int
	Workers  int // that take requests
	Waiting  []Waiting
}

// Waiting is how many requests of a class wait.
type Waiting struct {
	Class    string
	Requests int
}

// sums are what steps add up, by place.
type sums [placesOfSums]float64

const (
	sumOutcomes = 0
	sumHits     = sumOutcomes + len(Outcomes)
	sumPrompt   = sumHits + len(Hits)
	sumAnswer   = sumPrompt + 1
	sumMetered  = sumAnswer + 1 // prompt tokens of those requests that told their cached ones
	sumCached   = sumMetered + 1
	sumForetold = sumCached + 1
	sumReach    = sumForetold + 1
	sumDone     = sumReach + 1
	sumAvoided  = sumDone + 1
	sumLooked   = sumAvoided + 1 // choices that were held against what came of them:
	sumBeaten   = sumLooked + 1
	sumLost     = sumBeaten + 1
	sumAhead    = sumLost + 1
	sumReal     = sumAhead + 1
	sumExpected = sumReal + 1
	sumRetries  = sumExpected + 1
	sumEjected  = sumRetries + 1
	sumTicks    = sumEjected + 1 // of what follows, the mean is told
	sumInFlight = sumTicks + 1
	sumWorkers  = sumInFlight + 1
	sumWaiting  = sumWorkers + 1

	placesOfSums = sumWaiting + ClassesMax
)

// Histograms of a step, by place.
const (
	timesTTFT = 0
	timesITL  = timesTTFT + len(Hits)
	timesE2E  = timesITL + len(Hits)
	timesWait = timesE2E + 1

	placesOfTimes = timesWait + ClassesMax
)

// open is a step under way.
type open struct {
	at          int64 // in steps since the Unix epoch
	sums        sums
	inFlightMax float64
	times       [placesOfTimes]histogram
	used        bool
}

// step is one that is over.
type step struct {
	at          int64
	sums        sums
	inFlightMax float64
	times       *[placesOfTimes][]byte // packed; nil: nothing was timed
}

// level is one width of steps.
type level struct {
	seconds int64
	ring    []step // by at modulo its length: whatever has another at is not there
	open    open
}

// Series keep numbers over time. Only New makes usable ones; any number of goroutines may use them.
type Series struct {
	mu      sync.Mutex
	started time.Time
	levels  [3]level
	classes []string
	room    [packedMax]byte
}

// Widths of steps, and how long each is kept.
var widths = [3]struct{ Step, Kept time.Duration }{{time.Second, 15 * time.Minute}, {10 * time.Second, 2 * time.Hour}, {time.Minute, 24 * time.Hour}}

// New begins series.
func New(now time.Time) *Series {
	s := &Series{started: now}
	for i, w := range widths {
		l := &s.levels[i]
		l.seconds = int64(w.Step / time.Second)
		l.ring = make([]step, int(w.Kept/w.Step)+1)
		l.open.at = now.Unix() / l.seconds
	}
	return s
}

// Add takes in a request that is over.
func (s *Series) Add(now time.Time, r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.at(now)
	o.sums[sumOutcomes+place(Outcomes[:], r.Outcome)]++
	if r.Class != "" && r.Waited >= 0 {
		o.times[timesWait+s.class(r.Class)].add(float32(r.Waited))
	}
	if r.Metered {
		o.sums[sumPrompt] += float64(max(r.PromptTokens, 0))
		o.sums[sumAnswer] += float64(max(r.AnswerTokens, 0))
	}
	if r.Metered && r.CachedReported {
		o.sums[sumMetered] += float64(max(r.PromptTokens, 0))
		o.sums[sumCached] += float64(max(r.CachedTokens, 0))
		o.sums[sumForetold] += float64(max(r.CachedTokensPredicted, 0))
		o.sums[sumReach] += float64(max(r.CachedTokensReachable, 0))
	}
	o.sums[sumDone] += r.PrefillDone
	o.sums[sumAvoided] += r.PrefillAvoided
	if r.Hit == "" {
		return
	}
	hit := place(Hits[:], r.Hit)
	o.sums[sumHits+hit]++
	if r.TTFT >= 0 {
		o.times[timesTTFT+hit].add(float32(r.TTFT))
	}
	if r.E2E >= 0 {
		o.times[timesE2E].add(float32(r.E2E))
	}
	gaps := &o.times[timesITL+hit]
	for _, g := range r.Gaps {
		gaps.add(g)
	}
}

// Retried counts another worker being tried.
func (s *Series) Retried(now time.Time) { s.count(now, sumRetries) }

// Ejected counts a worker being put out.
func (s *Series) Ejected(now time.Time) { s.count(now, sumEjected) }

// Regretted takes in a choice that was held against what came of it, in request-seconds: what it lost, or was ahead by, what it came to and
// what it had been foretold to.
func (s *Series) Regretted(now time.Time, lost, ahead, real, foretold float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.at(now)
	o.sums[sumLooked]++
	if lost > 0 {
		o.sums[sumBeaten]++
	}
	o.sums[sumLost] += lost
	o.sums[sumAhead] += ahead
	o.sums[sumReal] += real
	o.sums[sumExpected] += foretold
}

func (s *Series) count(now time.Time, place int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at(now).sums[place]++
}

// Tick notes the state of the moment, and closes steps that are over.
func (s *Series) Tick(now time.Time, g Gauges) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.at(now)
	o.sums[sumTicks]++
	o.sums[sumInFlight] += float64(g.InFlight)
	o.sums[sumWorkers] += float64(g.Workers)
	o.inFlightMax = max(o.inFlightMax, float64(g.InFlight))
	for _, w := range g.Waiting {
		o.sums[sumWaiting+s.class(w.Class)] += float64(w.Requests)
	}
}

// at is the second under way. A clock that was set counts as one that went on: times are told by how long the series have run.
func (s *Series) at(now time.Time) *open {
	second := s.started.Unix() + int64(now.Sub(s.started)/time.Second)
	for i := range s.levels { // the finest first: it is part of those above
		if l := &s.levels[i]; second/l.seconds > l.open.at {
			s.close(i)
			l.open.at = second / l.seconds
		}
	}
	o := &s.levels[0].open
	o.used = true
	return o
}

// close puts a level's step away, and adds it to the step above that it is part of.
func (s *Series) close(i int) {
	l := &s.levels[i]
	o := &l.open
	if !o.used {
		return
	}
	done := step{at: o.at, sums: o.sums, inFlightMax: o.inFlightMax}
	for p := range o.times {
		if packed := o.times[p].pack(s.room[:]); packed != nil {
			if done.times == nil {
				done.times = new([placesOfTimes][]byte)
			}
			done.times[p] = packed
		}
	}
	l.ring[o.at%int64(len(l.ring))] = done
	if i+1 < len(s.levels) {
		s.levels[i+1].open.merge(o)
	}
	o.reset()
}

// merge adds a finer step to the one that it is part of.
func (o *open) merge(fine *open) {
	o.used = true
	o.add(&fine.sums, fine.inFlightMax)
	for p := range fine.times {
		o.times[p].merge(&fine.times[p])
	}
}

func (o *open) add(s *sums, inFlightMax float64) {
	for p, v := range s {
		o.sums[p] += v
	}
	o.inFlightMax = max(o.inFlightMax, inFlightMax)
}

// put adds a step that is over.
func (o *open) put(s *step) {
	o.add(&s.sums, s.inFlightMax)
	if s.times != nil {
		for p, packed := range s.times {
			o.times[p].unpack(packed)
		}
	}
}

func (o *open) reset() {
	for p := range o.times {
		if o.times[p].n > 0 {
			o.times[p] = histogram{}
		}
	}
	o.sums, o.inFlightMax, o.used = sums{}, 0, false
}

// class is a class's place, in the order in which they were first seen.
func (s *Series) class(name string) int {
	for i, c := range s.classes {
		if c == name {
			return i
		}
	}
	if len(s.classes) < ClassesMax {
		s.classes = append(s.classes, name)
	}
	return len(s.classes) - 1
}

// place is where a word is in a list; the last place when it is not.
func place(words []string, word string) int {
	for i, w := range words {
		if w == word {
			return i
		}
	}
	return len(words) - 1
}
