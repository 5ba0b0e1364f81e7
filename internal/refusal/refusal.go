// Package refusal is how clients are told why their request was answered by no worker: the status, and the words of their API.
//
//	a := refusal.Of(err, guest.Known, dialect)     // of the desk, the choice of a model, the queue or the scheduler
//	a.Status, a.Kind, a.After                      // 429, insufficient_quota, until midnight
package refusal

import (
	"errors"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/internal/admission"
	"github.com/warmpath/warmpath/internal/choice"
	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/tenant"
)

// Answer is one refusal.
type Answer struct {
	Status         int
	Kind           string // one of llmapi's, or a reason of the queue
	Param, Message string
	After          time.Duration // when to come again; 0: never
	Outcome        outcome.Outcome
	Reason         string // of the queue, or the tenant's limit; "" neither
	Class          string // of a worker's error, for logs
	Limit          bool   // it is the tenant's own limit: another model would be refused alike
}

// StatusOverloaded is Anthropic's for a server that has too much to do.
const StatusOverloaded = 529

// Of shapes an error. known is whether the client showed a key: which models others may use is not told.
func Of(err error, known bool, d llmapi.Dialect) Answer {
	var model *sched.ErrNoModel
	var long *sched.ErrContext
	var queued *flow.Refusal
	var limit *tenant.Refusal
	var priority *admission.PriorityError
	status, kind := choice.Refusal(err)
	switch {
	case errors.As(err, &model) && known, kind == llmapi.KindModel, errors.Is(err, admission.ErrModel):
		return Answer{Status: http.StatusNotFound, Kind: llmapi.KindModel, Param: "model", Message: "no worker serves the model, or it is not for this key", Outcome: outcome.ClientError}
	case status != 0 && status != http.StatusServiceUnavailable:
		return Answer{Status: status, Kind: kind, Param: "model", Message: err.Error(), Outcome: outcome.ClientError}
	case model != nil:
		return Answer{Status: http.StatusNotFound, Kind: llmapi.KindModel, Param: "model", Message: err.Error(), Outcome: outcome.ClientError}
	case errors.As(err, &long):
		return Answer{Status: http.StatusBadRequest, Kind: llmapi.KindContext, Param: "messages", Message: err.Error(), Outcome: outcome.ClientError}
	case errors.As(err, &priority):
		return Answer{Status: http.StatusForbidden, Kind: llmapi.KindPermission, Param: "priority", Message: err.Error(), Outcome: outcome.ClientError}
	case errors.As(err, &limit):
		return ofLimit(limit)
	}
	a := Answer{Status: http.StatusServiceUnavailable, Kind: llmapi.KindOverloaded, Message: err.Error(), After: time.Second, Outcome: outcome.NoWorker}
	var nobody *sched.ErrNoWorker
	if errors.As(err, &nobody) {
		a.After = max(nobody.After, time.Second)
	}
	if errors.As(err, &queued) {
		a.Kind, a.Reason, a.After = string(queued.Reason), string(queued.Reason), max(queued.After, time.Second)
		if d == llmapi.Anthropic {
			a.Status = StatusOverloaded
		}
	}
	return a
}

// Unpaid is err, or the tenant's own limit where that is why none of the models behind a name could be chosen: clients and counts are to be told
// of it as of any other limit.
func Unpaid(err error, d *admission.Desk, now time.Time, g *admission.Guest) error {
	if money, is := choice.Unpaid(err); is {
		if limit := d.Unpaid(now, g, money); limit != nil {
			return limit
		}
	}
	return err
}

// ofLimit shapes a tenant's own limit. Money that is spent is what OpenAI calls a quota, and Anthropic a rate.
func ofLimit(limit *tenant.Refusal) Answer {
	a := Answer{Status: http.StatusTooManyRequests, Kind: llmapi.KindRateLimit, Message: limit.Error(), Outcome: outcome.ClientError, Reason: limit.Limit, Limit: true}
	if limit.Limit == tenant.LimitSpend {
		a.Kind = llmapi.KindQuota
	}
	if !limit.Never {
		a.After = max(limit.After, time.Second)
	}
	return a
}

// Stranger is why nobody knows who asks.
func Stranger(err error) Answer {
	a := Answer{Status: http.StatusBadRequest, Kind: llmapi.KindInvalid, Message: err.Error(), Outcome: outcome.ClientError}
	if errors.Is(err, tenant.ErrNoKey) || errors.Is(err, tenant.ErrKey) {
		a.Status, a.Kind = http.StatusUnauthorized, llmapi.KindAuth
	}
	return a
}

// Malformed is what the scan of a body found wrong.
func Malformed(err error) Answer {
	a := Answer{Status: http.StatusBadRequest, Kind: llmapi.KindInvalid, Message: "the request body is " + err.Error(), Outcome: outcome.ClientError}
	var field *llmapi.FieldError
	if errors.As(err, &field) {
		a.Param, a.Message = field.Field, err.Error()
	}
	return a
}
