package models

import (
	"fmt"
	"math"
	"strings"

	"github.com/warmpath/warmpath/internal/llmapi"
)

// Out says why a candidate cannot be chosen.
type Out uint8

// The reasons. In is none.
const (
	In Out = iota
	Failed
	Forbidden
	Unable
	TierLow
	Unweighted
	TooLong
	NoWorker
	OverBudget
	Loaded
)

var outNames = [...]string{"", "failed", "tenant", "capability", "tier", "weight", "context", "down", "budget", "overloaded"}

// String is the reason's name in logs and metrics; "" for In.
func (o Out) String() string { return outNames[min(int(o), len(outNames)-1)] }

// MarshalText is String.
func (o Out) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Reason says why the chosen one was chosen.
type Reason uint8

// The reasons.
const (
	Named    Reason = iota // it is not virtual
	Only                   // no other could
	Cheapest               // by money and time
	Stayed                 // none was clearly cheaper than where the conversation is
	Split                  // by weight
	First                  // of those that can, in order
	FellBack               // after an error, or as no candidate could
)

var reasonNames = [...]string{"named", "only", "cheapest", "stayed", "split", "first", "fallback"}

// String is the reason's name in logs and metrics.
func (r Reason) String() string { return reasonNames[min(int(r), len(reasonNames)-1)] }

// MarshalText is String.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Explain says in words how a candidate was judged.
func (r *Row) Explain() string {
	if r.Out != In {
		return r.Model + ": out, " + r.why()
	}
	text := fmt.Sprintf("%s: %.6g = %.6g in money + %.6g for %.2f s", r.Model, r.Total, r.Money, r.TimeMoney,
		r.WaitSeconds+r.Expected.PrefillSeconds+r.Expected.DecodeSeconds)
	if r.LeavingMoney > 0 {
		text += fmt.Sprintf(", of it %.6g for leaving a warm cache", r.LeavingMoney)
	}
	if r.Current {
		text += ", the conversation is here"
	}
	if r.loaded {
		text += ", overloaded"
	}
	return text
}

// why is the reason in words that name no model, fit for clients.
func (r *Row) why() string {
	switch r.Out {
	case Failed:
		return "it failed this request"
	case Forbidden:
		return "the tenant may not use it"
	case Unable:
		return "it cannot do " + r.missing.String()
	case TierLow:
		return fmt.Sprintf("tier %.0f is below %.0f", r.had, r.needed)
	case Unweighted:
		return "its weight is 0"
	case TooLong:
		return fmt.Sprintf("the request needs %.0f tokens, its context has %.0f", r.needed, r.had)
	case NoWorker:
		return "no worker can take requests now"
	case OverBudget:
		return fmt.Sprintf("it would cost %.6g, the budget has %.6g left", r.needed, r.had)
	}
	return "it is overloaded and others are not"
}

// ErrForbidden says that a tenant may not ask for a model. It reads as if there were none, so that nobody learns what others may use.
type ErrForbidden struct{ Name string }

func (e *ErrForbidden) Error() string { return fmt.Sprintf("the model %q does not exist", e.Name) }

// ErrNone says that no candidate can take the request.
type ErrNone struct {
	Name string
	Rows []Row
}

// Error names reasons and no candidates: what is behind a name is not for clients.
func (e *ErrNone) Error() string {
	var parts []string
	counts := map[string]int{}
	for i := range e.Rows {
		why := e.Rows[i].why()
		if counts[why]++; counts[why] == 1 {
			parts = append(parts, why)
		}
	}
	for i, why := range parts {
		if n := counts[why]; n > 1 {
			parts[i] = fmt.Sprintf("%s (%d times)", why, n)
		}
	}
	return fmt.Sprintf("nothing behind the model %q can take this request: %s", e.Name, strings.Join(parts, "; "))
}

// Unpaid is the least money that would have done where nothing but the tenant's budget is in the way now; false: something else is, or other
// models failed the request before.
func (e *ErrNone) Unpaid() (money float64, is bool) {
	if e.Kind() != llmapi.KindRateLimit {
		return 0, false
	}
	money = math.Inf(1)
	for i := range e.Rows {
		switch r := &e.Rows[i]; r.Out {
		case Failed:
			return 0, false
		case OverBudget:
			money = min(money, r.needed)
		}
	}
	return money, true
}

// Kind is the error's kind for clients (llmapi's Kind constants): worth trying again when some candidate is only down or overloaded.
func (e *ErrNone) Kind() string {
	kind := llmapi.KindInvalid
	for i := range e.Rows {
		switch r := &e.Rows[i]; {
		case r.Out == NoWorker || r.Out == Failed && r.class != Context:
			return llmapi.KindOverloaded
		case r.Out == OverBudget:
			kind = llmapi.KindRateLimit
		case (r.Out == TooLong || r.Out == Failed) && kind == llmapi.KindInvalid:
			kind = llmapi.KindContext
		}
	}
	return kind
}
