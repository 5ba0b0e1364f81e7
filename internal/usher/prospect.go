package usher

import (
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
)

// Prospect is how a model is for one request, now.
type Prospect struct {
	Up          bool // some worker can take requests for it
	Overloaded  bool // all of them said that they are busy, or it would wait for longer than it may
	ContextMax  int  // the longest of its workers'; 0 unknown
	WaitSeconds float64
	There       cost.Conditions // the mean of its workers'
}

// Prospect is what the request would meet if it were for the model that it names; of its item the class and the limits are looked at.
// constants are those of a worker. Nothing is reserved.
func (u *Usher) Prospect(now time.Time, g *Guest, constants func(*fleet.Worker) cost.Constants) (p Prospect) {
	req := g.Request
	var conditions []cost.Conditions
	unlimited, busy := false, 0
	for _, worker := range u.fleet.Workers() {
		m, serves := worker.Model(req.Model)
		if !serves || worker.Draining() || !worker.Healthy(now) || req.Only != "" && worker.ID != req.Only {
			continue
		}
		p.ContextMax, unlimited = max(p.ContextMax, m.ContextMax), unlimited || m.ContextMax == 0
		conditions = append(conditions, cost.ConditionsAt(worker, constants(worker), worker.Load(now), float64(req.PromptTokens)))
		if worker.IsBusy(now) {
			busy++
		}
	}
	if unlimited {
		p.ContextMax = 0
	}
	if p.Up = len(conditions) > 0; !p.Up {
		return p
	}
	p.There, p.Overloaded = cost.Across(conditions), busy == len(conditions)
	wait := u.Wait(now, g)
	p.WaitSeconds = wait.Seconds()
	if most := g.Item.WaitMax; most > 0 && wait > most || !g.Item.StartBy.IsZero() && now.Add(wait).After(g.Item.StartBy) {
		p.Overloaded = true
	}
	return p
}
