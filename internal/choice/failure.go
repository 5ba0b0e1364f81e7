package choice

import (
	"errors"
	"net/http"
	"slices"

	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/models"
)

// Failure is why a model came to nothing for a request.
type Failure struct {
	Kind    string // one of llmapi's, of the error that the client would get
	Status  int    // that a worker answered; 0 none
	Refused bool   // the queue did not take it, or not for longer
	Nobody  bool   // no worker could be asked
}

// Failed notes that nobody is left to try for the pick's model; false when another model would fail alike, or all of them have.
func (p *Pick) Failed(f Failure) bool {
	switch {
	case f.Refused, f.Status == http.StatusTooManyRequests, f.Status == http.StatusServiceUnavailable:
		f.Kind = llmapi.KindOverloaded
	case f.Nobody:
		f.Kind = llmapi.KindUpstream
	}
	class, known := models.ClassOf(f.Kind)
	if p.Asked == "" || !known || slices.ContainsFunc(p.ask.Failed, func(f models.Failure) bool { return f.Model == p.Model }) {
		return false
	}
	p.ask.Failed = append(p.ask.Failed, models.Failure{Model: p.Model, Class: class})
	return true
}

var errTier = errors.New(HeaderTier + " must be a whole number, such as 2")

// Unpaid is the least money that would have done where Choose found nothing but the tenant's budget in the way.
func Unpaid(err error) (money float64, is bool) {
	var none *models.ErrNone
	if !errors.As(err, &none) {
		return 0, false
	}
	return none.Unpaid()
}

// Refusal is how a client is told of an error of Choose: the status, and llmapi's kind; 0 for any other error.
func Refusal(err error) (status int, kind string) {
	var none *models.ErrNone
	var forbidden *models.ErrForbidden
	switch {
	case err == errTier:
		return http.StatusBadRequest, llmapi.KindInvalid
	case errors.As(err, &forbidden):
		return http.StatusNotFound, llmapi.KindModel
	case !errors.As(err, &none):
		return 0, ""
	}
	switch kind = none.Kind(); kind {
	case llmapi.KindOverloaded:
		return http.StatusServiceUnavailable, kind
	case llmapi.KindRateLimit:
		return http.StatusTooManyRequests, kind
	}
	return http.StatusBadRequest, kind
}
