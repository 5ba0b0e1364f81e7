package proxy

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/internal/admission"
	"github.com/warmpath/warmpath/internal/choice"
	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/tenant"
)

// enter finds out who asks, before the body is taken in.
func (x *exchange) enter() error {
	if err := x.p.desk.Enter(x.facts.Started, x.in, &x.guest); err != nil {
		return stranger(x.w, err)
	}
	x.facts.Class = x.guest.ClassName
	return nil
}

// stranger shapes why nobody knows who asks.
func stranger(w http.ResponseWriter, err error) *failure {
	if errors.Is(err, tenant.ErrNoKey) || errors.Is(err, tenant.ErrKey) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		return &failure{status: http.StatusUnauthorized, kind: llmapi.KindAuth, message: err.Error(), outcome: outcome.ClientError}
	}
	return badRequest("", "%s", err.Error())
}

// expected is what the request will use of its tenant's limits: its prompt, and its answer as long as it may get or, where it does not say,
// as such answers are.
func (x *exchange) expected() tenant.Use {
	answer := x.want.MaxTokens
	if answer == 0 && x.guest.Known && x.want.Generates {
		answer = x.p.gate.Expect(x.want.Model, x.want.Tenant)
	}
	return tenant.Use{Tokens: x.want.PromptTokens + min(answer, tokensMax)*min(max(1, x.req.N), tokensMax)} // no overflow
}

// tokensMax is more than any answer has.
const tokensMax = 1 << 30

// admit has a worker chosen and reserved that this request has not tried, as soon as there is one with room.
func (x *exchange) admit() error {
	if err := x.p.desk.Begin(x.facts.keyed, &x.guest, x.named(), x.expected()); err != nil {
		return x.placeFailure(err)
	}
	began := x.facts.keyed // the first decision takes the key step in
	if began.IsZero() {
		began = x.p.now()
	}
	w := x.waiting()
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
	x.facts.Decision, x.facts.Pool, x.facts.Tries, x.facts.Placed = a.Decision, a.Pool, x.facts.Tries+1, a.Began
	return nil
}

// waiting is what the gate wants to know should the request have to wait.
func (x *exchange) waiting() *gate.Wait {
	w, g := &x.wait, &x.guest
	w.Item = flow.Item{Tenant: g.Tenant, Class: g.Class, Weight: g.Weight, Bytes: int64(len(x.body))}
	if g.Timeout > 0 {
		w.Item.StartBy = x.facts.Started.Add(g.Timeout)
	}
	w.Needs, w.BestEffort = x.req.Needs, x.p.desk.Least(g)
	if w.Again = nil; len(x.want.Known) > 0 {
		w.Again = x.known.Again
	}
	return w
}

// placeFailure shapes why no worker could be chosen.
func (x *exchange) placeFailure(err error) *failure {
	var model *sched.ErrNoModel
	var long *sched.ErrContext
	var queued *flow.Refusal
	var limit *tenant.Refusal
	f := &failure{status: http.StatusServiceUnavailable, kind: llmapi.KindOverloaded, message: err.Error(), retryAfter: time.Second, outcome: outcome.NoWorker}
	status, kind := choice.Refusal(err)
	switch {
	case status == http.StatusServiceUnavailable:
	case status != 0:
		f = &failure{status: status, kind: kind, param: "model", message: err.Error(), outcome: outcome.ClientError}
	case errors.As(err, &model) && x.guest.Known, errors.Is(err, admission.ErrModel): // which models others may use is not told
		f = &failure{status: http.StatusNotFound, kind: llmapi.KindModel, param: "model", message: "no worker serves the model, or it is not for this key", outcome: outcome.ClientError}
	case model != nil:
		f = &failure{status: http.StatusNotFound, kind: llmapi.KindModel, param: "model", message: err.Error(), outcome: outcome.ClientError}
	case errors.As(err, &long):
		f = &failure{status: http.StatusBadRequest, kind: llmapi.KindContext, param: "messages", message: err.Error(), outcome: outcome.ClientError}
	case errors.As(err, &limit):
		f = &failure{status: http.StatusTooManyRequests, kind: llmapi.KindRateLimit, message: err.Error(), outcome: outcome.ClientError}
		if x.facts.Refused = limit.Limit; !limit.Never {
			f.retryAfter = max(limit.After, time.Second)
		}
	case errors.As(err, &queued):
		x.facts.Refused, f.retryAfter = string(queued.Reason), max(queued.After, time.Second)
		f.kind = x.facts.Refused
		if x.dialect == llmapi.Anthropic {
			f.status = statusOverloaded
		}
	case x.ctx.Err() != nil:
		f = &failure{status: statusClientLeft, kind: llmapi.KindUpstream, outcome: outcome.Cancelled, message: context.Cause(x.ctx).Error()}
	}
	return f
}

// statusOverloaded is Anthropic's for a server that has too much to do.
const statusOverloaded = 529

// leave settles what the request counted for at the desk.
func (x *exchange) leave() {
	f := &x.facts
	used := tenant.Use{Tokens: f.Usage.PromptTokens + f.Usage.CompletionTokens}
	if !f.Usage.HasPrompt {
		used.Tokens = f.PromptTokens + f.Tokens
	}
	x.p.desk.End(f.Ended, &x.guest, x.ran(), used)
}

// ran says whether an engine began the request, for all that is known: one that a worker refused has cost nothing, nor has one that failed
// before a token came of it; what a client left behind was computed.
func (x *exchange) ran() bool {
	f := &x.facts
	switch f.Outcome {
	case outcome.Succeeded, outcome.Incomplete:
		return true
	case outcome.Cancelled:
		return f.Tries > 0
	case outcome.Failed:
		return f.Tokens > 0 || f.Usage.HasPrompt
	}
	return false
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
