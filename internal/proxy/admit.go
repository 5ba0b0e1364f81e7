package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/internal/admission"
	"github.com/warmpath/warmpath/internal/bill"
	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/inflight"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/refusal"
	"github.com/warmpath/warmpath/internal/tenant"
)

// enter finds out who asks, before the body is taken in.
func (x *exchange) enter() error {
	if err := x.p.desk.Enter(x.facts.Started, x.in, &x.guest); err != nil {
		return stranger(x.w, err)
	}
	x.facts.Class, x.facts.ClassWhy = x.guest.ClassName, x.guest.ClassWhy
	return nil
}

// urge takes what the body says of the request's urgency.
func (x *exchange) urge() error {
	r := &x.req
	p := admission.Priority{Said: x.scanned && r.PrioritySpan.Found(), Class: r.PriorityName, Level: r.Priority}
	if err := x.p.desk.Ask(&x.guest, p); err != nil {
		return x.placeFailure(err)
	}
	x.facts.Class, x.facts.ClassWhy = x.guest.ClassName, x.guest.ClassWhy
	return nil
}

// stranger shapes why nobody knows who asks.
func stranger(w http.ResponseWriter, err error) *failure {
	f := failed(refusal.Stranger(err))
	if f.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	return f
}

// expected is what the request will use of its tenant's limits: its prompt, and its answer as long as it may get or, where it does not say,
// as such answers are.
func (x *exchange) expected() tenant.Use {
	g, answer := x.p.gate, x.want.MaxTokens
	if answer == 0 && x.guest.Known && x.want.Generates {
		answer = g.Expect(x.want.Model, x.want.Tenant)
	}
	price, ask := x.o.Prices.Of(x.want.Model), bill.Ask{PromptTokens: x.want.PromptTokens, AnswerTokens: answer, Answers: x.req.N}
	if price.WorkerHour > 0 && x.guest.Limited() {
		ask.Seconds = g.Seconds(x.want)
	}
	return bill.Expected(price, ask)
}

// admit has a worker chosen and reserved that this request has not tried, as soon as there is one with room.
func (x *exchange) admit() error {
	if err := x.p.desk.Begin(x.keyed, &x.guest, x.named(), x.expected()); err != nil {
		return x.placeFailure(err)
	}
	x.facts.Trace.Admitted(x.keyed, x.p.now)
	began := x.keyed // the first decision takes the key step in
	if began.IsZero() {
		began = x.p.now()
	}
	w := x.waiting()
	a := x.attempt()
	w.End = a.End
	x.entry.Wait(w)
	err := x.p.gate.Enter(x.ctx, &a.Attempt, &x.want, w)
	x.entry.Wait(nil)
	took := x.p.now().Sub(began) - w.Waited
	x.facts.DecisionTime, x.facts.Waited, x.keyed = x.facts.DecisionTime+took, x.facts.Waited+w.Waited, time.Time{}
	if h := x.p.hooks.Decided; h != nil {
		h(took)
	}
	if err != nil {
		return x.placeFailure(err)
	}
	x.try = a
	x.want.Tried = append(x.want.Tried, a.Worker)
	x.facts.Decision, x.facts.Forecast, x.facts.Pool, x.facts.Tries, x.facts.Placed = a.Decision, a.Forecast, a.Pool, x.facts.Tries+1, a.Began
	f := &a.Forecast
	x.entry.Place(inflight.Placement{Worker: a.Worker.ID, Pool: a.Pool.Name, CachedTokens: f.CachedTokens, OutputTokens: f.OutputTokens, PrefillSeconds: f.PrefillSeconds, DecodeSeconds: f.DecodeSeconds}, a.Began)
	return nil
}

// waiting is what the gate wants to know should the request have to wait.
func (x *exchange) waiting() *gate.Wait {
	w, g := &x.wait, &x.guest
	if !w.GaveWay() { // else it keeps its place
		w.Item = flow.Item{Tenant: g.Tenant, Class: g.Class, Weight: g.Weight, Bytes: int64(len(x.body))}
	}
	if g.Timeout > 0 {
		w.Item.StartBy = x.facts.Started.Add(g.Timeout)
	}
	if w.Tell = nil; x.o.TellPosition > 0 && x.scanned && x.req.Events() {
		w.Tell, w.TellEvery = x.tell, x.o.TellPosition
	}
	w.Needs, w.BestEffort = x.req.Needs, x.p.desk.Least(g)
	if w.Again = nil; len(x.want.Known) > 0 {
		w.Again = x.known.Again
	}
	return w
}

// placeFailure shapes why no worker could be chosen.
func (x *exchange) placeFailure(err error) *failure {
	a := refusal.Of(err, x.guest.Known, x.dialect)
	if a.Outcome == outcome.NoWorker && a.Reason == "" && x.ctx.Err() != nil {
		return &failure{status: statusClientLeft, kind: llmapi.KindUpstream, outcome: outcome.Cancelled, message: context.Cause(x.ctx).Error()}
	}
	if a.Reason != "" {
		x.facts.Refused = a.Reason
	}
	return failed(a)
}

// leave settles what the request counted for at the desk.
func (x *exchange) leave() {
	f, d := &x.facts, &x.facts.Decision
	used := bill.Used(x.o.Prices.Of(f.Model), bill.Use{
		PromptTokens: f.Usage.PromptTokens, CachedTokens: f.Usage.CachedTokens, CompletionTokens: f.Usage.CompletionTokens, Reported: f.Usage.HasPrompt,
		CachedReported: f.Usage.HasCached, Seen: f.Tokens, Whole: f.Outcome == outcome.Succeeded, Estimate: f.PromptTokens,
		Placed: bill.Expectation{PrefillSeconds: d.Cost.Prefill, DecodeSeconds: d.Cost.Decode, UncachedTokens: float64(f.PromptTokens - d.MatchedTokens), OutputTokens: d.OutputTokens}})
	f.Money = bill.Charged(x.ran(), used)
	x.p.desk.End(f.Ended, &x.guest, x.ran(), used)
}

// ran says whether an engine began the request.
func (x *exchange) ran() bool {
	return bill.Ran(x.facts.Outcome, x.facts.Tries, x.facts.Tokens > 0 || x.facts.Usage.HasPrompt)
}

// giveUp ends a request that no worker answered well: with the last worker's own error reply if there is one, else with what the
// last attempt failed with, which says more than "nobody is left".
func (x *exchange) giveUp(err error) error {
	switch {
	case x.held != nil && x.ctx.Err() == nil:
		return x.writeHeld()
	case x.last != nil && x.facts.Tries > 0:
		return x.last
	}
	return err
}
