package gate

import (
	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/sched"
)

// Prospect is how a model is for one request, now.
type Prospect struct {
	Up           bool // some worker can take requests for it
	Overloaded   bool // all of them said that they are busy, or it would wait for longer than it may
	ContextMax   int  // the longest of its workers'; 0 unknown
	PromptTokens int  // of the prompt, as the model's bytes make tokens
	WaitSeconds  float64
	Output       cost.Lengths
	There        cost.Conditions // the mean of its workers'
}

// Prospect is what a request for req.Model would meet; of w the class and the limits are looked at. Nothing is reserved.
func (g *Gate) Prospect(req sched.Request, w *Wait) (p Prospect) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if p.PromptTokens = req.PromptTokens; req.Bytes > 0 {
		p.PromptTokens = g.ratio.Tokens(req.Model, req.Bytes)
	}
	req.PromptTokens = p.PromptTokens
	p.Output = g.casts.Work(&req).Output
	var conditions []cost.Conditions
	unlimited, busy := false, 0
	for _, worker := range g.fleet.Workers() {
		m, serves := worker.Model(req.Model)
		if !serves || worker.Draining() || !worker.Healthy(now) || req.Only != "" && worker.ID != req.Only {
			continue
		}
		p.ContextMax, unlimited = max(p.ContextMax, m.ContextMax), unlimited || m.ContextMax == 0
		conditions = append(conditions, cost.ConditionsAt(worker, g.costs.Of(worker).Constants(), worker.Load(now), float64(p.PromptTokens)))
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
	ask := w.Ask()
	ask.Request = &req
	wait := g.usher.Wait(now, &ask)
	p.WaitSeconds = wait.Seconds()
	if most := ask.Item.WaitMax; most > 0 && wait > most || !ask.Item.StartBy.IsZero() && now.Add(wait).After(ask.Item.StartBy) {
		p.Overloaded = true
	}
	return p
}
