package proxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/internal/complaint"
	"github.com/warmpath/warmpath/internal/facts"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/intake"
	"github.com/warmpath/warmpath/internal/life"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/refusal"
	"github.com/warmpath/warmpath/internal/upstream"
)

// Before another worker is asked after one that answered that it cannot, the fleet is given a moment: so long times the tries so far.
const (
	retryBackoffFirst  = 10 * time.Millisecond
	retryBackoffSpread = 30 * time.Millisecond
)

// retryable is a failed attempt after which another worker may be tried, as long as no byte of an answer reached the client.
type retryable struct {
	*failure
	poison   bool // it broke a fresh connection after being sent whole: the request may be what kills workers
	free     bool // the worker left: nobody's fault, no budget is spent
	backOff  bool // the worker answered that it cannot: give the fleet a moment
	answered int  // the status it answered, 0 when it did not
}

func (r *retryable) Unwrap() error { return r.failure }

// again decides whether the request is tried on another worker, and waits a moment where that helps.
func (x *exchange) again(err error) bool {
	var r *retryable
	if !errors.As(err, &r) || x.sent > 0 || x.ctx.Err() != nil {
		return false
	}
	x.last = r.failure
	if len(x.want.Tried)-x.left > x.o.RetriesMax || (r.poison && x.poisoned) {
		return false
	}
	x.poisoned = x.poisoned || r.poison
	if !x.p.gate.CanPlace(x.want) {
		return false
	}
	if !r.free && !x.p.retries.Take(x.p.now()) {
		return false
	}
	if r.backOff && !life.Pause(x.ctx, time.Duration(x.facts.Tries)*(retryBackoffFirst+rand.N(retryBackoffSpread))) {
		return false
	}
	x.facts.Failed = append(x.facts.Failed, facts.FailedTry{Worker: x.try.Worker.ID, Class: r.class, Status: r.answered})
	if h := x.p.hooks.Retried; h != nil {
		h(r.free)
	}
	return true
}

// gaveWay says that the attempt's work gave way to a more urgent request, whatever else it ended with. The gate has released it; the
// request is to be admitted again, in its old place, and may go to the same worker.
func (x *exchange) gaveWay() bool {
	if !x.wait.GaveWay() {
		return false
	}
	f := &x.facts
	f.Preempted, f.Wasted = x.wait.Item.Preempted()
	if x.sent > 0 || x.ctx.Err() != nil {
		return false
	}
	x.try.entering.Wait()
	x.try.settled, x.held, x.last = true, nil, nil
	x.want.Tried = x.want.Tried[:0]
	f.Failed = append(f.Failed, facts.FailedTry{Worker: x.try.Worker.ID, Class: "preempted"})
	return true
}

// send forwards the request to the admitted worker and relays the answer. An error of type *retryable may be tried elsewhere.
func (x *exchange) send() (err error) {
	a := x.try
	a.Follow(x.ctx, a.Gone)
	defer func() {
		kept := x.p.gate.Keep(&x.wait) // else somebody may still be about to end the attempt
		x.spent = !a.Leave() || !kept || x.spent
		x.facts.Trace.Tried(a.Worker.ID, a.Began, x.p.now, err)
	}()
	res, err := a.Client.Do(&a.Life, x.outgoing(a))
	if err != nil {
		return x.broke(&a.Life, err)
	}
	defer res.Body.Close()
	a.Heard()
	return x.relay(&a.Life, res)
}

// outgoing is the request as the worker gets it: the client's bytes, save for a splice.
func (x *exchange) outgoing(a *attempt) *upstream.Request {
	body := x.body
	if edits := x.edits(a); edits != nil {
		body = llmapi.Splice(body, edits...)
	}
	h := intake.ToWorker(x.room.sent[:0], x.in, intake.Toward{RequestID: x.facts.ID, Trace: x.facts.Trace.Next(), State: x.facts.Trace.State, Key: a.Key, Rank: a.Rank, KeyIsOurs: x.guest.Known})
	x.room.sent = h
	a.request = upstream.Request{Method: x.r.Method, Path: intake.Target(x.r.URL), Header: h, Body: body}
	out := &a.request
	if a.Decision.Entered < len(x.chain.Keys) {
		rest := func() { x.p.gate.EnterRest(&a.Attempt, x.chain) }
		out.Sent = func() { a.entering.Go(rest) } // beside the wait for the worker, which may be the shorter of the two
	}
	if x.taken != nil && x.taken.Spooled() {
		x.spent = true // the goroutine that reads the file may come to its end after us
		out.Reopen, out.BodyReader, out.ContentLength = x.taken.Reader, x.taken.Reader(), x.taken.Size
	}
	return out
}

