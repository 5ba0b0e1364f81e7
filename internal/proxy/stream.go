package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/complaint"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/upstream"
)

const (
	// firstEventBytesMax bounds how much of an unfinished first event is held back to see whether it is an error.
	firstEventBytesMax = 64 << 10
	// gapsMax bounds the token gaps kept of one stream; later ones are counted, not kept.
	gapsMax      = 4096
	roomBytesMax = 2 << 10 // of memory kept from one request for the body, and the whole reply, of the next
)

// burstRest is how long a stream rests after an event that came less than this behind the one before, so that what comes meanwhile
// leaves together: each write to a client costs as much as all else that is done for an event. It ends 1 ms behind the event that left,
// so no event waits that is that far from the one before: engines take 5 ms and more for a token.
const burstRest = time.Millisecond

// streaming is an event stream on its way to the client.
type streaming struct {
	*exchange
	res   *upstream.Response
	flush func() error
	held  []byte       // of a first event that is not whole
	left  time.Time    // when the last event left
	over  func() error // what ended it before its end

	rested bool // what comes now may have waited
}

// errOver ends the reading of a stream's body; why is in streaming.over.
var errOver = errors.New("the stream is over")

// stream copies an event stream, each event at once, byte for byte. Its head leaves as soon as the worker's has come, so that a
// client knows that it was heard while the prefill is silent. Only the first event waits until it is whole: an error there can
// still be tried elsewhere.
func (x *exchange) stream(ctx context.Context, res *upstream.Response) error {
	res.Header.Del("Content-Length") // a retry or a withheld event may change it
	x.obs.Reset(x.api, x.try.withholds)
	s := streaming{exchange: x, res: res, flush: http.NewResponseController(x.w).Flush}
	s.headFirst()
	err := res.Body.Each(s.piece)
	x.facts.Usage, x.facts.Tokens = x.obs.Usage, x.obs.Tokens // also of one that breaks off: what came of it was computed
	switch {
	case s.over != nil:
		return s.over()
	case err == nil, x.obs.Done: // all was said; how the connection ends is of no interest
		return x.finish(res, append(s.held, x.obs.Flush()...))
	}
	return x.cut(ctx, err)
}

// headFirst lets the head leave when what follows it is still to come. That of work that may have to give way waits for it: it may be another
// worker that answers.
func (s *streaming) headFirst() {
	if !s.flushed && !s.res.Body.More() && !s.wait.MayGiveWay() {
		s.writeHead(s.res, false)
		s.flush()
	}
}

// piece takes what came together. While it is at work the worker's connection stays open: what ends the stream is left to stream.
func (s *streaming) piece(b []byte) error {
	x := s.exchange
	if !x.p.gate.Keep(&x.wait) {
		s.over = func() error { return gate.ErrGaveWay }
		return errOver
	}
	out := s.observe(b)
	if x.sent == 0 && x.firstEventOpen(out, s.held) {
		s.held = append(s.held, out...)
		s.headFirst()
		return nil
	}
	if s.held != nil {
		out, s.held = append(s.held, out...), nil
	}
	if x.sent == 0 {
		if x.obs.FirstEventIsError && serverSide(x.obs.Err) {
			s.over = func() error { return x.errorFirst(s.res, out) }
			return errOver
		}
		if len(out) > 0 && !x.try.Stay() {
			s.over = x.workerLeft
			return errOver
		}
		x.probed()
	}
	if err := s.forward(out); err != nil {
		s.over = func() error { return x.clientGone(err) }
		if x.obs.Done {
			s.over = func() error { return x.finish(s.res, nil) }
		}
		return errOver
	}
	return nil
}

// forward writes bytes to the client, and flushes unless more is at hand: events that came together leave together.
func (s *streaming) forward(out []byte) error {
	if len(out) == 0 {
		return nil
	}
	s.writeHead(s.res, true)
	n, err := s.w.Write(out)
	s.sent += int64(n)
	s.lighten()
	if err != nil || s.res.Body.More() { // what More promises comes at once, if only the end
		return err
	}
	err = s.flush()
	before := s.left
	s.left = time.Now()
	if s.rested = s.left.Sub(before) < burstRest && err == nil && !s.obs.Done; s.rested {
		time.Sleep(burstRest)
		s.left = s.left.Add(burstRest) // what is there by now is of the same burst
	}
	return err
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
	x.held = &complaint.Reply{Status: res.Status, Header: res.Header, Body: append(body, x.obs.Flush()...), Worker: w.ID}
	return &retryable{failure: &failure{status: http.StatusBadGateway, kind: llmapi.KindUpstream, outcome: outcome.Failed, class: "server_error",
		message: "worker " + w.ID + " began its stream with an error"}}
}

// observe notes tokens and gaps of a piece and returns the bytes to forward.
func (s *streaming) observe(piece []byte) []byte {
	x := s.exchange
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
	x.entry.Generated(n)
	f := &x.facts
	if f.FirstToken.IsZero() {
		f.FirstToken, x.lastToken = now, now
		x.p.gate.FirstToken(&x.try.Attempt, now)
		x.entry.Begin()
		return out
	}
	gap := now.Sub(x.lastToken)
	x.lastToken = now
	if s.rested { // they came one by one
		gap /= time.Duration(n)
	}
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

// finish ends a stream that came to its end.
func (x *exchange) finish(res *upstream.Response, rest []byte) error {
	x.writeHead(res, true)
	if len(rest) > 0 {
		n, _ := x.w.Write(rest)
		x.sent += int64(n)
	}
	f := &x.facts
	f.Usage, f.Tokens = x.obs.Usage, x.obs.Tokens // what was held back may have told more
	switch {
	case x.obs.Err != "" || x.obs.Outcome == "failed":
		f.Outcome, f.Error = outcome.Failed, "the stream carried an error: "+x.obs.Err
	case x.obs.Outcome == "incomplete":
		f.Outcome = outcome.Incomplete
	case !x.obs.Done && x.api != llmapi.Other:
		f.Outcome, f.Unterminated = outcome.Incomplete, true
	default:
		f.Outcome = outcome.Succeeded
	}
	x.answered(f.Outcome)
	return nil
}

// serverSide tells an engine's own trouble from a complaint about the request, by the error's type.
func serverSide(kind string) bool {
	return !strings.Contains(kind, "invalid") && !strings.Contains(kind, "BadRequest") && !strings.Contains(kind, "not_found")
}
