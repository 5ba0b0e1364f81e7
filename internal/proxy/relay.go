package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/warmpath/warmpath/internal/admission"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/intake"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/upstream"
)

// relay copies a worker's answer to the client.
func (x *exchange) relay(ctx context.Context, res *upstream.Response) error {
	x.facts.Status = res.Status
	x.facts.Trace.Heard(res.Status)
	if res.Status >= 500 || res.Status == http.StatusTooManyRequests {
		if err := x.unwell(res); err != nil {
			return err
		}
	}
	if err := x.misfit(res); err != nil {
		return err
	}
	x.held, x.last = nil, nil
	events := res.Status == http.StatusOK && intake.IsEventStream(res.Header)
	x.events = x.events || events
	if x.flushed && !events {
		return x.tooLate(res)
	}
	if events {
		return x.stream(ctx, res)
	}
	return x.reply(ctx, res)
}

// Names of the header fields that only the proxy reads or writes.
const (
	headerWorker   = "X-Warmpath-Worker"
	headerModel    = "X-Warmpath-Model"
	headerDecision = "X-Warmpath-Decision"
	headerSession  = "X-Session-Id"
	headerCost     = "X-Warmpath-Cost"

	headerPreempted = "X-Warmpath-Preempted"
	headerRetry     = "X-Should-Retry"
)

// writeHead sends the response head. Named is whether the worker may be told: it must be certain to be the one that answers.
func (x *exchange) writeHead(res *upstream.Response, named bool) {
	if x.flushed {
		return
	}
	x.room.answer = intake.Identify(intake.ToClient(x.room.answer[:0], res.Header), x.facts.ID, x.dialect == llmapi.Anthropic)
	if named {
		x.room.answer.Add(headerWorker, x.try.Worker.ID)
		if x.pick.Asked != "" {
			x.room.answer.Add(headerModel, x.pick.Model)
		}
		if x.o.ExplainHeaders {
			x.room.answer.Add(headerDecision, x.try.Explain())
		}
	}
	if x.facts.ClassWhy != "" {
		x.room.answer.Add(admission.HeaderClass, x.facts.Class)
	}
	if x.facts.Preempted > 0 {
		x.room.answer.Add(headerPreempted, strconv.Itoa(x.facts.Preempted))
	}
	if (x.guest.Known || x.o.ExplainHeaders) && x.in.Get(headerCost) == "1" {
		x.room.answer.Add(headerCost, x.try.Cost(x.facts.Waited))
	}
	x.down.WriteFields(res.Status, x.room.answer)
	x.flushed = true
}

// reply copies an answer that is not an event stream, piece by piece as it comes, and keeps a bounded copy to read its usage.
func (x *exchange) reply(ctx context.Context, res *upstream.Response) error {
	keep := (x.scanned || x.makesConversation()) && res.Status == http.StatusOK && res.Header.Get("Content-Encoding") == ""
	kept := x.room.reply[:0]
	for {
		piece, err := res.Body.Next()
		if err != nil && err != io.EOF {
			return x.cut(ctx, err)
		}
		x.try.Heard()
		if x.facts.FirstToken.IsZero() {
			if !x.p.gate.Keep(&x.wait) {
				return gate.ErrGaveWay
			}
			if !x.try.Stay() { // from here on it may finish even when its worker leaves the fleet
				return x.workerLeft()
			}
			x.facts.FirstToken = x.p.now()
			x.entry.Begin()
			x.probed()
		}
		x.writeHead(res, true)
		if err == io.EOF {
			break
		}
		if keep = keep && len(kept)+len(piece) <= x.o.ReplyScanMax; keep {
			kept = append(kept, piece...)
		}
		n, err := x.w.Write(piece)
		x.sent += int64(n)
		x.lighten()
		if err != nil {
			return x.clientGone(err)
		}
		if res.ContentLength < 0 && !res.Body.More() {
			http.NewResponseController(x.w).Flush()
		}
	}
	x.facts.Outcome = outcome.Of(res.Status)
	if keep {
		x.readAnswer(llmapi.ScanReply(x.api, kept))
		if cap(kept) <= roomBytesMax {
			x.room.reply = kept
		}
	}
	x.answered(x.facts.Outcome)
	return nil
}

// probed closes the breaker of a worker as soon as the request that tries it has an answer under way: a probe may be a stream of
// ten minutes. Other requests prove a worker well only by their end, or one that breaks every stream halfway would look well.
func (x *exchange) probed() {
	if x.try.Probe() && x.facts.Status < 500 && x.facts.Status != http.StatusTooManyRequests {
		x.p.gate.Proved(&x.try.Attempt)
	}
}

// answered notes that the attempt ended with a whole answer; settle, which comes next, gives its reservation back.
func (x *exchange) answered(o outcome.Outcome) {
	x.try.good = o != outcome.Failed && o != outcome.Busy
}

// readAnswer takes what a whole reply tells.
func (x *exchange) readAnswer(a llmapi.Answer) {
	x.facts.Usage = a.Usage
	x.own(a.ID)
	switch {
	case a.IsError || a.Status == "failed":
		x.facts.Outcome, x.facts.Error = outcome.Failed, "the reply is an error object"
	case a.Status == "incomplete":
		x.facts.Outcome = outcome.Incomplete
	}
}

// cut sorts out an answer that broke after its head had come. While none of it reached the client, another worker may be tried.
func (x *exchange) cut(ctx context.Context, err error) error {
	if x.sent == 0 {
		return x.broke(ctx, err)
	}
	err = x.broke(ctx, err)
	var r *retryable
	if errors.As(err, &r) {
		return r.failure
	}
	return err
}

// clientGone ends an exchange whose client no longer reads.
func (x *exchange) clientGone(err error) error {
	x.release(fleet.Cancelled)
	message := "the client left: " + err.Error()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		message = fmt.Sprintf("the client took nothing of its answer for %v (setting timeouts.client)", x.down.Limit)
	}
	return &failure{status: statusClientLeft, kind: llmapi.KindUpstream, outcome: outcome.Cancelled, message: message}
}