// edits are what a worker is asked for besides: usage, and its own place for the request.
func (x *exchange) edits(a *attempt) (edits []llmapi.Edit) {
	if x.packed || !x.scanned {
		return nil
	}
	if x.o.InjectUsage && x.req.Stream && a.TakesUsageOption {
		edits = x.req.InjectUsage(x.body)
		a.withholds = edits != nil
	}
	level := x.p.desk.Level(&x.guest) * int(a.Urgency)
	if x.o.EnginePriority && x.req.HasPriority() && (a.Urgency == fleet.HighFirst || level != 0 || a.Urgency != 0 && x.req.PrioritySpan.Found()) {
		edits = append(edits, x.req.SetPriority(x.body, level))
	}
	if x.req.TenantSalt != "" && (a.Salts == fleet.AllSalts || a.Salts == fleet.ChatSalts && x.api == llmapi.Chat) {
		edits = append(edits, x.req.SetSalt(x.body))
	}
	return edits
}

// lighten lets go of the body once part of an answer is with the client: nobody else will be asked.
func (x *exchange) lighten() {
	if x.body != nil && x.sent > 0 {
		x.body, x.text, x.try.request.Body = nil, nil, nil
	}
}

// broke sorts out a connection that failed: the client left, the worker left, or the worker is at fault.
func (x *exchange) broke(ctx context.Context, err error) error {
	a := x.try
	f := failed(refusal.Broken(a.Worker.ID, err, refusal.Limits{Connect: x.o.ConnectTimeout, Header: x.o.HeaderTimeout, IdleGap: x.o.IdleGap}))
	if x.ctx.Err() != nil {
		x.release(fleet.Cancelled)
		return &failure{status: statusClientLeft, kind: llmapi.KindUpstream, outcome: outcome.Cancelled,
			message: "the client closed its connection, or its side of it, before the answer was complete"}
	}
	switch cause := context.Cause(ctx); cause {
	case gate.ErrWorkerLeft:
		return x.workerLeft()
	case gate.ErrGaveWay:
		return cause
	}
	x.held = nil
	var up *upstream.Error
	if !errors.As(err, &up) {
		x.fault(fleet.BadShape, "other")
		return f
	}
	switch up.Class {
	case upstream.Refused:
		x.fault(fleet.RefusedConnection, f.class)
		f.message = x.p.gate.AllDown(x.want.Model, x.want.Tried, f.message)
		return &retryable{failure: f}
	case upstream.Reset:
		x.fault(fleet.Reset, f.class)
		return &retryable{failure: f, poison: up.Sent && !up.Reused}
	case upstream.Timeout:
		x.fault(fleet.Timeout, f.class)
	case upstream.Exhausted, upstream.Invalid, upstream.Source: // the router's own trouble, or the request's: no worker has seen it
		if up.Class == upstream.Exhausted { // the operator can help it, and nobody else sees it
			x.p.log.Error("no connection to a worker can be opened: raise the limit of open files (ulimit -n, LimitNOFILE)", "error", err)
		}
		x.upstreamError(a.Worker, f.class)
		x.release(fleet.Failed)
	default:
		x.fault(fleet.BadShape, f.class)
	}
	return f
}

// workerLeft gives up a worker that was taken out of the fleet before any of its answer reached the client.
func (x *exchange) workerLeft() error {
	x.left++
	x.held = nil
	x.release(fleet.Failed)
	return &retryable{free: true, failure: &failure{status: http.StatusBadGateway, kind: llmapi.KindUpstream, outcome: outcome.Failed, class: "moved",
		message: "worker " + x.try.Worker.ID + " left the fleet before it answered"}}
}

