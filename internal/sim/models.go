package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/lineup"
	"github.com/warmpath/warmpath/internal/models"
	"github.com/warmpath/warmpath/internal/sched"
)

// Models has requests ask for a model, of which there may be several in the fleet: a worker serves what its label model says. A virtual one
// is chosen for as the router chooses.
type Models struct {
	models.Options
	Ask string // the model that all requests ask for: virtual, or served by some of the workers
}

// Model is what came of the requests that a model answered. Times are in seconds.
type Model struct {
	Name              string
	Workers, Requests int
	Reasons           map[string]int // why it was chosen
	// Money is by its price: for its share of the engines' time, Seconds, and for tokens.
	Money, Seconds float64
	TTFT, E2E      Distribution
}

// Money is what all answers cost.
func (r *Result) Money() (sum float64) {
	for _, m := range r.Models {
		sum += m.Money
	}
	return sum
}

// Served is the model that a worker serves.
func Served(w lineup.Worker) string {
	if name := w.Label("model"); name != "" {
		return name
	}
	return modelName
}

// ModelsIn are the models that a fleet serves, by name; none where requests ask for none. What is asked for must be among them, or virtual
// and made of them.
func ModelsIn(m *Models, fleet []lineup.Worker) (all []*Model, err error) {
	if m == nil {
		return nil, nil
	}
	var names []string
	for _, w := range fleet {
		name := Served(w)
		i, known := slices.BinarySearch(names, name)
		if !known {
			names = slices.Insert(names, i, name)
			all = slices.Insert(all, i, &Model{Name: name, Reasons: map[string]int{}})
		}
		all[i].Workers++
	}
	served := func(name string) bool { return slices.Contains(names, name) }
	c, wrong := models.New(m.Options)
	if len(wrong) == 0 {
		wrong = c.Unknown(m.Options, served)
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("%s; workers of the fleet serve %s, as their label model says (--fleet h100-8b:2@model=NAME)", wrong[0], strings.Join(names, ", "))
	}
	if !c.Virtual(m.Ask) && !served(m.Ask) {
		return nil, fmt.Errorf("model %q is neither virtual nor served; there are: %s (--model)", m.Ask, strings.Join(append(c.Names(""), names...), ", "))
	}
	return all, nil
}

// chooser chooses a router's models.
type chooser struct {
	*models.Chooser
	prices models.Prices
	lot    *rand.Rand // of what is in no conversation
	rows   []models.Row
}

// pick is one request's model.
type pick struct {
	ask     models.Ask
	choice  models.Choice
	seconds float64 // engine time that it took
}

func newChooser(c *Config, number int) *chooser {
	if c.Models == nil {
		return nil
	}
	m, _ := models.New(c.Models.Options) // ModelsIn has checked them
	return &chooser{Chooser: m, prices: models.PricesOf(c.Models.Options), lot: rand.New(rand.NewPCG(c.Seed+uint64(number)<<32, 0x6d6f64656c73))}
}

// choose has a model chosen for a request, anew when those before failed it.
func (r *router) choose(f *flight) error {
	c := r.chooser
	if c == nil {
		return nil
	}
	a := &f.pick.ask
	if a.Name == "" {
		*a = models.Ask{Name: r.lab.config.Models.Ask, Tenant: f.request.Tenant, Conversation: f.request.Session, Chance: c.lot.Uint64(), Work: cost.Work{PromptTokens: f.request.Prompt}}
	}
	now := at(r.lab.now)
	look := func(model string) models.Outlook {
		ask, req := f.guest.Ask(), f.want
		ask.Request, req.Model = &req, model
		p := r.usher.Prospect(now, &ask, func(w *fleet.Worker) cost.Constants { return r.book.Of(w).Constants() })
		return models.Outlook{Up: p.Up, Overloaded: p.Overloaded, ContextMax: p.ContextMax, CachedTokens: -1, WaitSeconds: p.WaitSeconds, Output: r.casts.Work(&req).Output, There: p.There}
	}
	choice, err := c.Choose(*a, look, c.rows)
	if err != nil {
		return err
	}
	if choice.Rows != nil {
		c.rows = choice.Rows
	}
	choice.Rows = nil // they are the next request's memory
	f.pick.choice, f.want.Model = choice, choice.Model
	return nil
}

// elsewhere says whether another model may take a request that one refused.
func (r *router) elsewhere(f *flight, err error) bool {
	if r.chooser == nil || !r.chooser.Virtual(f.pick.ask.Name) {
		return false
	}
	class := models.Overloaded
	var full *flow.Refusal
	var nobody *sched.ErrNoWorker
	switch {
	case errors.As(err, &full):
	case errors.As(err, &nobody):
		class = models.Down
	default:
		return false
	}
	f.pick.ask.Failed = append(f.pick.ask.Failed, models.Failure{Model: f.want.Model, Class: class})
	return r.choose(f) == nil
}

// sent notes that a request goes to the model that was chosen: its conversation stays there.
func (r *router) sent(f *flight) {
	if r.chooser != nil {
		r.chooser.Remember(f.pick.ask, f.pick.choice)
	}
}

// answered books a finished request to its model.
func (r *Result) answered(f *flight, ttft, e2e float64) {
	i := slices.IndexFunc(r.Models, func(m *Model) bool { return m.Name == f.want.Model })
	if i < 0 {
		return
	}
	m, s, reason := r.Models[i], f.sequence, "asked for"
	if f.pick.choice.Row >= 0 {
		reason = f.pick.choice.Reason.String()
	}
	m.Requests++
	m.Reasons[reason]++
	m.Seconds += f.pick.seconds
	m.Money += f.router.chooser.prices.Of(m.Name).Of(f.pick.seconds, s.PromptTokens, s.CachedTokens, float64(s.Generated))
	m.TTFT.Add(ttft)
	m.E2E.Add(e2e)
}
