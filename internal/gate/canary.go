package gate

import (
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

// Canary is a request of our own on one worker: it has a reservation like any other, so that nobody takes the worker for idle, and teaches
// nothing of how long requests take.
type Canary struct {
	Endpoint
	Model string // that it is to ask for
	Probe bool   // it tries a worker that is out
	r     *fleet.Reservation
}

// canaryTokens is about what a canary's prompt has in a chat template.
const canaryTokens = 16

// onDemand are engines that read a model's files when somebody asks for it: a canary would keep it in memory, or have it put another out.
var onDemand = map[string]bool{"ollama": true, "lm-studio": true}

// Canaries begins a canary on each worker that wants one, most at the most: those that had nothing to do for idle, and those that are out and
// to be tried. skip are incarnations that are passed over. Each is to be ended.
func (g *Gate) Canaries(idle time.Duration, most int, skip map[uint64]bool) (all []*Canary) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	for _, w := range g.fleet.Workers() {
		if len(all) >= most {
			break
		}
		info := w.Info()
		if len(info.Models) == 0 || skip[w.Incarnation] || !w.WantsCanary(now, idle) {
			continue
		}
		if onDemand[info.Engine] {
			w.TryByClients()
			continue
		}
		r := g.fleet.Reserve(w, fleet.Need{PromptTokens: canaryTokens}, now)
		all = append(all, &Canary{Endpoint: *g.ends[w], Model: info.Models[0].ID, Probe: r.Probe(), r: r})
	}
	return all
}

// CanaryEnd is how a canary ended.
type CanaryEnd struct {
	Good    bool
	Fault   fleet.Fault // when Faulty
	Faulty  bool
	Busy    bool // 429 or 503, to come again After
	After   time.Duration
	Useless bool // the worker takes no canaries, in whatever form: clients' requests try it
}

// EndCanary takes what a canary found, and gives back what it took. It reports whether the worker was put out just now.
func (g *Gate) EndCanary(c *Canary, end CanaryEnd) (e fleet.Ejection, ejected bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, w := g.now(), c.Worker
	outcome := fleet.Refused // it teaches nothing of how long requests stay
	switch {
	case end.Good:
		c.r.Succeeded(now)
	case end.Faulty:
		ejected, outcome = c.r.Fault(now, end.Fault), fleet.Failed
	case end.Busy:
		w.Busy(now, end.After)
	case end.Useless:
		w.TryByClients()
	}
	c.r.Release(now, outcome)
	g.pump()
	e, _ = w.Ejection()
	return e, ejected
}
