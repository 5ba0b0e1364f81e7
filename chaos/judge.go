package main

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// attempt is a worker's part in a request, by what it noted.
type attempt struct {
	note
	over   bool
	overAt int64
}

// verdict is what a request came to.
type verdict string

const (
	right    verdict = "right answers"
	refused  verdict = "clear errors"
	broken   verdict = "broken answers that said so"
	gone     verdict = "clients that left"
	rejected verdict = "refusals of what must be refused"
	behind   verdict = "behind a connection's last answer"
	lost     verdict = "lost in a restart of the router"
)

var verdicts = []verdict{right, refused, broken, gone, rejected, behind, lost}

// judge compares what clients got with what workers noted. It knows nothing of the router but what it may do.
type judge struct {
	seed  uint64
	rate  float64
	wrong func(a anomaly)

	mu       sync.Mutex
	issued   int // ids below it may have been sent
	attempts map[int][]*attempt
	byTag    map[string]*attempt
	pending  []*result
	spans    []span
	verdicts map[verdict]int
	storm    time.Time // when faults began
	calmly   []timed   // requests that no fault concerns
}

// timed is when a request began, and how long it took.
type timed struct {
	at   time.Time
	took time.Duration
}

// anomaly is something that must not be.
type anomaly struct {
	what     string
	res      *result // nil where it is of no one request
	attempts []*attempt
}

func newJudge(seed uint64, rate float64, wrong func(anomaly)) *judge {
	return &judge{seed: seed, rate: rate, wrong: wrong, attempts: map[int][]*attempt{}, byTag: map[string]*attempt{}, verdicts: map[verdict]int{}}
}

// issue notes that requests up to this number may be under way.
func (j *judge) issue(number int) {
	j.mu.Lock()
	j.issued = max(j.issued, (number+1)*idsEach)
	j.mu.Unlock()
}

// planned is the request of an id, made again.
func (j *judge) planned(id int) *request {
	r := plan(j.seed, id/idsEach, j.rate)
	if i := id % idsEach; r.kind == pipes && i < len(r.batch) {
		return r.batch[i]
	}
	return r
}

// hear takes what a worker noted.
func (j *judge) hear(n note) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n.Over {
		if a := j.byTag[n.Tag]; a != nil {
			a.over, a.overAt, a.Sent = true, n.At, n.Sent
		}
		return
	}
	a := &attempt{note: n}
	if what := j.misplaced(n); what != "" {
		j.wrong(anomaly{what: what, attempts: []*attempt{a}})
		return
	}
	j.byTag[n.Tag] = a
	j.attempts[n.ID] = append(j.attempts[n.ID], a)
}

// misplaced says why a request should not have come to a worker; "" when it may.
func (j *judge) misplaced(n note) string {
	switch {
	case n.Bad != "":
		return fmt.Sprintf("worker %s got %s", n.worker(), n.Bad)
	case forbidden(n.ID):
		return fmt.Sprintf("worker %s got request %d, which was smuggled in another one", n.worker(), n.ID)
	case n.ID < 0 || n.ID >= j.issued:
		return fmt.Sprintf("worker %s got request %d, which nobody sent", n.worker(), n.ID)
	}
	r := j.planned(n.ID)
	switch r.kind {
	case badJSON, noModel, tooLarge, lists, garbage, floods, crawls, vanishes, smuggles:
		return fmt.Sprintf("worker %s got request %d (%s), which must be refused", n.worker(), n.ID, r.kind)
	}
	if !r.mayServe(n.worker()) {
		pool := ""
		if r.long {
			pool = ", pool long"
		}
		return fmt.Sprintf("worker %s got request %d for model %s%s, which it may not serve", n.worker(), n.ID, r.want.model, pool)
	}
	return ""
}

// span is a time during which something was wrong with a worker; the router's are of worker -1.
type span struct {
	worker   int
	action   action
	from, to time.Time
}

// moves says whether requests without a byte of their answer were placed elsewhere, though they may have been answered meanwhile.
func (s span) moves() bool { return s.action == drains || s.action == removes || s.action == flaps }

// fault notes that something is wrong from now on, until the function that it returns is called.
func (j *judge) fault(f fault) (over func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := len(j.spans)
	j.spans = append(j.spans, span{f.worker, f.action, time.Now(), time.Now().Add(time.Hour)})
	return func() {
		j.mu.Lock()
		j.spans[at].to = time.Now()
		j.mu.Unlock()
	}
}

// touched says whether a fault of a worker that may serve r, or of the router, may have been felt between two times. j.mu is held.
func (j *judge) touched(r *request, from, to time.Time) bool {
	return slices.ContainsFunc(j.spans, func(s span) bool {
		return s.from.Before(to) && s.to.Add(slack).After(from) && (s.worker < 0 || r.mayServe(workerName(s.worker)))
	})
}

