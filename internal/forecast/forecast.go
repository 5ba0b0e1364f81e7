// Package forecast says what a request is expected to take where it is placed: seconds, tokens, memory and money. When it is over, that is
// held against what it took. It is pure, and guarded by what guards the fleet.
//
//	b := forecast.New(costs, outputs)
//	b.UsePrices(prices.Of)
//	f := b.Expect(now, &decision, &request, true)   // of a request that was placed
//	fmt.Println(f.PrefillSeconds, f.OutputP90, f.KVTokensPeak, f.Money)
//	b.Learn(&f, &lesson, &course)                   // once it is over, after sched's Learn
//	for _, m := range b.Models() { ... }            // how far off forecasts are
package forecast

import (
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/sched"
)

// Forecast is what one request is expected to take on its worker. It leaves out the wait before its prefill.
type Forecast struct {
	cost.Estimate
	Money  float64 // in the money of the prices
	Priced bool    // its model has a price

	alone   float64 // seconds of its prefill on a worker that does nothing else,
	cold    float64 // and of one for which nothing is cached there
	asking  cost.Asking
	prompts int
}

// Sequences is how many answers its engine generates: to each of its prompts, however many were asked for.
func (f *Forecast) Sequences() int { return f.prompts * f.asking.Answers }

// Prefill is the engine's time for the prompt, as its worker's speed is known, and what of it the cache spared: all that a prompt without a cached
// token would take is the sum. Where the engine told its cached tokens, reported of promptTokens, and not what was expected, the time is shared out by them.
func (f *Forecast) Prefill(told bool, reported, promptTokens int) (doneSeconds, avoidedSeconds float64) {
	avoidedSeconds = max(f.cold-f.alone, 0)
	if told && promptTokens > 0 && reported != f.CachedTokens {
		avoidedSeconds = f.cold * float64(min(max(reported, 0), promptTokens)) / float64(promptTokens)
	}
	return max(f.cold-avoidedSeconds, 0), avoidedSeconds
}

// Asking is what the length of a request's answers is told by.
func Asking(req *sched.Request) cost.Asking {
	return cost.Asking{Model: req.Model, Tenant: req.Tenant, Answers: max(req.Answers, 1), Shape: cost.Shape{
		Tools: req.Needs&llmapi.NeedTools != 0, JSON: req.Needs&llmapi.NeedJSON != 0, Reasoning: req.Needs&llmapi.NeedReasoning != 0,
		Streamed: req.Streamed, PromptTokens: req.PromptTokens, MaxTokens: req.MaxTokens,
	}}
}

// Book makes forecasts, and keeps how they turned out.
type Book struct {
	costs   *cost.Book
	outputs *cost.Outputs
	price   func(model string) cost.Price
	models  map[string]*Errors
}

// New makes a book that forecasts by what those two know. outputs may be nil: answers have no length then.
func New(costs *cost.Book, outputs *cost.Outputs) *Book {
	return &Book{costs: costs, outputs: outputs, price: func(string) cost.Price { return cost.Price{} }, models: map[string]*Errors{}}
}

// UsePrices has forecasts say money too. of answers with the zero Price for a model that has none.
func (b *Book) UsePrices(of func(model string) cost.Price) { b.price = of }

// Work is what is known of a request before it runs, but for what is cached.
func (b *Book) Work(req *sched.Request) cost.Work {
	w := cost.Work{PromptTokens: req.PromptTokens, Prompts: req.Prompts, Answers: req.Answers}
	if req.Generates && b.outputs != nil {
		w.Output = b.outputs.Lengths(Asking(req))
	}
	return w
}

// Expect is what a request will take on the worker of a decision; reserved says that it is among those that the worker owes already.
func (b *Book) Expect(now time.Time, d *sched.Decision, req *sched.Request, reserved bool) Forecast {
	load, k := d.Worker.Load(now), b.costs.Of(d.Worker).Constants()
	if reserved {
		load.InFlight--
		load.ContextTokens -= req.PromptTokens
	}
	return b.Under(cost.ConditionsAt(d.Worker, k, load, float64(req.PromptTokens)), d.MatchedTokens, req)
}

// Under is what a request will take where conditions are such and so many tokens of its prompt are cached.
func (b *Book) Under(there cost.Conditions, cachedTokens int, req *sched.Request) Forecast {
	work := b.Work(req)
	work.CachedTokens = cachedTokens
	price := b.price(req.Model)
	f := Forecast{Estimate: work.On(there), asking: Asking(req), prompts: max(req.Prompts, 1), Priced: price != (cost.Price{})}
	f.alone = work.On(cost.Conditions{Constants: there.Constants}).PrefillSeconds
	work.CachedTokens = 0
	f.cold = work.On(cost.Conditions{Constants: there.Constants}).PrefillSeconds
	f.Money = price.Expected(f.Estimate)
	return f
}
