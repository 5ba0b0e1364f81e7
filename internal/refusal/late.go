package refusal

import (
	"fmt"
	"net/http"

	"github.com/warmpath/warmpath/internal/complaint"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/outcome"
)

// Late is a worker's answer that is no stream, for a client whose stream has begun: what it says becomes an error event.
func Late(status int, worker string, body []byte) Answer {
	a := Answer{Status: status, Kind: llmapi.KindUpstream, Outcome: outcome.Of(status), Message: fmt.Sprintf("worker %s answered %d %s", worker, status, http.StatusText(status))}
	switch {
	case status < 300:
		a.Outcome, a.Message = outcome.Failed, "worker "+worker+" answered no stream of events where one had begun"
		return a
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		a.Kind = llmapi.KindOverloaded
	case status == http.StatusNotFound:
		a.Kind = llmapi.KindModel
	case status < 500:
		a.Kind = llmapi.KindInvalid
	}
	if words := complaint.Words(body); words != "" {
		a.Message += ": " + words
	}
	return a
}
