package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/internal/intake"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/refusal"
)

// failure is an answer of our own making. The status travels with it and is written once, at the edge, in the client's dialect.
type failure struct {
	status     int
	kind       string // one of llmapi's kinds
	message    string // names the value, the limit and the setting
	param      string // the request field at fault, if there is one
	retryAfter time.Duration
	outcome    outcome.Outcome
	class      string // upstream error class, for the log
	limit      bool   // the tenant's own: another model would be refused alike
}

func (f *failure) Error() string { return f.message }

// Class is the upstream error's, for traces.
func (f *failure) Class() string { return f.class }

// statusClientLeft is nginx's word for a client that did not wait for its answer. Only logs see it.
const statusClientLeft = 499

func failed(a refusal.Answer) *failure {
	return &failure{status: a.Status, kind: a.Kind, param: a.Param, message: a.Message, retryAfter: a.After, outcome: a.Outcome, class: a.Class, limit: a.Limit}
}

func badRequest(param, format string, args ...any) *failure {
	return &failure{status: http.StatusBadRequest, kind: llmapi.KindInvalid, param: param, message: fmt.Sprintf(format, args...), outcome: outcome.ClientError}
}

// write sends a failure in the dialect of d.
func (f *failure) write(w http.ResponseWriter, d llmapi.Dialect) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if f.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(max(1, int(f.retryAfter.Round(time.Second)/time.Second))))
	}
	body := llmapi.ErrorBody(d, f.status, f.kind, intake.Clip(f.message), f.param)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(f.status)
	w.Write(body)
}
