// Package models is the first decision: which model answers when a request names a virtual one. Constraints come first (context,
// capabilities, tenant, tier, budget), then the least expected money plus the client's waiting at a price, or a split by weight, or the
// order of the list. It is pure; its owner serialises.
//
//	c, problems := models.New(models.Options{SecondValue: 0.001, Models: []models.Virtual{
//		{Name: "chat", Candidates: []models.Candidate{
//			{Model: "small", ContextMax: 32_768, Can: []string{"tools"}, Tier: 1, Price: cost.Price{WorkerHour: 2}},
//			{Model: "large", ContextMax: 131_072, Tier: 2, Price: cost.Price{WorkerHour: 9}},
//		}},
//		{Name: "small", Choose: "weight", Candidates: []models.Candidate{{Model: "small-v1", Weight: 95}, {Model: "small-v2", Weight: 5}}},
//	}})
//	choice, err := c.Choose(ask, outlookOf, nil) // a *models.ErrNone when no candidate can
//	c.Remember(ask, choice)                      // once it was sent there: the conversation stays
//
// An alias is a virtual model with one candidate. A name that is not virtual is its own model.
package models

import (
	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/llmapi"
)

// Bounds of a configuration.
const (
	ModelsMax     = 1024
	CandidatesMax = 64
)

// Options are the virtual models.
type Options struct {
	Models           []Virtual `yaml:"models" doc:"Virtual models and aliases. None: names mean what workers serve."`
	Default          string    `yaml:"default_model" doc:"Model of requests that name none, virtual or not. Empty: they are refused."`
	SecondValue      float64   `yaml:"value_of_second" doc:"Money that one second less until the end of an answer is worth, in the money of the prices. 0: only money counts."`
	Prices           []Priced  `yaml:"prices" doc:"What models cost that workers serve, for requests that name them and for candidates without a price of their own."`
	ConversationsMax int       `yaml:"conversations_max" doc:"Conversations whose model is remembered; those used longest ago are forgotten. 0: 100000."`
}

// Virtual is a name that stands for one of several models.
type Virtual struct {
	Name       string      `yaml:"name" doc:"Name by which requests ask for it."`
	Choose     string      `yaml:"choose" enum:",cost,weight,order" doc:"cost: the least expected money, with waiting at value_of_second. weight: shares of the conversations. order: the first that can. Empty: cost."`
	Candidates []Candidate `yaml:"candidates" doc:"What it may stand for. One: an alias."`
	Fallback   []Fallback  `yaml:"fallback" doc:"Where requests go, in this order, when the chosen model fails them. None: to the other candidates."`
	Tenants    []string    `yaml:"tenants" doc:"Who may ask for it. None: everybody."`
	TierMin    int         `yaml:"tier_min" doc:"Least quality tier of a candidate, unless a request demands more."`
}

// Candidate is one model that may be chosen: one that workers serve, or another virtual one, which then says all but the weight itself.
type Candidate struct {
	Model      string     `yaml:"model,scalar" doc:"A model that workers serve, or a virtual one."`
	Weight     float64    `yaml:"weight" doc:"Share of the conversations under choose: weight, relative to the others'. None has one: equal shares. 0 beside others: none."`
	Price      cost.Price `yaml:"price" doc:"What it costs. None: as prices say."`
	ContextMax int        `yaml:"context_max" doc:"Tokens, prompt and answer together. 0: as the engines tell."`
	Can        []string   `yaml:"can" doc:"What it can do besides text: tools, json, vision, audio, reasoning; text alone for nothing else. Empty: anything."`
	Tier       int        `yaml:"tier" doc:"Quality, higher is better."`
	Tenants    []string   `yaml:"tenants" doc:"Whose requests may go there. None: everybody's."`
}

// Fallback is one way out.
type Fallback struct {
	Model string   `yaml:"model,scalar" doc:"A candidate's model, another one that workers serve, or a virtual one."`
	On    []string `yaml:"on" doc:"After which errors: context (the prompt is too long), overloaded, down. Empty: all."`
}

// Class is a kind of failure, as fallbacks tell them apart: a set, a bit each.
type Class uint8

// The classes.
const (
	Context    Class = 1 << iota // the prompt is longer than the model takes
	Overloaded                   // it was refused for load: 429, 503, a full queue
	Down                         // no worker answers
	anyClass   = Context | Overloaded | Down
)

var classes = map[string]Class{"context": Context, "overloaded": Overloaded, "down": Down}

// ClassOf is the class of an error of that kind (llmapi's Kind constants); false when another model would fail the same way.
func ClassOf(kind string) (Class, bool) {
	switch kind {
	case llmapi.KindContext:
		return Context, true
	case llmapi.KindOverloaded, llmapi.KindRateLimit:
		return Overloaded, true
	case llmapi.KindUpstream, llmapi.KindTimeout:
		return Down, true
	}
	return 0, false
}

// Problem is one thing wrong with Options.
type Problem struct {
	Key     string // path of the setting, such as models[1].candidates[0].weight
	Message string
}

func (p Problem) String() string { return p.Key + ": " + p.Message }

// Chooser chooses models.
type Chooser struct {
	unnamed     string // what requests mean that name no model
	secondValue float64
	virtuals    map[string]*virtual
	order       []*virtual // as configured
	seats       seats
	walk        walk // of the request being chosen for
}

// virtual is a Virtual to choose by.
type virtual struct {
	name       string
	id         uint64
	pick       strategy
	soft       bool // candidates that are overloaded give way to others
	candidates []node
	fallback   []way
	tenants    []string
	tierMin    int
}

// node is a candidate: a model, or a virtual one in its place.
type node struct {
	*virtual
	model      string
	id         uint64
	weight     float64
	price      cost.Price
	contextMax int
	can        llmapi.Needs
	tier       int
	tenants    []string
}

// way is a fallback.
type way struct {
	node
	on Class
}

// New checks the options and makes a chooser. With problems there is none.
func New(o Options) (*Chooser, []Problem) {
	c := &Chooser{unnamed: o.Default, secondValue: o.SecondValue, virtuals: map[string]*virtual{}, seats: newSeats(o.ConversationsMax)}
	k := checker{o: &o, chooser: c}
	k.check()
	if len(k.problems) > 0 {
		return nil, k.problems
	}
	return c, nil
}

// Virtual tells whether a name stands for others.
func (c *Chooser) Virtual(name string) bool { return c.virtuals[name] != nil }

// Means is the name that a request means by what it says: the default model where it says none, "" when there is none.
func (c *Chooser) Means(name string) string {
	if name == "" {
		return c.unnamed
	}
	return name
}

// Names are the virtual models that a tenant may ask for, as configured.
func (c *Chooser) Names(tenant string) (names []string) {
	for _, v := range c.order {
		if allowed(v.tenants, tenant) {
			names = append(names, v.name)
		}
	}
	return names
}

// Unknown names the settings whose model is neither virtual nor among those served. Workers may come later, so that it is no error at start.
func (c *Chooser) Unknown(o Options, served func(model string) bool) (problems []Problem) {
	k := checker{o: &o}
	k.models(func(key, model string) {
		if !c.Virtual(model) && !served(model) {
			k.report(key, "unknown model %q: no worker serves it, and it is not virtual", model)
		}
	})
	return k.problems
}