// fault counts a failure against the attempt's worker and gives its reservation back.
func (x *exchange) fault(kind fleet.Fault, class string) {
	w := x.try.Worker
	why, ejected := x.p.gate.Fault(&x.try.Attempt, kind)
	if ejected && x.p.hooks.Ejected != nil {
		x.p.hooks.Ejected(w, why)
	}
	x.upstreamError(w, class)
	x.release(fleet.Failed)
}

func (x *exchange) upstreamError(w *fleet.Worker, class string) {
	if h := x.p.hooks.UpstreamError; h != nil {
		h(w, class)
	}
}

// release gives the attempt's reservation back; later calls change nothing.
func (x *exchange) release(o fleet.Outcome) {
	a := x.try
	if a == nil || a.settled {
		return
	}
	a.settled = true
	a.entering.Wait()
	x.p.gate.Release(&a.Attempt, x.chain, o, x.computed(o))
}

// computed says that the worker computed the prompt, for all that is known.
func (x *exchange) computed(o fleet.Outcome) bool {
	return o == fleet.Succeeded || !x.facts.FirstToken.IsZero()
}

// unwell sorts out an answer that says the worker cannot: 429 and 503 are back-pressure, 501 and 505 are about the request, every
// other 5xx is a fault, unless another worker said the same of this request, which then is the likelier cause.
func (x *exchange) unwell(res *upstream.Response) error {
	w, now, class := x.try.Worker, x.p.now(), "server_error"
	retry := res.Status == 500 || res.Status == 502 || res.Status == 503 || res.Status == 504
	switch {
	case res.Status == http.StatusServiceUnavailable || res.Status == http.StatusTooManyRequests:
		x.p.gate.Busy(w, res.Header.RetryAfter(now))
		class = "busy"
		x.upstreamError(w, class)
	case res.Status == http.StatusNotImplemented || res.Status == http.StatusHTTPVersionNotSupported:
		x.p.gate.Succeeded(&x.try.Attempt)
	case x.held == nil:
		x.fault(fleet.ServerError, class)
	case x.held.Status != http.StatusServiceUnavailable && len(x.facts.Failed)-x.left == 1: // the only one it was a fault of
		x.p.gate.Absolve(x.held.Worker)
	}
	retry = retry && (len(x.want.Tried)-x.left <= x.o.RetriesMax || x.pick.Asked != "") && x.sent == 0
	f := &failure{status: res.Status, kind: llmapi.KindUpstream, outcome: outcome.Of(res.Status), retryAfter: res.Header.RetryAfter(now), class: class,
		message: "worker " + w.ID + " answered " + http.StatusText(res.Status)}
	body, err := complaint.Read(res.Body, x.try.End)
	switch {
	case err == complaint.ErrStalled:
		x.release(fleet.Failed)
		f.message += fmt.Sprintf(", and not the rest of its answer within %v", complaint.BodyTime)
		if !retry {
			return f
		}
	case !retry || err != nil || len(body) == complaint.BytesMax:
		res.Body = upstream.Ahead(body, res.Body)
		return nil
	default:
		x.release(fleet.Failed)
		x.held = &complaint.Reply{Status: res.Status, Header: res.Header, Body: body, Worker: w.ID}
	}
	return &retryable{failure: f, backOff: true, answered: res.Status}
}

// writeHeld answers with the error reply that was kept aside.
func (x *exchange) writeHeld() error {
	h := x.held
	if x.flushed && h.Status != http.StatusOK {
		return failed(refusal.Late(h.Status, h.Worker, h.Body))
	}
	if !x.flushed {
		x.room.answer = intake.Identify(intake.ToClient(x.room.answer[:0], h.Header), x.facts.ID, x.dialect == llmapi.Anthropic)
		x.room.answer.Add(headerWorker, h.Worker)
		x.down.WriteFields(h.Status, x.room.answer)
		x.flushed = true
	}
	n, _ := x.w.Write(h.Body)
	x.sent += int64(n)
	x.facts.Status, x.facts.Outcome, x.facts.Error = h.Status, outcome.Of(h.Status), "worker "+h.Worker+" answered "+http.StatusText(h.Status)
	if h.Status == http.StatusOK {
		x.facts.Outcome, x.facts.Error = outcome.Failed, "worker "+h.Worker+" began its stream with an error"
	}
	return nil
}
