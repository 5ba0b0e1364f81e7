package models

import (
	"math"
	"slices"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/llmapi"
)

// Ask is a request as far as its model is chosen by it.
type Ask struct {
	Name         string // the model that it names
	Tenant       string
	Tier         int    // least quality that its tenant or a header demands
	Conversation uint64 // hash of it; 0 none
	Chance       uint64 // drawn for the request, the same at each of its tries: it splits what is in no conversation
	Needs        llmapi.Needs
	Work         cost.Work // Output and CachedTokens aside, which are each model's own
	MaxTokens    int       // of one answer; 0 unsaid
	HasBudget    bool
	Budget       float64                 // money that its tenant has left
	Allows       func(model string) bool // what the tenant may use; nil everything
	Failed       []Failure               // models that were tried, the latest last
}

// Failure is a try that came to nothing: no other worker of that model was left to try.
type Failure struct {
	Model string
	Class Class
}

// Outlook is how a model is for one request, now.
type Outlook struct {
	Up           bool // some worker can take requests for it
	Overloaded   bool // it would be refused, or wait beyond what it may
	ContextMax   int  // tokens that its workers take; 0 unknown
	PromptTokens int  // of the prompt, by the model's own tokens; 0: those of the Ask
	CachedTokens int  // of these, where they would most likely run; -1 unknown
	WaitSeconds  float64
	Output       cost.Lengths
	There        cost.Conditions
}

// Row is one candidate as it was judged.
type Row struct {
	Model        string        `json:"model"`
	Virtual      string        `json:"virtual"`       // whose candidate or fallback it is
	Out          Out           `json:"out,omitempty"` // why it cannot be chosen
	Weight       float64       `json:"weight,omitempty"`
	Current      bool          `json:"current,omitempty"` // the conversation is there
	WaitSeconds  float64       `json:"wait_seconds"`
	Expected     cost.Estimate `json:"expected"`
	Money        float64       `json:"money"`
	TimeMoney    float64       `json:"time_money"`    // for all seconds until the answer's end
	LeavingMoney float64       `json:"leaving_money"` // of both, what is there only because the conversation's warm cache is elsewhere
	Total        float64       `json:"total"`         // Money and TimeMoney

	needed, had float64
	missing     llmapi.Needs
	class       Class
	loaded      bool
}

// Choice is a decision, to be explained by its rows.
type Choice struct {
	Model  string `json:"model"` // to be served by
	Reason Reason `json:"reason"`
	Row    int    `json:"row"` // of Rows; -1 for a name that is not virtual
	Rows   []Row  `json:"rows,omitempty"`
}

// Choose says which model a request goes to. look is asked for each candidate that its constraints leave in; rows is memory for those of
// the choice, nil for new. Errors are *ErrNone and *ErrForbidden.
func (c *Chooser) Choose(a Ask, look func(model string) Outlook, rows []Row) (Choice, error) {
	a.Name = c.Means(a.Name)
	v := c.virtuals[a.Name]
	if v == nil {
		return Choice{Model: a.Name, Row: -1}, nil
	}
	if !allowed(v.tenants, a.Tenant) {
		return Choice{}, &ErrForbidden{a.Name}
	}
	w := &c.walk // a field, because what strategies are handed would be allocated
	*w = walk{chooser: c, ask: a, look: look, rows: rows[:0], fits: w.fits[:0]}
	defer func() { *w = walk{fits: w.fits[:0]} }()
	w.draw = a.Conversation
	if w.draw == 0 {
		w.draw = a.Chance
	} else {
		w.seat, w.seated = c.seats.of(mix(a.Conversation, v.id))
	}
	for _, f := range a.Failed {
		if f.Class == Context {
			w.longest = max(w.longest, look(f.Model).ContextMax)
		}
	}
	row, reason := -1, FellBack
	if n := len(a.Failed); n > 0 {
		row = w.fall(v, a.Failed[n-1].Class)
	}
	if row < 0 {
		if row, reason = w.choose(v); row < 0 {
			row, reason = w.fall(v, w.failures()), FellBack
		}
	}
	if row < 0 {
		return Choice{}, &ErrNone{Name: a.Name, Rows: w.rows}
	}
	return Choice{Model: w.rows[row].Model, Reason: reason, Row: row, Rows: w.rows}, nil
}

