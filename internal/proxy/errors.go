package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/intake"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/upstream"
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

// statusClientLeft is nginx's word for a client that did not wait for its answer. Only logs see it.
const statusClientLeft = 499

func badRequest(param, format string, args ...any) *failure {
	return &failure{status: http.StatusBadRequest, kind: llmapi.KindInvalid, param: param, message: fmt.Sprintf(format, args...), outcome: outcome.ClientError}
}

// scanFailure shapes what the body scan found wrong.
func scanFailure(err error) *failure {
	var field *llmapi.FieldError
	if errors.As(err, &field) {
		return badRequest(field.Field, "%s", err.Error())
	}
	return badRequest("", "the request body is %s", err.Error())
}

const noConnections = "the router can open no more connections; raise its limit of open files (ulimit -n, LimitNOFILE)"

// upstreamFailure shapes a broken exchange with a worker. The worker is named by its id, never by its URL, which may hold a secret.
func upstreamFailure(w *fleet.Worker, err error, o Options) *failure {
	f := &failure{status: http.StatusBadGateway, kind: llmapi.KindUpstream, outcome: outcome.Failed}
	var up *upstream.Error
	if !errors.As(err, &up) {
		f.message = "worker " + w.ID + ": " + err.Error()
		return f
	}
	f.class = up.Class.String()
	switch up.Class {
	case upstream.Refused: // nobody has seen the request: it may well be sent again
		f.status, f.retryAfter = http.StatusServiceUnavailable, time.Second
		f.message = fmt.Sprintf("worker %s refused the connection or did not accept it within %v (setting timeouts.connect)", w.ID, o.ConnectTimeout)
	case upstream.Exhausted:
		f.status, f.kind, f.retryAfter = http.StatusServiceUnavailable, llmapi.KindOverloaded, time.Second
		f.message = noConnections
	case upstream.Invalid:
		f.status, f.kind, f.outcome = http.StatusBadRequest, llmapi.KindInvalid, outcome.ClientError
		f.message = "the request cannot be passed on as HTTP/1.1: " + up.Err.Error()
	case upstream.Source:
		f.status, f.message = http.StatusInternalServerError, "the request body could not be read back from its file"
	case upstream.Timeout:
		f.status, f.kind = http.StatusGatewayTimeout, llmapi.KindTimeout
		f.message = fmt.Sprintf("worker %s sent nothing within the limit (settings timeouts.header, now %v, and timeouts.idle_gap, now %v)", w.ID, o.HeaderTimeout, o.IdleGap)
	case upstream.BadShape:
		f.message = "worker " + w.ID + " answered something that is not HTTP/1.1: " + up.Err.Error()
	default:
		f.message = "worker " + w.ID + " broke the connection before its answer was complete"
	}
	return f
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

// exhaustedEvery is how often the log says that no connection can be made.
const exhaustedEvery = 10 * time.Second

// tellExhausted says that this machine has no room for another connection: the operator can help it, and nobody else sees it.
func (p *Proxy) tellExhausted(err error) {
	now := p.now().UnixNano()
	if last := p.exhausted.Load(); now-last >= int64(exhaustedEvery) && p.exhausted.CompareAndSwap(last, now) {
		p.log.Error("no connection to a worker can be opened: raise the limit of open files (ulimit -n, LimitNOFILE)", "error", err)
	}
}
