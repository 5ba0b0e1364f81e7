package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/forecast"
	"github.com/warmpath/warmpath/internal/line"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/usher"
)

// scrapeEvery is the time between two looks at the engines' counts, as in production.
const scrapeEvery = time.Second

// modelName is what simulated engines serve that are not labelled otherwise.
const modelName = "m"

// gapsMax is how many token gaps of a request are looked at.
const gapsMax = 256

// router is the production router's rooms, as its gate holds them.
type router struct {
	lab     *lab
	number  int
	fleet   *fleet.Fleet
	index   *prefix.Index // nil when caches are known
	sched   *sched.Scheduler
	workers []*fleet.Worker // as in lab.workers
	held    []int32
	gaps    []float32
	seen    observation // of the latest scrape
	casts   *forecast.Book
	usher   *usher.Usher
	book    *cost.Book
	chooser *chooser   // nil: all workers serve the same model
	line    *line.Line // nil: nobody waits here
	shed    *rand.Rand // the chance by which its queue refuses
	ripe    bool       // there may be room for those who wait
	armed   bool       // a turn is among the events
}

func newRouter(l *lab, number int) (*router, error) {
	c := &l.config
	r := &router{lab: l, number: number, fleet: fleet.New(fleet.DefaultOptions()), held: make([]int32, len(l.workers))}
	options := cost.DefaultOptions()
	if c.Known {
		options.Fixed = true
		for _, p := range c.Fleet {
			options.Engines[p.Name] = p.Constants
		}
	}
	ratio := cost.NewRatio()
	if c.Assumed {
		bytes := int64(0)
		for _, p := range c.Fleet {
			bytes += int64(p.KVTokensMax / c.Trace.BlockTokens)
		}
		r.index = prefix.New(prefix.Options{BytesMax: max(prefix.DefaultOptions().BytesMax, 128*bytes)})
	}
	for i, w := range l.workers {
		fw, err := r.fleet.Add(workerID(i), "http://"+workerID(i), at(0))
		if err != nil {
			panic(err) // the ids are ours
		}
		info := fleet.Info{
			Engine: "vllm", Models: []fleet.Model{{ID: r.serves(i)}}, BlockTokens: min(w.profile.BlockTokens, assumedBlock),
			KVTokensMax: w.profile.KVTokensMax, SlotsMax: w.profile.BatchMax, At: at(0),
		}
		if c.Known {
			info.Engine = w.profile.Name
		}
		fw.SetInfo(info)
		if r.index != nil {
			r.index.SetCapacity(fw.Slot, int64(w.profile.KVTokensMax)*promptBytes)
		}
		r.workers = append(r.workers, fw)
	}
	o := sched.Options{Policy: c.Policy, Seed: c.Seed + uint64(number)<<32, Without: c.Without}
	if c.Queue != nil {
		o.Room = c.Queue.Room
	}
	book, outputs := cost.NewBook(options), cost.NewOutputs(0)
	r.book, r.chooser = book, newChooser(c, number)
	r.sched, r.casts = sched.New(r.fleet, r.index, book, outputs, ratio, o), forecast.New(book, outputs)
	r.usher = usher.New(r.fleet, r.sched, outputs)
	if c.Queue != nil {
		if err := r.openLine(c.Queue); err != nil {
			return nil, err
		}
	}
	r.usePools()
	return r, nil
}

// serves is the model of a worker.
func (r *router) serves(number int) string {
	if r.lab.config.Models == nil {
		return modelName
	}
	return Served(r.lab.config.Fleet[number])
}

// assumedBlock is the tokens of a block of the engines that are simulated.
const assumedBlock = 16

// at is virtual time as the rooms want it.
func at(d time.Duration) time.Time { return time.Unix(1_700_000_000, 0).Add(d) }

// ask fills in what the scheduler is asked for.
func (r *router) ask(f *flight) {
	if r.lab.config.ViewDelay == 0 {
		r.catchUp()
	}
	q, request := &f.request, &f.want
	*request = sched.Request{
		Model: modelName, Tenant: q.Tenant, Chain: f.chain, Bytes: q.Prompt * promptBytes, PromptTokens: q.Prompt,
		SessionKey: q.Session, Streamed: !r.whole(f), Generates: q.Output > 0,
	}
	if r.index == nil {
		request.Held = r.cached(f)
	}
	if x := r.lab.config.Force; x != nil && x.Request == r.lab.placed && x.Worker >= 0 {
		request.Only = r.workers[x.Worker].ID
	}
}

// reserve chooses a worker for a request and reserves there.
func (r *router) reserve(f *flight) (*sched.Decision, error) {
	now := at(r.lab.now)
	if f.waits {
		r.lookAgain(now, f)
	}
	var d sched.Decision
	var reservation *fleet.Reservation
	to, err := r.usher.Place(now, &f.guest, func() (err error) {
		d, reservation, err = r.sched.Place(now, f.want)
		return err
	})
	if err != nil {
		return nil, err
	}
	r.lab.result.pooled(f, to)
	r.sent(f)
	f.course, f.forecast = sched.Follow(&d, reservation, now), r.casts.Expect(now, &d, &f.want, true)
	r.lab.result.decided(r.lab, &d)
	if r.lab.config.Told != nil {
		f.decision = d
	}
	f.worker = r.lab.workers[d.Worker.Slot]
	return &d, nil
}

