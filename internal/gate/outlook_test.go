package gate

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/heavy"
	"github.com/warmpath/warmpath/internal/pools"
	"github.com/warmpath/warmpath/internal/sched"
)

// foretold asks for an outlook, and holds that the gate is as it was.
func (g *Gate) foretold(t *testing.T, class int) (Outlook, error) {
	t.Helper()
	before, _ := g.QueueStats()
	w := &Wait{}
	w.Item.Class = class
	was := *w
	o, err := g.Outlook(request(chainOf(long('a'))), w, Otherwise{})
	after, _ := g.QueueStats()
	before.Lines, after.Lines = nil, nil // their speed is measured by the clock
	for i := range before.Classes {
		before.Classes[i].Oldest, after.Classes[i].Oldest = 0, 0
	}
	if !reflect.DeepEqual(before, after) || !reflect.DeepEqual(was, *w) {
		t.Fatalf("asking changed the queue from %+v to %+v", before, after)
	}
	return o, err
}

func TestAnOutlookTellsWhoWouldWaitAndBehindWhom(t *testing.T) {
	g := queued(t, func(o *QueueOptions) { o.RequestsMax = 2 }, "a")
	o, err := g.foretold(t, 1)
	if err != nil || o.Waits || o.Worker == nil || o.Worker.ID != "a" || g.InFlight("a") != 0 {
		t.Fatalf("%v, %+v", err, o)
	}
	var inside []*entrant
	for range 2 {
		e := g.enter(t.Context(), 1)
		e.placed(t)
		g.FirstToken(&e.a, time.Now())
		inside = append(inside, e)
	}
	if o, err = g.foretold(t, 1); err != nil || !o.Waits || o.Queue.Before != 0 {
		t.Fatalf("%v, %+v", err, o)
	}
	waiting := g.enter(t.Context(), 1)
	g.inside(t, 1)
	if o, err = g.foretold(t, 0); err != nil || !o.Waits || o.Queue.Before != 0 {
		t.Errorf("one of a class above: %v, %+v", err, o.Queue)
	}
	var r *flow.Refusal
	if o, err = g.foretold(t, 1); !errors.As(err, &r) || r.Reason != flow.Full || o.Queue.Refusal != r || len(o.Rows) != 1 {
		t.Errorf("beyond the ceiling of its class: %v, %+v", err, o)
	}
	g.over(inside[0])
	waiting.placed(t)
	g.over(inside[1])
	g.over(waiting)
}

func TestAnOutlookByAnotherPolicyLeavesTheOneInForce(t *testing.T) {
	g := queued(t, nil, "a", "b")
	o, err := g.Outlook(request(chainOf(long('a'))), &Wait{}, Otherwise{Policy: "round-robin"})
	if err != nil || o.Policy != "round-robin" || g.Policy() != sched.DefaultPolicy {
		t.Errorf("%v, %q, then %q", err, o.Policy, g.Policy())
	}
	if _, err := g.Outlook(request(chainOf(long('a'))), &Wait{}, Otherwise{Policy: "none such"}); err == nil || g.Policy() != sched.DefaultPolicy {
		t.Errorf("%v, then %q", err, g.Policy())
	}
}

func TestAnOutlookGoesToThePoolThatTheRequestWould(t *testing.T) {
	for _, withQueue := range []bool{true, false} {
		g := newGate(t)
		if withQueue {
			if err := g.UseQueue(QueueOptions{Options: flow.DefaultOptions(), Heavy: heavy.DefaultRule()}); err != nil {
				t.Fatal(err)
			}
		}
		set, problems := pools.New(pools.Options{
			Pools:   []pools.Pool{{Name: "short", Workers: []string{"a"}}, {Name: "long", Workers: []string{"b"}}},
			Rules:   []pools.Rule{{Name: "tenants", Tenants: []string{"deep"}, To: []string{"long"}}},
			Default: "short",
		})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		g.UsePools(set)
		for _, id := range []string{"a", "b"} {
			if _, err := g.Add(Worker{ID: id, URL: "http://" + id, Models: []string{"m"}}); err != nil {
				t.Fatal(err)
			}
		}
		for tenant, want := range map[string][2]string{"deep": {"b", "long"}, "other": {"a", "short"}} {
			req := request(chainOf(long('a')))
			req.Tenant = tenant
			o, err := g.Outlook(req, &Wait{}, Otherwise{})
			if err != nil || o.Worker == nil || o.Worker.ID != want[0] || o.Pool.Name != want[1] || len(o.Rows) != 2 {
				t.Fatalf("queue %v, tenant %s: %v, %+v", withQueue, tenant, err, o)
			}
			e := &entrant{req: req}
			if err := g.Enter(t.Context(), &e.a, &e.req, &e.w); err != nil || e.a.Pool != o.Pool || e.a.Worker.ID != want[0] {
				t.Errorf("queue %v, tenant %s: foretold %+v, then %v, %+v", withQueue, tenant, o.Pool, err, e.a.Pool)
			}
			g.over(e)
		}
	}
}
