package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/line"
	"github.com/warmpath/warmpath/internal/models"
	"github.com/warmpath/warmpath/internal/room"
	"github.com/warmpath/warmpath/internal/sched"
)

// Queue has requests wait for room on a worker as the router's gate does.
type Queue struct {
	line.Options
	Room room.Limits
	// Class is that of tenants of whom Tenants says nothing.
	Class   string
	Tenants map[string]Share
	// Alike takes all tenants for one, as a queue that knows nobody.
	Alike bool
}

// Share is a tenant's class and its weight in it; "" and 0 are the usual.
type Share struct {
	Class  string
	Weight float64
	// Whole has its answers come in one piece at their end, and not as streams.
	Whole bool
}

// classOf is a class' place among all; the last one for a class that there is not, as in flow.
func (q *Queue) classOf(tenant string) (class int, weight float64) {
	name, share := q.Class, q.Tenants[tenant]
	if share.Class != "" {
		name = share.Class
	}
	for i, c := range q.Classes {
		if c.Name == name {
			return i, share.Weight
		}
	}
	return len(q.Classes) - 1, share.Weight
}

// className is what a tenant's class is called; "" without a queue.
func (q *Queue) className(tenant string) string {
	if q == nil || len(q.Classes) == 0 {
		return ""
	}
	class, _ := q.classOf(tenant)
	return q.Classes[class].Name
}

// openLine has the router's requests wait in a line of its own.
func (r *router) openLine(q *Queue) error {
	l, err := line.New(q.Options, r.sched, func(e *line.Entry) (*sched.Decision, error) { return r.reserve(e.Owner.(*flight)) })
	if err != nil {
		return fmt.Errorf("the queue: %w", err)
	}
	l.Sight = r.sight()
	r.usher.Behind(l)
	r.line, r.shed = l, rand.New(rand.NewPCG(r.lab.config.Seed+uint64(r.number)<<32, 0x73686564))
	return nil
}

// enter has a request placed, or wait. Without a queue nobody waits here.
func (r *router) enter(f *flight) (waits bool, err error) {
	r.ask(f)
	f.guest.Owner, f.guest.Request = f, &f.want
	if r.line != nil {
		r.stand(f)
	}
	if err = r.choose(f); err != nil {
		return false, err
	}
	for waits, err = r.admit(f); err != nil && r.elsewhere(f, err); waits, err = r.admit(f) {
	}
	return waits, err
}

// stand says where in the queue a request belongs.
func (r *router) stand(f *flight) {
	q, g := r.lab.config.Queue, &f.guest
	g.Item = flow.Item{Tenant: f.request.Tenant, Bytes: int64(f.want.Bytes)}
	if g.Item.Class, g.Item.Weight = q.classOf(f.request.Tenant); q.Alike {
		g.Item.Tenant, g.Item.Weight = "", 1
	}
	g.BestEffort = g.Item.Class == len(q.Classes)-1
}

// admit is enter for the model that was chosen.
func (r *router) admit(f *flight) (waits bool, err error) {
	g, now := &f.guest, at(r.lab.now)
	if r.line == nil {
		r.usher.Route(now, g, false)
		_, err = r.reserve(f)
		return false, err
	}
	r.stand(f)
	g.Among, g.Course = r.usher.Home(g), &f.course
	waits, err = r.line.Enter(now, &g.Entry, r.shed.Float64())
	r.arm()
	return waits, err
}

// pump gives those who wait what room there is. It is called when what may have made room is over.
func (r *router) pump() {
	l := r.lab
	r.ripe = false
	if r.line == nil || r.line.Waiting() == 0 {
		return
	}
	now := at(l.now)
	for e := r.line.Next(now); e != nil; e = r.line.Next(now) {
		if f := e.Owner.(*flight); e.Err != nil {
			l.refuse(f, e.Err)
		} else {
			l.submit(f)
		}
	}
	r.preempt(now)
	for e := r.line.Late(now); e != nil; e = r.line.Late(now) {
		l.refuse(e.Owner.(*flight), e.Err)
	}
	r.arm()
}

// turnEvery is how often those who wait are looked at when nothing happens, as in the gate.
const turnEvery = time.Second

// arm looks at those who wait again when the next one's time is up, as long as somebody waits.
func (r *router) arm() {
	due, some := r.line.Due()
	if !some || r.armed {
		return
	}
	r.armed = true
	r.lab.events.push(event{at: r.lab.now + min(turnEvery, max(0, due.Sub(at(r.lab.now)))), kind: turn, router: r})
}

// Why a request was refused that the workers of its pools cannot take now and that does not wait for them, and one that no model may answer.
const (
	nobody  flow.Reason = "no_worker"
	noModel flow.Reason = "no_model"
)

// refusal is why a request was turned away; nil: it fits on no worker.
func refusal(err error) *flow.Refusal {
	var r *flow.Refusal
	var shut *sched.ErrNoWorker
	var none *models.ErrNone
	var forbidden *models.ErrForbidden
	switch {
	case errors.As(err, &r):
	case errors.As(err, &shut):
		r = &flow.Refusal{Reason: nobody}
	case errors.As(err, &none), errors.As(err, &forbidden):
		r = &flow.Refusal{Reason: noModel}
	}
	return r
}