// lookAgain works out anew what may have changed while a request waited.
func (r *router) lookAgain(now time.Time, f *flight) {
	if r.lab.config.ViewDelay == 0 {
		r.catchUp()
	}
	if r.index == nil {
		f.want.Held = r.cached(f) // it may be another's by now
	}
	r.usher.Route(now, &f.guest, true)
}

// catchUp tells the fleet of the tokens that were generated since the last request came: what streams would have told by now.
func (r *router) catchUp() {
	for _, w := range r.lab.workers {
		ahead := w.core.Decoded(r.lab.now)
		for _, f := range w.flights {
			f.tell(r, ahead)
		}
	}
}

func (f *flight) tell(r *router, ahead int) {
	if f.router != r || f.sequence.Generated == 0 || !f.want.Streamed {
		return
	}
	if n := f.sequence.Generated + ahead; n > f.told {
		f.course.Reservation().Generated(n - f.told)
		f.told = n
	}
}

// cached is how many leading blocks each worker holds, or will by the time that it comes to this request: what was sent there and
// waits counts too, as far as this router sent it.
func (r *router) cached(f *flight) []int32 {
	for i, w := range r.lab.workers {
		n := 0
		if w.view != nil {
			n = w.view.depth(r.lab.now, f.chain.Keys)
		} else {
			n = w.core.Cached(f.chain.Keys)
		}
		if n < len(f.chain.Keys) {
			others := w.waiting
			if w.view != nil {
				others = w.flights
			}
			for _, o := range others {
				if o.router == r {
					n = max(n, common(f.chain.Keys, o.chain.Keys))
				}
			}
		}
		r.held[i] = int32(n)
	}
	return r.held
}

// common is the length of the common prefix; keys are chained, so those behind a difference differ too.
func common(a, b []prefix.Key) int {
	low, high := 0, min(len(a), len(b))
	if high == 0 || a[0] != b[0] {
		return 0
	}
	for low < high {
		if middle := (low + high) / 2; a[middle] == b[middle] {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

func (r *router) firstToken(f *flight) {
	if !f.want.Streamed {
		return // nobody sees it
	}
	r.sched.FirstToken(&f.course, at(f.sequence.FirstToken))
	r.ripe = true
}

// ended releases and learns, as the router does when an answer is complete.
func (r *router) ended(f *flight) {
	s := f.sequence
	end := at(s.Finished)
	r.sched.Release(&f.course, f.chain, end, fleet.Succeeded, true)
	lesson := sched.Lesson{
		Model: f.want.Model, Tenant: f.request.Tenant, Chain: f.chain, Streamed: f.want.Streamed, Whole: true, PromptTokens: s.PromptTokens, Counted: true,
		CachedTokens: s.CachedTokens, Reported: true, Generated: s.Generated, FirstToken: at(s.FirstToken), Ended: end,
	}
	if !f.want.Streamed {
		lesson.FirstToken = end // of a whole reply nothing is seen before it is there
	} else if !r.lab.config.Known {
		r.gaps = f.worker.steps.gaps(r.gaps[:0], s.FirstToken, s.Finished, gapsMax)
		lesson.Gaps = r.gaps
	}
	r.sched.Learn(&f.course, lesson)
	r.casts.Learn(&f.forecast, &lesson, &f.course)
	if told := r.lab.config.Told; told != nil {
		told(Told{Request: &f.request, Decision: &f.decision, Forecast: &f.forecast, Sequence: s})
	}
	if r.line != nil {
		r.line.Settle(&f.guest.Entry, true, &lesson)
	}
	r.ripe = true
}

// failed gives back what a request that its engine refused had reserved.
func (r *router) failed(f *flight) {
	r.sched.Release(&f.course, f.chain, at(r.lab.now), fleet.Refused, false)
	if r.line != nil {
		r.line.Settle(&f.guest.Entry, false, nil)
	}
	r.ripe = true
}

// observation is one scrape of all engines, on its way to a router.
type observation struct{ counts []fleet.Counts }

// scrape reads every engine's counts, as telemetry does.
func (r *router) scrape() {
	o := &r.seen
	if r.lab.config.ViewDelay > 0 {
		o = new(observation) // it will be on its way when the next one is made
	}
	o.counts = slices.Grow(o.counts[:0], len(r.workers))
	for i, w := range r.lab.workers {
		o.counts = append(o.counts, fleet.Counts{
			Running: w.core.Running(), Waiting: w.core.Waiting(), KVUsage: w.core.KVUsage(),
			Has: fleet.HasRunning | fleet.HasWaiting | fleet.HasKVUsage, OursBefore: r.workers[i].InFlight(), At: at(r.lab.now),
		})
	}
	if d := r.lab.config.ViewDelay; d > 0 {
		r.lab.events.push(event{at: r.lab.now + d, kind: noticeCounts, router: r, counts: o})
		return
	}
	r.observe(o)
}

func (r *router) observe(o *observation) {
	if r.lab.config.ViewDelay > 0 {
		for _, w := range r.lab.workers {
			for _, f := range w.flights {
				f.tell(r, 0)
			}
		}
	}
	for i, w := range r.workers {
		w.Observe(o.counts[i])
	}
	r.ripe = true
}
