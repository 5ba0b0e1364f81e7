// Package choice has models.Chooser choose for requests as they come: it tells it how each candidate is now, keeps what a request has been
// through, and writes the chosen name into its body.
//
//	d, err := choice.New(options, g)
//	if d.Stands(req.Model) {                              // for others
//		err := d.Choose(&pick, choice.Question{...})      // *models.ErrNone, *models.ErrForbidden
//		body, err := choice.Rewrite(&req, body, pick.Model)
//	}
//	if pick.Failed(failure) { ... }                          // nobody is left to try for that model: Choose again
//	d.Sent(&pick)                                         // it was served: the conversation stays
//
// A nil Desk has no models that stand for others. Any number of goroutines may use one.
package choice

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/models"
	"github.com/warmpath/warmpath/internal/sched"
)

// HeaderTier is where a client demands a model of at least that tier.
const HeaderTier = "X-Warmpath-Tier"

// Desk chooses.
type Desk struct {
	gate *gate.Gate

	mu      sync.Mutex // guards the chooser's memory and what follows; taken before the gate's lock
	chooser atomic.Pointer[models.Chooser]
	counts  map[count]uint64
	rows    []models.Row
}

// count is what is counted together: bounded by the configuration, as candidates are.
type count struct {
	virtual, model string
	reason         models.Reason
}

// New makes a desk.
func New(o models.Options, g *gate.Gate) (*Desk, []models.Problem) {
	d := &Desk{gate: g, counts: map[count]uint64{}}
	if problems := d.Use(o); len(problems) > 0 {
		return nil, problems
	}
	return d, nil
}

// Use chooses by other options from now on; with problems the old ones stay. Conversations stay where they are as long as their model is
// among the candidates.
func (d *Desk) Use(o models.Options) []models.Problem {
	c, problems := models.New(o)
	if len(problems) > 0 {
		return problems
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.chooser.Load(); old != nil {
		c.Inherit(old)
	}
	d.chooser.Store(c)
	return nil
}

// Conversations is how many conversations' models are remembered.
func (d *Desk) Conversations() int {
	if d == nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.chooser.Load().Conversations()
}

// Stands says whether a model, or "" where none is named, stands for another.
func (d *Desk) Stands(model string) bool {
	if d == nil {
		return false
	}
	c := d.chooser.Load()
	return c.Virtual(model) || model == "" && c.Means("") != ""
}

// Served is a model's name where workers have it, "" where it stands for others.
func (d *Desk) Served(model string) string {
	if d.Stands(model) {
		return ""
	}
	return model
}

// Means is the name that a request means by the model that it names.
func (d *Desk) Means(model string) string {
	if d == nil {
		return model
	}
	return d.chooser.Load().Means(model)
}

// Names are the models that stand for others, as far as a tenant may ask for them.
func (d *Desk) Names(tenant string, may func(model string) bool) []string {
	if d == nil {
		return nil
	}
	return slices.DeleteFunc(d.chooser.Load().Names(tenant), func(name string) bool { return !may(name) })
}

// Pick is one request's choice. The zero Pick has none.
type Pick struct {
	Asked string // the name that it asked for; "" none that stands for others
	Model string // what that stands for now
	Choice

	ask    models.Ask
	choice models.Choice
}

// Choice is why, for logs.
type Choice struct {
	Reason string
	Rows   []string // one a candidate, in words
}

// Question is a request as far as its model depends on it.
type Question struct {
	Req     *llmapi.Request
	Want    sched.Request // Tenant, Only, Chain, Bytes, PromptTokens (0: told by Bytes), MaxTokens, Streamed, Generates
	Wait    *gate.Wait    // of its item the Class
	Session string        // the client's own hint
	Tier    string        // that it demands; "" none
	// Of its tenant: the least tier, and the money that is left where Limited.
	TierMin int
	Left    float64
	Limited bool
}

// Choose chooses, anew when the pick's model failed. Refusal tells its errors: *models.ErrNone, *models.ErrForbidden, and an odd Tier.
func (d *Desk) Choose(p *Pick, q Question) error {
	a := &p.ask
	if p.Asked == "" {
		p.Asked = d.Means(q.Req.Model)
		tier, err := strconv.Atoi(cmp.Or(q.Tier, "0"))
		if err != nil {
			return errTier
		}
		*a = models.Ask{Name: p.Asked, Tenant: q.Want.Tenant, Tier: max(tier, q.TierMin), HasBudget: q.Limited, Budget: q.Left, Conversation: conversation(q.Session, q.Want.Chain), Chance: rand.Uint64(),
			Needs: q.Req.Needs, MaxTokens: q.Want.MaxTokens, Work: cost.Work{PromptTokens: q.Want.PromptTokens, Prompts: q.Req.Prompts, Answers: q.Req.Answers}}
	}
	if a.Work.PromptTokens == 0 {
		a.Work.PromptTokens = d.gate.Estimate("", q.Want.Bytes)
	}
	look := func(model string) models.Outlook {
		q.Want.Model = model
		o := d.gate.Prospect(q.Want, q.Wait)
		return models.Outlook{Up: o.Up, Overloaded: o.Overloaded, ContextMax: o.ContextMax, PromptTokens: o.PromptTokens, CachedTokens: -1,
			WaitSeconds: o.WaitSeconds, Output: o.Output, There: o.There}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.chooser.Load().Choose(*a, look, d.rows)
	if err != nil {
		d.rows = nil // they are the error's, which is read when others choose
		return err
	}
	d.rows, p.choice, p.Model = c.Rows, c, c.Model
	p.Reason, p.Rows = c.Reason.String(), p.Rows[:0]
	for i := range c.Rows {
		p.Rows = append(p.Rows, c.Rows[i].Explain())
	}
	p.choice.Rows = nil // they are the next request's memory
	return nil
}

// Sent notes and counts that the request was served by the model that was chosen.
func (d *Desk) Sent(p *Pick) {
	if p.Asked == "" || p.Model == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.chooser.Load().Remember(p.ask, p.choice)
	d.counts[count{p.Asked, p.choice.Model, p.choice.Reason}]++
}

// Rewrite writes the model's name into a body, and reads it anew. Every other byte is as it was.
func Rewrite(req *llmapi.Request, body []byte, model string) ([]byte, error) {
	out := llmapi.Splice(body, req.SetModel(body, model))
	return out, req.Scan(req.API, out)
}

// Count is how often a model was chosen in another's place, for one reason.
type Count struct {
	Virtual, Model, Reason string
	Requests               uint64
}

// Counts are all of them since the start, in order.
func (d *Desk) Counts() []Count {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]Count, 0, len(d.counts))
	for c, n := range d.counts {
		all = append(all, Count{c.virtual, c.model, c.reason.String(), n})
	}
	slices.SortFunc(all, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Virtual, b.Virtual), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

// Unknown names the settings whose model is neither one of these nor served by any worker now.
func (d *Desk) Unknown(o models.Options) []models.Problem {
	served := d.gate.Models()
	return d.chooser.Load().Unknown(o, func(model string) bool {
		return slices.ContainsFunc(served, func(m gate.Model) bool { return m.ID == model })
	})
}
