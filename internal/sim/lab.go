package sim

import (
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"github.com/warmpath/warmpath/internal/engine"
	"github.com/warmpath/warmpath/internal/forecast"
	"github.com/warmpath/warmpath/internal/lineup"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/traces"
	"github.com/warmpath/warmpath/internal/usher"
)

// lab is one run.
type lab struct {
	config   Config
	now      time.Duration
	workers  []*worker
	routers  []*router
	events   events
	arrivals *traces.Arrivals
	spray    *rand.Rand // of the router that a request comes to
	reader   traces.Reader
	next     traces.Request // the trace's next one, unless
	ended    bool
	live     int // requests and sessions on their way
	placed   int
	until    time.Duration // the run ends then, where Force says so
	ends     []int32       // prompt bytes at the ends of blocks, for prompts of any length
	most     int           // tokens of the largest request that fits anywhere
	spare    []*flight
	result   *Result
}

// flight is one request on its way.
type flight struct {
	request  traces.Request
	sequence *engine.Sequence
	keys     []prefix.Key
	chain    prefix.Chain
	session  *session
	router   *router
	worker   *worker
	want     sched.Request
	guest    usher.Guest
	pick     pick
	course   sched.Course
	decision sched.Decision // kept where it is to be told
	forecast forecast.Forecast
	came     time.Duration // to its router
	waits    bool          // it did not find room when it came
	told     int           // generated tokens that the router knows of
	atWorker int           // index in its flights

	pool      *Pool         // that it went to; nil: there are none
	tenant    *Tenant       // nil: figures are not told apart
	counted   int           // generated tokens that its tenant was told,
	lastToken time.Duration // and when
}

// session is the requests that are still to come, in order.
type session struct {
	left  []traces.Request
	began time.Duration
}

// promptBytes is the bytes that a token of a prompt is taken to have: the router is told prompts in bytes.
const promptBytes = 4

func newLab(c Config) (*lab, error) {
	l := &lab{config: c, arrivals: traces.NewArrivals(c.Seed, c.Jitter, c.Rate), spray: rand.New(rand.NewPCG(c.Seed, 0x7370726179)), most: lineup.Most(c.Fleet)}
	l.result = newResult(c)
	var err error
	if l.result.Pools, err = PoolsIn(c.Pools, c.Fleet); err == nil {
		l.result.Models, err = ModelsIn(c.Models, c.Fleet)
	}
	if err != nil {
		return nil, err
	}
	for i, spec := range c.Fleet {
		p := blocksOf(spec.Profile, c.Trace.BlockTokens)
		w := &worker{number: i, core: engine.NewCore(p), profile: p}
		if !c.Assumed && c.EventDelay+c.ViewDelay > 0 {
			w.view = newBlockView(w.core, c.EventDelay+c.ViewDelay, func() time.Duration { return l.now })
		}
		l.workers = append(l.workers, w)
	}
	for i := range c.Replicas {
		r, err := newRouter(l, i)
		if err != nil {
			return nil, err
		}
		l.routers = append(l.routers, r)
	}
	return l, nil
}

func (l *lab) start(r traces.Reader) error {
	l.reader = r
	if err := l.read(); err != nil {
		return err
	}
	for i := range l.routers {
		// Routers do not scrape in step.
		l.events.push(event{at: time.Duration(i) * scrapeEvery / time.Duration(len(l.routers)), kind: scrape, router: l.routers[i]})
	}
	if l.config.SampleEvery > 0 {
		l.events.push(event{kind: sample})
	}
	for range l.config.AtOnce {
		if err := l.startSession(l.arrivals.Within(staggerOver)); err != nil {
			return err
		}
	}
	return nil
}

// staggerOver is the time within which the first sessions start.
const staggerOver = 30 * time.Second

// read gets the trace's next request.
func (l *lab) read() error {
	err := l.reader.Next(&l.next)
	if err == io.EOF {
		l.ended = true
		return nil
	}
	return err
}

