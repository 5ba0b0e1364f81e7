package gate

import (
	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/usher"
)

// Prospect is how a model is for one request, now.
type Prospect struct {
	usher.Prospect
	PromptTokens int // of the prompt, as the model's bytes make tokens
	Output       cost.Lengths
}

// Prospect is what a request for req.Model would meet; of w the class and the limits are looked at. Nothing is reserved.
func (g *Gate) Prospect(req sched.Request, w *Wait) (p Prospect) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.PromptTokens = req.PromptTokens; req.Bytes > 0 {
		p.PromptTokens = g.ratio.Tokens(req.Model, req.Bytes)
	}
	req.PromptTokens = p.PromptTokens
	p.Output = g.casts.Work(&req).Output
	ask := w.Ask()
	ask.Request = &req
	p.Prospect = g.usher.Prospect(g.now(), &ask, func(worker *fleet.Worker) cost.Constants { return g.costs.Of(worker).Constants() })
	return p
}
