package sched

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

// Two equal fleets get the same requests; of one of them outlooks are asked in between. Chance is consumed by what is asked, so that
// scores are compared, and the worker only where it is the one with the least.
func TestAnOutlookSaysWhatAPlacementThenDoesAndChangesNothing(t *testing.T) {
	seed := rand.Uint64()
	for _, policy := range PolicyNames() {
		chance := rand.New(rand.NewPCG(seed, 1))
		asked, plain := newScene(t, policy, 1), newScene(t, policy, 1)
		asked.tellers(12)
		plain.tellers(12)
		other := asked.worker("elsewhere")
		other.SetInfo(fleet.Info{Models: []fleet.Model{{ID: "another"}}, At: asked.now})
		for i := range 200 {
			req := unique(chance.IntN(20), 400+chance.IntN(4000))
			req.MayWait, req.Heavy = chance.IntN(2) == 0, chance.IntN(8) == 0
			asked.s.Reseed(uint64(i))
			o, err := asked.s.Outlook(asked.now, req)
			if len(o.Rows) != 13 {
				t.Fatalf("seed %d, %s: %d rows of 13 workers", seed, policy, len(o.Rows))
			}
			asked.s.Reseed(uint64(i))
			plain.s.Reseed(uint64(i))
			d, r, placeErr := asked.s.Place(asked.now, req)
			p, q, plainErr := plain.s.Place(plain.now, req)
			if fmt.Sprint(placeErr) != fmt.Sprint(plainErr) || placeErr == nil && (d.Worker.ID != p.Worker.ID || d.Rows[0] != rowOf(p, d.Worker)) {
				t.Fatalf("seed %d, %s, request %d: %s (%v) where outlooks are asked, else %s (%v)", seed, policy, i, d.Worker.ID, placeErr, p.Worker.ID, plainErr)
			}
			var full *ErrNoRoom
			if want := errors.As(placeErr, &full); err != nil || o.Room == want {
				t.Fatalf("seed %d, %s, request %d: room %v, %v, then %v", seed, policy, i, o.Room, err, placeErr)
			}
			if placeErr != nil {
				continue
			}
			if o.Worker != d.Worker || o.Cost != d.Cost || o.Reason != d.Reason || o.Hit != d.Hit {
				t.Fatalf("seed %d, %s, request %d: foretold %s, %s, %+v; then %s, %s, %+v", seed, policy, i, o.Worker.ID, o.Reason, o.Cost, d.Worker.ID, d.Reason, d.Cost)
			}
			if chance.IntN(3) == 0 {
				r.Release(asked.now, fleet.Succeeded)
				q.Release(plain.now, fleet.Succeeded)
			}
			step := time.Duration(chance.IntN(50)) * time.Millisecond
			asked.now, plain.now = asked.now.Add(step), plain.now.Add(step)
		}
	}
}

// rowOf is the first row of a decision, with another scene's worker in place of its own.
func rowOf(d Decision, w *fleet.Worker) Row {
	row := d.Rows[0]
	row.Worker = w
	return row
}

func TestAnOutlookWithoutAWorkerTellsTheFilterOfEach(t *testing.T) {
	c := newScene(t, "", 1)
	c.tellers(2)
	if err := c.f.Drain(c.f.Workers()[0].ID); err != nil {
		t.Fatal(err)
	}
	req := unique(1, 400)
	req.Tried = []*fleet.Worker{c.f.Workers()[1]}
	o, err := c.s.Outlook(c.now, req)
	var nobody *ErrNoWorker
	if !errors.As(err, &nobody) || len(o.Rows) != 2 || o.Rows[0].Why != "draining" || o.Rows[1].Why != "tried" || o.Worker != nil {
		t.Errorf("%v, %+v", err, o)
	}
	req.Model = "unheard"
	if o, err := c.s.Outlook(c.now, req); err == nil || len(o.Rows) != 2 || o.Rows[1].Why != "other model" {
		t.Errorf("%v, %+v", err, o)
	}
}