// stamp is when the trace's next request arrives at the earliest.
func (l *lab) stamp() time.Duration { return time.Duration(float64(l.next.At) / l.config.Rate) }

// step does what comes next; false when nothing does.
func (l *lab) step() (more bool, err error) {
	at, w := l.nextEnd()
	if e := l.events.peek(); e != nil && (w == nil || e.at < at) {
		at, w = e.at, nil
	}
	if l.config.AtOnce == 0 {
		for !l.ended && l.stamp() <= at {
			if err := l.arrive(); err != nil {
				return false, err
			}
			if e := l.events.peek(); e.at < at {
				at, w = e.at, nil
			}
		}
	}
	if l.live == 0 && l.ended {
		return false, nil
	}
	l.now = max(l.now, at)
	if w != nil {
		l.settle(w)
	} else {
		l.handle(l.events.pop())
	}
	for _, r := range l.routers {
		if r.ripe {
			r.pump()
		}
	}
	return true, l.failed()
}

// nextEnd is the worker whose computation ends first.
func (l *lab) nextEnd() (at time.Duration, first *worker) {
	for _, w := range l.workers {
		if w.busy && (first == nil || w.end < at) {
			at, first = w.end, w
		}
	}
	if first == nil {
		at = 1<<63 - 1
	}
	return at, first
}

// arrive takes the trace's next request, or its next session, and lets it arrive within the grain of its stamp.
func (l *lab) arrive() error {
	at := l.arrivals.At(l.next.At)
	if l.config.Trace.Sessions {
		return l.startSession(at)
	}
	l.live++
	l.events.push(event{at: at, kind: arrival, flight: l.flight(l.next, nil)})
	return l.read()
}

// startSession reads the next session and lets its first request come at that time.
func (l *lab) startSession(at time.Duration) error {
	if l.ended {
		return nil
	}
	s := &session{left: []traces.Request{l.next}, began: at}
	for {
		if err := l.read(); err != nil {
			return err
		}
		if l.ended || !l.next.Follows {
			break
		}
		s.left = append(s.left, l.next)
	}
	l.live++
	l.follow(s, at)
	return nil
}

// follow lets a session's next request come; its end makes room for another.
func (l *lab) follow(s *session, at time.Duration) {
	q := s.left[0]
	s.left = s.left[1:]
	l.events.push(event{at: at, kind: arrival, flight: l.flight(q, s)})
}

// over ends a request's part in the run, and with its last one, or one that was refused, its session.
func (l *lab) over(f *flight, refused bool) {
	s := f.session
	if s != nil && !refused && len(s.left) > 0 {
		l.follow(s, l.now+s.left[0].Think)
		return
	}
	l.live--
	if s == nil {
		return
	}
	l.result.sessionEnded(l.now-s.began, refused)
	if l.config.AtOnce > 0 {
		l.result.err = errors.Join(l.result.err, l.startSession(l.now))
	}
}

func (l *lab) failed() error { return l.result.err }

func (l *lab) flight(q traces.Request, s *session) *flight {
	var f *flight
	if n := len(l.spare); n > 0 {
		f = l.spare[n-1]
		l.spare = l.spare[:n-1]
	} else {
		f = new(flight)
	}
	*f = flight{request: q, session: s, sequence: f.sequence, keys: f.keys[:0]}
	return f
}

func (l *lab) handle(e event) {
	switch e.kind {
	case arrival:
		l.place(e.flight)
	case noticeFirst:
		e.flight.router.firstToken(e.flight)
	case noticeEnd:
		e.flight.router.ended(e.flight)
		l.spare = append(l.spare, e.flight)
	case noticeCounts:
		e.router.observe(e.counts)
	case scrape:
		e.router.scrape()
		l.events.push(event{at: l.now + scrapeEvery, kind: scrape, router: e.router})
	case turn:
		e.router.armed, e.router.ripe = false, true
	case sample:
		l.result.sample(l.workers)
		l.events.push(event{at: l.now + l.config.SampleEvery, kind: sample})
	}
}

