// Package outcome is how a request ended, as counted in warmpath_requests_total.
//
//	o := outcome.Of(res.Status)
//	reservation.Release(now, o.ForFleet())
package outcome

import (
	"net/http"

	"github.com/warmpath/warmpath/internal/fleet"
)

// Outcome is one of those below.
type Outcome string

// The outcomes.
const (
	Succeeded   Outcome = "succeeded"    // a whole answer
	Failed      Outcome = "failed"       // the worker failed, the stream broke or carried an error, or the router cut it off
	Incomplete  Outcome = "incomplete"   // the reply says so itself, or the stream ended without its terminator
	Cancelled   Outcome = "cancelled"    // the client left
	ClientError Outcome = "client_error" // 4xx, ours or the worker's
	Busy        Outcome = "busy"         // 429 or 503 passed on
	NoWorker    Outcome = "no_worker"    // nobody could serve it
)

// Of is how a worker's status counts.
func Of(status int) Outcome {
	switch {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		return Busy
	case status >= 500:
		return Failed
	case status >= 400:
		return ClientError
	}
	return Succeeded
}

// ForFleet is what it says of the worker.
func (o Outcome) ForFleet() fleet.Outcome {
	switch o {
	case Succeeded, Incomplete:
		return fleet.Succeeded
	case Cancelled:
		return fleet.Cancelled
	case ClientError, Busy:
		return fleet.Refused
	}
	return fleet.Failed
}
