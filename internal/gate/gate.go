// Package gate is the one critical section of the router: choosing a worker and reserving on it happen under its lock, and so does
// everything else that changes what a choice looks at. The rooms behind it (fleet, prefix, cost, sched) are pure and unlocked; nothing
// in here blocks, dials or calls out.
//
//	g := gate.New(f, index, book, outputs, ratio, scheduler, upstream.DefaultOptions(), time.Now)
//	w, err := g.Add(gate.Worker{URL: "http://10.0.0.7:8000"})
//	a, err := g.Place(sched.Request{Model: "m", Chain: chain})   // chosen and reserved
//	res, err := a.Client.Do(ctx, request)
//	g.FirstToken(a, now)
//	g.Release(a, chain, fleet.Succeeded, true)
package gate

import (
	"fmt"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/forecast"
	"github.com/warmpath/warmpath/internal/life"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/upstream"
	"github.com/warmpath/warmpath/internal/usher"
)

// Gate guards the fleet and all that is known about it. It is safe for concurrent use.
type Gate struct {
	mu      sync.Mutex
	fleet   *fleet.Fleet
	index   *prefix.Index
	costs   *cost.Book
	outputs *cost.Outputs
	ratio   *cost.Ratio
	sched   *sched.Scheduler
	ends    map[*fleet.Worker]*Endpoint
	dial    upstream.Options
	now     func() time.Time
	queue   *queue // nil: nobody waits here
	usher   *usher.Usher
	casts   *forecast.Book
}

// Endpoint is how to reach one worker instance.
type Endpoint struct {
	Worker *fleet.Worker
	Client upstream.Client
	Key    string   // the worker's own credential, "" none
	Rank   string   // the data-parallel rank that requests must name, "" none
	models []string // those that it was added with, which hold for all its incarnations
	// Gone ends when the worker leaves the fleet: requests that have no byte of their answer yet are then placed elsewhere,
	// streams under way go on.
	Gone *life.Context
}

// Attempt is one worker's turn at a request: the decision, and what it takes to act on it.
type Attempt struct {
	Endpoint
	Decision         sched.Decision
	Forecast         forecast.Forecast
	Pool             Pool
	Began            time.Time
	TakesUsageOption bool          // the engine accepts stream_options.include_usage
	Salts            fleet.Salts   // in which requests the engine takes a cache_salt
	Urgency          fleet.Urgency // what it makes of a request's priority

	course sched.Course
	wait   *Wait // its place in the queue, until what it took is settled
}

// Generated notes tokens produced since the last call; it takes no lock.
func (a *Attempt) Generated(n int) { a.course.Reservation().Generated(n) }

// Heard notes that a byte of the answer came; it takes no lock.
func (a *Attempt) Heard() { a.course.Reservation().Heard() }

// Probe says whether this request is the one that tries a worker which is out.
func (a *Attempt) Probe() bool { return a.course.Reservation().Probe() }

// Worker is what it takes to add a worker.
type Worker struct {
	ID          string   // host:port of URL when empty
	URL         string   // http:// or https://, no trailing slash
	Key         string   // credential sent to the worker instead of the client's; empty passes the client's on
	InFlightMax int      // requests in flight at most; 0 = what the engine reports
	Rank        string   // the one data-parallel rank behind URL that this worker is; "" all of them
	Models      []string // served models when the engine cannot tell; nil = ask it
	Labels      []string // such as role=long: pools go by them
}

// ErrWorkerLeft is the cause of a Gone context.
var ErrWorkerLeft = fmt.Errorf("the worker left the fleet")

// New makes a gate over an empty fleet. The rooms are owned by the gate from here on.
func New(f *fleet.Fleet, x *prefix.Index, b *cost.Book, o *cost.Outputs, r *cost.Ratio, s *sched.Scheduler, dial upstream.Options, now func() time.Time) *Gate {
	return &Gate{fleet: f, index: x, costs: b, outputs: o, ratio: r, sched: s, dial: dial, now: now, ends: map[*fleet.Worker]*Endpoint{}, usher: usher.New(f, s, o), casts: forecast.New(b, o)}
}

// rankMark stands in the fleet between a worker's address and its rank, so that ranks behind one address have addresses of their own.
const rankMark = " rank "