// place routes a request and gives it to its engine.
func (l *lab) place(f *flight) {
	q := &f.request
	f.came, f.tenant = l.now, nil
	if l.config.ByTenant {
		f.tenant = l.result.tenant(l.config.Queue, q.Tenant)
		f.tenant.Came++
	}
	if q.Prompt+q.Output > l.most {
		l.refuse(f, nil)
		return
	}
	f.keys = q.Keys(f.keys)
	blocks := min(len(f.keys), q.Prompt/l.config.Trace.BlockTokens)
	f.chain = prefix.Chain{Keys: f.keys[:blocks], Ends: l.endsOf(blocks)}
	f.router = l.routers[0]
	if n := len(l.routers); n > 1 {
		f.router = l.routers[l.spray.IntN(n)]
	}
	waits, err := f.router.enter(f)
	switch f.waits = waits; {
	case err != nil:
		l.refuse(f, err)
	case !waits:
		l.submit(f)
	}
}

// submit gives a placed request to its engine.
func (l *lab) submit(f *flight) {
	q, w := &f.request, f.worker
	l.result.turned(f)
	if x := l.config.Force; x != nil && x.Request == l.placed {
		l.until, l.result.Chosen = l.now+x.Horizon, w.number
		f.router.sched.Reseed(x.Seed)
	}
	l.placed++
	if f.sequence == nil {
		f.sequence = new(engine.Sequence)
	}
	*f.sequence = engine.Sequence{PromptTokens: q.Prompt, OutputTokens: q.Output, Keys: f.keys, Owner: f}
	if err := w.core.Submit(f.sequence, l.now); err != nil {
		f.router.failed(f)
		l.refuse(f, nil)
		return
	}
	f.atWorker = len(w.flights)
	w.flights = append(w.flights, f)
	w.waiting = append(w.waiting, f)
	if w.busy {
		w.end = w.core.Cut(l.now)
	} else {
		w.begin(l.now)
	}
}

// endsOf is the prompt bytes at the ends of that many blocks; prompts share it.
func (l *lab) endsOf(blocks int) []int32 {
	for n := len(l.ends); n < blocks; n++ {
		l.ends = append(l.ends, int32((n+1)*l.config.Trace.BlockTokens*promptBytes))
	}
	return l.ends[:blocks]
}

func (l *lab) refuse(f *flight, why error) {
	l.result.refused(l, f, refusal(why))
	l.over(f, true)
	l.spare = append(l.spare, f)
}

func (w *worker) begin(now time.Duration) {
	w.begun = now
	w.end, w.busy = w.core.BeginStretch(now)
	for len(w.waiting) > 0 && w.waiting[0].sequence.Running() {
		w.waiting = w.waiting[1:]
	}
}

// settle ends what a worker computed, tells of it, and lets it go on.
func (l *lab) settle(w *worker) {
	steps := w.core.Planned()
	out := w.core.End()
	w.steps.add(w.begun, l.now, steps)
	if l.config.ByTenant {
		l.result.account(l, w)
	}
	for _, e := range out {
		f := e.Sequence.Owner.(*flight)
		if e.First && f.want.Streamed || e.Finished {
			f.router.keep(f)
		}
		if e.First {
			l.notify(noticeFirst, f)
		}
		if e.Finished {
			l.leave(w, f)
		}
	}
	w.begin(l.now)
}

// leave takes a finished request out of its worker.
func (l *lab) leave(w *worker, f *flight) {
	w.drop(f)
	l.result.finished(l, f, w.number)
	l.over(f, false)
	l.notify(noticeEnd, f)
}

// notify tells the request's router, now or when its view has caught up.
func (l *lab) notify(kind eventKind, f *flight) {
	e := event{at: l.now + l.config.ViewDelay, kind: kind, flight: f}
	if l.config.ViewDelay == 0 {
		l.handle(e)
		return
	}
	l.events.push(e)
}

func (l *lab) finish() *Result {
	l.result.close(l)
	return l.result
}