func allowed(tenants []string, tenant string) bool {
	return tenants == nil || slices.Contains(tenants, tenant)
}

// walk is one request on its way through the candidates.
type walk struct {
	chooser *Chooser
	ask     Ask
	look    func(string) Outlook
	rows    []Row
	fits    []fit  // of the virtual models being chosen among, the innermost last
	draw    uint64 // what splits go by
	seat    seat
	seated  bool
	longest int // context of a model that was too short; 0 none
}

// fit is a candidate that can be chosen, by its row, which for a virtual one is that of its own choice.
type fit struct {
	row    int
	id     uint64
	weight float64
}

// strategy chooses among candidates, of which there is at least one, and says why.
type strategy func(w *walk, v *virtual, fits []fit) (row int, why Reason)

var strategies = map[string]strategy{"cost": cheapest, "weight": split, "order": inOrder}

// choose takes a virtual model's choice among its candidates; -1: none can.
func (w *walk) choose(v *virtual) (row int, why Reason) {
	first, loaded := len(w.fits), 0
	defer func() { w.fits = w.fits[:first] }()
	for i := range v.candidates {
		n := &v.candidates[i]
		at := w.judge(v, n, v.tierMin)
		if at < 0 || w.rows[at].Out != In {
			continue
		}
		if w.rows[at].loaded {
			loaded++
		}
		w.fits = append(w.fits, fit{at, n.id, n.weight})
	}
	fits := w.fits[first:]
	if v.soft && loaded > 0 && loaded < len(fits) {
		fits = slices.DeleteFunc(fits, func(f fit) bool {
			if w.rows[f.row].loaded {
				w.rows[f.row].Out = Loaded
			}
			return w.rows[f.row].loaded
		})
	}
	switch len(fits) {
	case 0:
		return -1, 0
	case 1:
		return fits[0].row, Only
	}
	return v.pick(w, v, fits)
}

// judge makes the row of a candidate, unless it is judged already; of a virtual one that of its choice, -1 when it has none.
func (w *walk) judge(v *virtual, n *node, tierMin int) int {
	if n.virtual == nil {
		if at := slices.IndexFunc(w.rows, func(r Row) bool { return r.Model == n.model && r.Virtual == v.name && r.Out != Unweighted }); at >= 0 {
			return at
		}
		w.rows = append(w.rows, w.row(v, n, tierMin))
		return len(w.rows) - 1
	}
	if n.weight == 0 || !allowed(n.virtual.tenants, w.ask.Tenant) {
		if w.rows = append(w.rows, Row{Model: n.model, Virtual: v.name, Out: Forbidden}); n.weight == 0 {
			w.rows[len(w.rows)-1].Out = Unweighted
		}
		return -1
	}
	at, _ := w.choose(n.virtual)
	if at >= 0 {
		w.rows[at].Weight = n.weight
	}
	return at
}

// row judges a model by what it is, then by how it is now.
func (w *walk) row(v *virtual, n *node, tierMin int) Row {
	a := &w.ask
	r := Row{Model: n.model, Virtual: v.name, Weight: n.weight, Current: w.seated && w.seat.model == n.model}
	failed := slices.IndexFunc(a.Failed, func(f Failure) bool { return f.Model == n.model })
	switch tier := max(a.Tier, tierMin); {
	case failed >= 0:
		r.Out, r.class = Failed, a.Failed[failed].Class
	case !allowed(n.tenants, a.Tenant) || a.Allows != nil && !a.Allows(n.model):
		r.Out = Forbidden
	case a.Needs&^n.can != 0:
		r.Out, r.missing = Unable, a.Needs&^n.can
	case n.tier < tier:
		r.Out, r.needed, r.had = TierLow, float64(tier), float64(n.tier)
	case n.weight == 0:
		r.Out = Unweighted
	}
	if r.Out == In {
		w.price(n, &r)
	}
	return r
}