// Add puts a worker into the fleet, unknown until telemetry or traffic tells more.
func (g *Gate) Add(c Worker) (*fleet.Worker, error) {
	client, err := upstream.New(c.URL, g.dial)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	address := c.URL
	if c.Rank != "" {
		address += rankMark + c.Rank
	}
	w, err := g.fleet.Add(c.ID, address, g.now())
	if err != nil {
		client.Close()
		return nil, err
	}
	g.usher.Admit(w, c.Labels)
	if g.ends[w] != nil { // was draining: the same instance goes on
		client.Close()
		return w, nil
	}
	w.SetInFlightMax(c.InFlightMax)
	g.reach(Endpoint{Worker: w, Client: client, Key: c.Key, Rank: c.Rank, models: c.Models})
	g.pump()
	return w, nil
}

// reach makes a new instance's worker reachable. It is called with mu held.
func (g *Gate) reach(e Endpoint) {
	if len(e.models) > 0 {
		info := fleet.Info{}
		for _, m := range e.models {
			info.Models = append(info.Models, fleet.Model{ID: m})
		}
		e.Worker.SetInfo(info)
	}
	e.Gone = new(life.Context)
	g.ends[e.Worker] = &e
}

// forget drops all that was known of an instance that is gone, and returns how it was reached. It is called with mu held.
func (g *Gate) forget(w *fleet.Worker) *Endpoint {
	e := g.ends[w]
	delete(g.ends, w)
	g.usher.Forget(w)
	g.index.Forget(w.Slot)
	g.costs.Forget(w)
	g.fleet.SlotFree(w.Slot)
	return e
}

// Remove takes a worker out. Requests there that have no byte of their answer are placed elsewhere at once.
func (g *Gate) Remove(id string) error {
	g.mu.Lock()
	w, err := g.fleet.Remove(id)
	if err != nil {
		g.mu.Unlock()
		return err
	}
	e := g.forget(w)
	g.pump() // those who waited for it alone have waited for nothing
	g.mu.Unlock()
	e.Gone.End(ErrWorkerLeft)
	e.Client.Close()
	return nil
}

// SetPolicy switches the routing policy for the requests that come after.
func (g *Gate) SetPolicy(name string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sched.SetPolicy(name)
}

// Policy is the name of the routing policy in force.
func (g *Gate) Policy() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sched.Policy()
}

// Place chooses a worker and reserves on it. The attempt holds all that is needed of the worker from here on.
func (g *Gate) Place(req sched.Request) (*Attempt, error) {
	a := new(Attempt)
	if err := g.PlaceIn(a, &req); err != nil {
		return nil, err
	}
	return a, nil
}

// PlaceIn is Place into memory of the caller's. An error leaves it as it was.
func (g *Gate) PlaceIn(a *Attempt, req *sched.Request) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.place(a, req)
}

func (g *Gate) place(a *Attempt, req *sched.Request) error {
	now := g.now()
	d, r, err := g.sched.Place(now, *req)
	if err != nil {
		return err
	}
	info := d.Worker.Info()
	a.Endpoint, a.Decision, a.Began, a.TakesUsageOption, a.Urgency, a.Salts, a.course = *g.ends[d.Worker], d, now, info.UsageOption, info.Urgency, info.Salts, sched.Follow(&d, r, now)
	a.Forecast = g.casts.Expect(now, &a.Decision, req, true)
	return nil
}

// CanPlace reports whether Place would find a worker now: a retry that has nowhere to go need not wait for its turn.
func (g *Gate) CanPlace(req sched.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sched.CanPlace(g.now(), req)
}

// Estimate turns prompt bytes into tokens by the model's learned ratio.
func (g *Gate) Estimate(model string, bytes int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ratio.Tokens(model, bytes)
}

// View is what the gate guards, to look at and not to keep.
type View struct {
	Now     time.Time
	Workers []*fleet.Worker
	Index   *prefix.Index
	Costs   *cost.Book
	gate    *Gate
}

// View runs f while nothing changes. f must be quick: requests wait for it.
func (g *Gate) View(f func(View)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f(View{Now: g.now(), Workers: g.fleet.Workers(), Index: g.index, Costs: g.costs, gate: g})
}

// Close closes the idle connections to all workers.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closeQueue()
	for _, e := range g.ends {
		e.Client.Close()
	}
}
