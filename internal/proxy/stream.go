package proxy

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/upstream"
)

const (
	// firstEventBytesMax bounds how much of an unfinished first event is held back to see whether it is an error.
	firstEventBytesMax = 64 << 10
	// gapsMax bounds the token gaps kept of one stream; later ones are counted, not kept.
	gapsMax      = 4096
	roomBytesMax = 2 << 10 // of memory kept from one request for the body, and the whole reply, of the next
)

// stream copies an event stream, each event at once, byte for byte. Its head leaves as soon as the worker's has come, so that a
// client knows that it was heard while the prefill is silent. Only the first event waits until it is whole: an error there can
// still be tried elsewhere.
func (x *exchange) stream(ctx context.Context, stay func() bool, res *upstream.Response) error {
	res.Header.Del("Content-Length") // a retry or a withheld event may change it
	x.obs.Reset(x.api, x.try.withholds)
	flush := http.NewResponseController(x.w).Flush
	var held []byte
	for {
		if !res.Body.More() && !x.flushed {
			x.writeHead(res, false)
			flush()
		}
		piece, err := res.Body.Next()
		if err == io.EOF {
			return x.finish(res, append(held, x.obs.Flush()...))
		}
		if err != nil {
			if x.obs.Done { // all was said; how the connection ends is of no interest
				return x.finish(res, append(held, x.obs.Flush()...))
			}
			return x.cut(ctx, err)
		}
		out := x.observe(piece)
		if x.sent == 0 && x.firstEventOpen(out, held) {
			held = append(held, out...)
			continue
		}
		if held != nil {
			out, held = append(held, out...), nil
		}
		if x.sent == 0 {
			if x.obs.FirstEventIsError && serverSide(x.obs.Err) {
				return x.errorFirst(res, out)
			}
			if len(out) > 0 && !stay() {
				return x.workerLeft()
			}
			x.probed()
		}
		if err := x.forward(res, out, flush); err != nil {
			return err
		}
	}
}

// errorFirst handles a stream whose first event is an error: nothing of an answer is lost by trying another worker. What has
// come is kept, and reaches the client unchanged when nobody does better.
func (x *exchange) errorFirst(res *upstream.Response, event []byte) error {
	w := x.try.Worker
	x.fault(fleet.ServerError, "server_error")
	body := append([]byte(nil), event...)
	for res.Body.More() && len(body) < firstEventBytesMax {
		piece, err := res.Body.Next()
		if err != nil {
			break
		}
		body = append(body, x.obs.Feed(piece)...)
	}
	x.held = &heldReply{status: res.Status, header: res.Header, body: append(body, x.obs.Flush()...), worker: w.ID}
	return &retryable{failure: &failure{status: http.StatusBadGateway, kind: llmapi.KindUpstream, outcome: OutcomeFailed, class: "server_error",
		message: "worker " + w.ID + " began its stream with an error"}}
}

// observe notes tokens and gaps of a piece and returns the bytes to forward.
func (x *exchange) observe(piece []byte) []byte {
	before := x.obs.Tokens
	named := x.obs.ID != ""
	out := x.obs.Feed(piece)
	if !named && x.obs.ID != "" { // now, not at the end: a client may cancel or continue it while it runs, or leave it
		x.own(x.obs.ID)
	}
	n := x.obs.Tokens - before
	if n == 0 {
		x.try.Heard()
		return out
	}
	now := x.p.now()
	x.try.Generated(n)
	f := &x.facts
	if f.FirstToken.IsZero() {
		f.FirstToken, f.lastToken = now, now
		x.p.gate.FirstToken(x.try.Attempt, now)
		return out
	}
	gap := now.Sub(f.lastToken)
	f.lastToken = now
	if len(f.Gaps) < gapsMax {
		f.Gaps = append(f.Gaps, float32(gap.Seconds()))
	}
	f.GapMax = max(f.GapMax, gap)
	return out
}

// firstEventOpen says whether the first event is not whole yet and worth waiting for. A comment is none, and passes at once.
func (x *exchange) firstEventOpen(out, held []byte) bool {
	if x.obs.Events > 0 || len(held)+len(out) > firstEventBytesMax {
		return false
	}
	head := held
	if len(head) == 0 {
		head = out
	}
	return len(head) == 0 || head[0] != ':'
}

// forward writes bytes to the client, and flushes unless more is at hand: events that came together leave together.
func (x *exchange) forward(res *upstream.Response, out []byte, flush func() error) error {
	if len(out) == 0 {
		return nil
	}
	x.writeHead(res, true)
	n, err := x.w.Write(out)
	x.sent += int64(n)
	x.lighten()
	if err == nil && !res.Body.More() { // what More promises comes at once, if only the end
		err = flush()
		// Others first: under load, events that come meanwhile leave together. With nobody waiting for the processor it changes nothing.
		runtime.Gosched()
	}
	if err == nil {
		return nil
	}
	if x.obs.Done {
		return x.finish(res, nil)
	}
	return x.clientGone(err)
}

// finish ends a stream that came to its end.
func (x *exchange) finish(res *upstream.Response, rest []byte) error {
	x.writeHead(res, true)
	if len(rest) > 0 {
		n, _ := x.w.Write(rest)
		x.sent += int64(n)
	}
	f := &x.facts
	f.Usage, f.Tokens = x.obs.Usage, x.obs.Tokens
	switch {
	case x.obs.Err != "" || x.obs.Outcome == "failed":
		f.Outcome, f.Error = OutcomeFailed, "the stream carried an error: "+x.obs.Err
	case x.obs.Outcome == "incomplete":
		f.Outcome = OutcomeIncomplete
	case !x.obs.Done && x.api != llmapi.Other:
		f.Outcome, f.Unterminated = OutcomeIncomplete, true
	default:
		f.Outcome = OutcomeSucceeded
	}
	x.answered(f.Outcome)
	return nil
}

// serverSide tells an engine's own trouble from a complaint about the request, by the error's type.
func serverSide(kind string) bool {
	return !strings.Contains(kind, "invalid") && !strings.Contains(kind, "BadRequest") && !strings.Contains(kind, "not_found")
}