// price is how a model is now: whether the request fits, and what it comes to.
func (w *walk) price(n *node, r *Row) {
	a, now := &w.ask, w.look(n.model)
	work := a.Work
	work.Output = now.Output
	if now.PromptTokens > 0 {
		work.PromptTokens = now.PromptTokens
	}
	context := now.ContextMax
	if n.contextMax > 0 && (context == 0 || n.contextMax < context) {
		context = n.contextMax
	}
	needed := work.PromptTokens
	if now.Output.Mean > 0 {
		needed += max(a.MaxTokens, 1) // engines refuse what would not fit with the longest answer that is asked for
	}
	if context > 0 && (needed > context || context <= w.longest) {
		r.Out, r.needed, r.had = TooLong, float64(max(needed, w.longest+1)), float64(context)
		return
	}
	if !now.Up {
		r.Out = NoWorker
		return
	}
	warm := 0
	if w.seated {
		warm = min(w.seat.tokens, work.PromptTokens)
	}
	work.CachedTokens = max(now.CachedTokens, 0)
	if r.Current && now.CachedTokens < 0 {
		work.CachedTokens = warm
	}
	r.loaded, r.WaitSeconds, r.Expected = now.Overloaded, now.WaitSeconds, work.On(now.There)
	r.Money = n.price.Expected(r.Expected)
	seconds := now.WaitSeconds + r.Expected.PrefillSeconds + r.Expected.DecodeSeconds
	r.TimeMoney = w.chooser.secondValue * seconds
	r.Total = r.Money + r.TimeMoney
	if w.seated && !r.Current && warm > work.CachedTokens {
		work.CachedTokens = warm
		stayed := work.On(now.There)
		r.LeavingMoney = r.Money - n.price.Expected(stayed) + w.chooser.secondValue*(r.Expected.PrefillSeconds-stayed.PrefillSeconds)
	}
	if a.HasBudget && r.Money > a.Budget {
		r.Out, r.needed, r.had = OverBudget, r.Money, a.Budget
	}
}

// tieShare is the share of the least total within which another is as good.
const tieShare = 0.02

// cheapest takes the least total. What is as good as that goes to where the conversation is, else to the first in the list.
func cheapest(w *walk, _ *virtual, fits []fit) (int, Reason) {
	least := math.Inf(1)
	for _, f := range fits {
		least = min(least, w.rows[f.row].Total)
	}
	row, why := -1, Cheapest
	for _, f := range fits {
		r := &w.rows[f.row]
		if r.Total > least+tieShare*math.Abs(least) {
			continue
		}
		if r.Current {
			return f.row, Stayed
		}
		if row < 0 {
			row = f.row
		}
	}
	return row, why
}

// split draws by weight, the same for all requests of a conversation.
func split(w *walk, v *virtual, fits []fit) (int, Reason) {
	best, row := math.Inf(1), fits[0].row
	for _, f := range fits {
		if l := lot(w.draw, v.id, f.id, f.weight); l < best {
			best, row = l, f.row
		}
	}
	return row, Split
}

func inOrder(_ *walk, _ *virtual, fits []fit) (int, Reason) { return fits[0].row, First }

// fall takes the first fallback for errors of those classes that can be chosen; -1: none.
func (w *walk) fall(v *virtual, on Class) int {
	for i := range v.fallback {
		f := &v.fallback[i]
		if f.on&on == 0 {
			continue
		}
		if f.virtual == nil {
			if at := w.judge(v, &f.node, 0); w.rows[at].Out == In {
				return at
			}
			continue
		}
		at, _ := w.choose(f.virtual)
		if at < 0 {
			at = w.fall(f.virtual, on)
		}
		if at >= 0 {
			return at
		}
	}
	return -1
}

// failures are the classes of all that puts candidates out.
func (w *walk) failures() (on Class) {
	for i := range w.rows {
		switch r := &w.rows[i]; r.Out {
		case TooLong:
			on |= Context
		case NoWorker:
			on |= Down
		case Failed:
			on |= r.class
		}
	}
	return on
}