// routerTouched is the same of the router alone, without slack but for what it takes to be back.
func (j *judge) routerTouched(from, to time.Time) bool {
	return slices.ContainsFunc(j.spans, func(s span) bool { return s.worker < 0 && s.near(from, to) })
}

// handTime is how long before the router was asked to end a request must have been sent to be in its hands.
const handTime = 250 * time.Millisecond

// lost says whether a request may have been lost with a life of the router: killed, or asked to end before it had the request.
func (j *judge) lost(res *result) bool {
	return slices.ContainsFunc(j.spans, func(s span) bool {
		return s.worker < 0 && s.near(res.began, res.end) && (s.action != restarts || res.began.After(s.from.Add(-handTime)))
	})
}

func (s span) near(from, to time.Time) bool {
	return s.from.Before(to.Add(100*time.Millisecond)) && s.to.Add(500*time.Millisecond).After(from)
}

// workerTouched says whether a fault of one worker may have been felt.
func (j *judge) workerTouched(worker string, from, to time.Time) bool {
	return slices.ContainsFunc(j.spans, func(s span) bool {
		return s.worker >= 0 && workerName(s.worker) == worker && s.from.Before(to) && s.to.Add(slack).After(from)
	})
}

// moved says whether a worker was taken out between two times.
func (j *judge) moved(worker string, from, to time.Time) bool {
	return slices.ContainsFunc(j.spans, func(s span) bool {
		return s.moves() && workerName(s.worker) == worker && s.from.Before(to) && s.to.Add(time.Second).After(from)
	})
}

// end takes what a client saw. It is judged when all that workers had to note of it has come.
func (j *judge) end(res *result) {
	j.mu.Lock()
	j.pending = append(j.pending, res)
	j.mu.Unlock()
}

// settleTime is how long after an answer workers' notes may still come; leaveTime is how long an engine may go on for a client that left.
const (
	settleTime = 1500 * time.Millisecond
	leaveTime  = 3 * time.Second
)

// sit judges what is old enough, or all.
func (j *judge) sit(all bool) {
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	kept := j.pending[:0]
	for _, res := range j.pending {
		wait := settleTime
		if res.left {
			wait += leaveTime
		}
		if !all && now.Sub(res.end) < wait {
			kept = append(kept, res)
			continue
		}
		j.one(res)
	}
	clear(j.pending[len(kept):])
	j.pending = kept
}

// one judges a request and forgets it. j.mu is held.
func (j *judge) one(res *result) {
	tries := j.attempts[res.r.id]
	slices.SortFunc(tries, func(a, b *attempt) int { return cmp.Compare(a.At, b.At) })
	v, what := j.weigh(res, tries)
	if what == "" {
		what = j.repeated(res, tries)
	}
	if what != "" {
		j.wrong(anomaly{what: what, res: res, attempts: tries})
	} else {
		j.verdicts[v]++
	}
	if v == right && res.r.kind == asks && res.r.want.model == calm && !j.touched(res.r, res.began, res.end) {
		j.calmly = append(j.calmly, timed{res.began, res.end.Sub(res.began)})
	}
	delete(j.attempts, res.r.id)
	for _, a := range tries {
		delete(j.byTag, a.Tag)
	}
}

// attemptsMax is how often workers may see one request: the retries there are, each of them once more on a fresh connection.
const attemptsMax = 2 * (1 + 3)

// repeated looks for work that was done for nothing: once more after a good answer, or for a client that had left.
func (j *judge) repeated(res *result, tries []*attempt) string {
	if len(tries) > attemptsMax {
		return fmt.Sprintf("workers got the request %d times", len(tries))
	}
	for i, a := range tries {
		began, over := time.Unix(0, a.At), time.Unix(0, a.overAt)
		if res.left && !j.workerTouched(a.worker(), began, res.end.Add(leaveTime)) && (!a.over || over.After(res.end.Add(leaveTime))) {
			return fmt.Sprintf("worker %s still works on it, %v after its client left", a.worker(), leaveTime)
		}
		said := a.Mode.says(res.r.ask, a.wanted(), a.Tag)
		if !a.over || !a.Sent || !said.whole || said.status != 200 || a.Mode == errFirst || a.Mode == tail {
			continue
		}
		for _, b := range tries[i+1:] {
			if b.At > a.overAt && !j.workerTouched(b.worker(), began, time.Unix(0, b.At)) && !j.moved(a.worker(), began, time.Unix(0, b.At)) {
				return fmt.Sprintf("worker %s got it after worker %s had answered it well", b.worker(), a.worker())
			}
		}
	}
	return ""
}

// wanted is the form in which the worker was asked.
func (a *attempt) wanted() want {
	return want{api: a.API, stream: a.Stream, usage: a.Usage, model: a.Model, prompt: a.Prompt, cached: a.Cached}
}
