package refusal

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/upstream"
)

// NoConnections is what is told where this machine has no room for another connection.
const NoConnections = "the router can open no more connections; raise its limit of open files (ulimit -n, LimitNOFILE)"

// Crowded is what is told a client beyond so many connections.
func Crowded(most int) string {
	return fmt.Sprintf("the router has more than %d connections, as many as it keeps (setting connections_max, bounded by half of its limit of open files: ulimit -n, LimitNOFILE)", most)
}

// Limits are those that an exchange with a worker may have run into, for its error to name.
type Limits struct{ Connect, Header, IdleGap time.Duration }

// Broken shapes a broken exchange with a worker. The worker is named by its id, never by its URL, which may hold a secret.
func Broken(worker string, err error, l Limits) Answer {
	a := Answer{Status: http.StatusBadGateway, Kind: llmapi.KindUpstream, Outcome: outcome.Failed}
	var up *upstream.Error
	if !errors.As(err, &up) {
		a.Message = "worker " + worker + ": " + err.Error()
		return a
	}
	a.Class = up.Class.String()
	switch up.Class {
	case upstream.Refused: // nobody has seen the request: it may well be sent again
		a.Status, a.After = http.StatusServiceUnavailable, time.Second
		a.Message = fmt.Sprintf("worker %s refused the connection or did not accept it within %v (setting timeouts.connect)", worker, l.Connect)
	case upstream.Exhausted:
		a.Status, a.Kind, a.After, a.Message = http.StatusServiceUnavailable, llmapi.KindOverloaded, time.Second, NoConnections
	case upstream.Invalid:
		a.Status, a.Kind, a.Outcome = http.StatusBadRequest, llmapi.KindInvalid, outcome.ClientError
		a.Message = "the request cannot be passed on as HTTP/1.1: " + up.Err.Error()
	case upstream.Source:
		a.Status, a.Message = http.StatusInternalServerError, "the request body could not be read back from its file"
	case upstream.Timeout:
		a.Status, a.Kind = http.StatusGatewayTimeout, llmapi.KindTimeout
		a.Message = fmt.Sprintf("worker %s sent nothing within the limit (settings timeouts.header, now %v, and timeouts.idle_gap, now %v)", worker, l.Header, l.IdleGap)
	case upstream.BadShape:
		a.Message = "worker " + worker + " answered something that is not HTTP/1.1: " + up.Err.Error()
	default:
		a.Message = "worker " + worker + " broke the connection before its answer was complete"
	}
	return a
}
