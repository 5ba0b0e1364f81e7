package proxy

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/internal/admission"
	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/tenant"
)

// enter finds out who asks, before the body is taken in.
func (x *exchange) enter() error {
	err := x.p.desk.Enter(x.facts.Started, x.in, &x.guest)
	switch {
	case errors.Is(err, tenant.ErrNoKey), errors.Is(err, tenant.ErrKey):
		x.w.Header().Set("WWW-Authenticate", "Bearer")
		return &failure{status: http.StatusUnauthorized, kind: llmapi.KindAuth, message: err.Error(), outcome: OutcomeClientError}
	case err != nil:
		return badRequest("", "%s", err.Error())
	}
	return nil
}

// admit has a worker chosen and reserved that this request has not tried, as soon as there is one with room.
func (x *exchange) admit() error {
	if x.facts.Tries == 0 {
		expected := tenant.Use{Tokens: x.want.PromptTokens + x.want.MaxTokens}
		if err := x.p.desk.Begin(x.facts.Started, &x.guest, x.want.Model, expected); err != nil {
			return x.placeFailure(err)
		}
	}
	began := x.facts.keyed // the first decision takes the key step in
	if began.IsZero() {
		began = x.p.now()
	}
	w, g := &x.wait, &x.guest
	w.Item = flow.Item{Tenant: g.Tenant, Class: g.Class, Weight: g.Weight, Bytes: int64(len(x.body))}
	if g.Timeout > 0 {
		w.Item.StartBy = x.facts.Started.Add(g.Timeout)
	}
	if w.Again = nil; len(x.want.Known) > 0 {
		w.Again = x.known.Again
	}
	a := x.attempt()
	err := x.p.gate.Enter(x.ctx, &a.Attempt, &x.want, w)
	took := x.p.now().Sub(began) - w.Waited
	x.facts.DecisionTime, x.facts.Waited, x.facts.keyed = x.facts.DecisionTime+took, x.facts.Waited+w.Waited, time.Time{}
	if h := x.p.hooks.Decided; h != nil {
		h(took)
	}
	if err != nil {
		return x.placeFailure(err)
	}
	x.try = a
	x.want.Tried = append(x.want.Tried, a.Worker)
	x.facts.Decision, x.facts.Tries, x.facts.Placed = a.Decision, x.facts.Tries+1, a.Began
	return nil
}

// placeFailure shapes why no worker could be chosen.
func (x *exchange) placeFailure(err error) *failure {
	var model *sched.ErrNoModel
	var long *sched.ErrContext
	var queued *flow.Refusal
	var limit *tenant.Refusal
	f := &failure{status: http.StatusServiceUnavailable, kind: llmapi.KindOverloaded, message: err.Error(), retryAfter: time.Second, outcome: OutcomeNoWorker}
	switch {
	case errors.As(err, &model) && x.guest.Known, errors.Is(err, admission.ErrModel): // which models others may use is not told
		f = &failure{status: http.StatusNotFound, kind: llmapi.KindModel, param: "model", message: "no worker serves the model, or it is not for this key", outcome: OutcomeClientError}
	case model != nil:
		f = &failure{status: http.StatusNotFound, kind: llmapi.KindModel, param: "model", message: err.Error(), outcome: OutcomeClientError}
	case errors.As(err, &long):
		f = &failure{status: http.StatusBadRequest, kind: llmapi.KindContext, param: "messages", message: err.Error(), outcome: OutcomeClientError}
	case errors.As(err, &limit):
		f = &failure{status: http.StatusTooManyRequests, kind: llmapi.KindRateLimit, message: err.Error(), retryAfter: limit.After, outcome: OutcomeClientError}
	case errors.As(err, &queued):
		x.facts.Refused, f.retryAfter = string(queued.Reason), max(queued.After, time.Second)
		if x.dialect == llmapi.Anthropic {
			f.status = statusOverloaded
		}
	case x.ctx.Err() != nil:
		f = &failure{status: statusClientLeft, kind: llmapi.KindUpstream, outcome: OutcomeCancelled, message: context.Cause(x.ctx).Error()}
	}
	return f
}

// statusOverloaded is Anthropic's for a server that has too much to do.
const statusOverloaded = 529

// leave settles what the request counted for at the desk.
func (x *exchange) leave() {
	u := &x.facts.Usage
	used := tenant.Use{Tokens: u.PromptTokens + u.CompletionTokens}
	if ran := x.facts.Tries > 0 && x.facts.Outcome != OutcomeNoWorker; ran && !u.HasPrompt {
		used.Tokens = x.facts.PromptTokens + x.facts.Tokens
		x.p.desk.End(x.facts.Ended, &x.guest, true, used)
	} else {
		x.p.desk.End(x.facts.Ended, &x.guest, ran, used)
	}
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
