package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/header"
	"github.com/warmpath/warmpath/internal/life"
)

// errIdleGap is the cause of a context that ends because a body was silent for too long.
var errIdleGap = errors.New("no byte within the idle gap")

// shapeMarks are found in the texts of net/http's errors about a response's shape, which have no types.
var shapeMarks = [...]string{"malformed", "headers exceeded", "chunk length", "chunked ", "line too long", "bad Content-Length", "unsupported transfer encoding", "too many transfer encodings", "too many 1xx"}

// standard is the client for https: net/http's Transport. HTTP/1.1 only, so that a worker that breaks one connection
// breaks one request, and a cancelled request is a closed connection for both clients.
type standard struct {
	base      base
	o         Options
	transport *http.Transport
}

func newStandard(b base, o Options) *standard {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &standard{base: b, o: o, transport: &http.Transport{
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
			defer cancel()
			return o.DialTLS(ctx, network, address)
		},
		ResponseHeaderTimeout:  o.HeaderTimeout,
		IdleConnTimeout:        o.IdleConnLifetime,
		MaxIdleConnsPerHost:    o.IdleConnsMax,
		MaxResponseHeaderBytes: int64(o.HeadBytesMax),
		DisableCompression:     true,
		Protocols:              protocols,
		ReadBufferSize:         bufferBytes,
		WriteBufferSize:        bufferBytes,
	}}
}

func (s *standard) Close() { s.transport.CloseIdleConnections() }

func (s *standard) Do(ctx context.Context, r *Request) (*Response, error) {
	if err := checkRequest(r); err != nil {
		return nil, &Error{Class: Invalid, URL: s.base.name, Err: err}
	}
	var seen sighting
	inner, cancel, end := life.Apart(ctx, httptrace.WithClientTrace(context.Background(), seen.trace()))
	req, err := s.request(inner, r)
	if err != nil {
		end()
		return nil, &Error{Class: Invalid, URL: s.base.name, Err: err}
	}
	if r.Sent != nil {
		r.Sent()
	}
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		end()
		if !seen.connected.Load() {
			return nil, dialError(ctx, s.base.name, s.o, err)
		}
		return nil, s.broken(ctx, inner, &seen, err)
	}
	body := &standardBody{client: s, ctx: ctx, inner: inner, end: end, seen: &seen, from: resp.Body}
	if s.o.IdleGap > 0 {
		body.timer = time.AfterFunc(s.o.IdleGap, func() { cancel(errIdleGap) })
		body.timer.Stop()
	}
	return &Response{
		Status:        resp.StatusCode,
		Header:        header.From(resp.Header, nil),
		ContentLength: resp.ContentLength,
		Body:          body,
		Reused:        seen.reused.Load(),
	}, nil
}

// request makes net/http's form of r, with the same bytes on the wire as our own client's.
func (s *standard) request(ctx context.Context, r *Request) (*http.Request, error) {
	target, err := url.Parse(s.base.name + r.Path)
	if err != nil {
		return nil, err
	}
	req := (&http.Request{Method: r.Method, URL: target, Host: r.Host, Header: http.Header{}}).WithContext(ctx)
	r.Header.AddTo(req.Header)
	for name := range req.Header {
		if ours(name) {
			delete(req.Header, name)
		}
	}
	// Present but empty, these are not sent: no agent of ours, and a stale connection is retried for a POST too.
	for _, name := range [...]string{"User-Agent", "Idempotency-Key"} {
		if _, ok := req.Header[name]; !ok {
			req.Header[name] = nil
		}
	}
	if s.base.authorization != "" && req.Header["Authorization"] == nil {
		req.Header["Authorization"] = []string{s.base.authorization}
	}
	switch {
	case r.streams():
		req.Body, req.ContentLength = io.NopCloser(r.BodyReader), max(r.ContentLength, -1)
		if r.Reopen != nil {
			req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(r.Reopen()), nil }
		}
	case len(r.Body) > 0:
		req.ContentLength = int64(len(r.Body))
		// A copy, because net/http may go on reading after RoundTrip has failed; next to encrypting it costs little.
		body := bytes.Clone(r.Body)
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		req.Body, _ = req.GetBody()
	}
	return req, nil
}

// sighting is what net/http lets us see of an exchange; it reports from goroutines of its own.
type sighting struct{ connected, reused, sent atomic.Bool }

func (s *sighting) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) {
			s.connected.Store(true)
			s.reused.Store(i.Reused)
		},
		WroteRequest: func(i httptrace.WroteRequestInfo) {
			if i.Err == nil {
				s.sent.Store(true)
			}
		},
	}
}

func (s *standard) broken(ctx, inner context.Context, seen *sighting, err error) *Error {
	e := &Error{Reused: seen.reused.Load(), Sent: seen.sent.Load(), URL: s.base.name}
	switch {
	case contextEnd(ctx) == nil && context.Cause(inner) == errIdleGap:
		err = silence("byte", s.o.IdleGap, "idle gap", os.ErrDeadlineExceeded)
	case slices.ContainsFunc(shapeMarks[:], func(mark string) bool { return strings.Contains(err.Error(), mark) }):
		err = shapeError(err.Error())
	}
	e.Class, e.Err = classify(ctx, err)
	return e
}

// standardBody is net/http's body under our interface, with the idle gap.
type standardBody struct {
	client *standard
	ctx    context.Context // the caller's
	inner  context.Context // ends with ctx, at the idle gap, and when the body is done
	end    func()          // ends inner, and lets go of ctx
	seen   *sighting
	timer  *time.Timer
	from   io.ReadCloser
	held   *[]byte
	err    error // what every further read returns
}

func (b *standardBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.timer != nil {
		b.timer.Reset(b.client.o.IdleGap)
	}
	n, err := b.from.Read(p)
	if b.timer != nil {
		b.timer.Stop()
	}
	if err == nil {
		return n, nil
	}
	b.err = err
	// A worker that sees our close may still end its answer in good order, which is then not the end it would have had.
	if err != io.EOF || b.inner.Err() != nil {
		b.err = b.client.broken(b.ctx, b.inner, b.seen, err)
	}
	b.done()
	return n, b.err
}

func (b *standardBody) Next() ([]byte, error) {
	if b.err != nil {
		return nil, b.err
	}
	if b.held == nil {
		b.held = buffers.Get().(*[]byte)
	}
	for {
		n, err := b.Read(*b.held)
		if n > 0 {
			return (*b.held)[:n], nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (b *standardBody) More() bool { return b.err != nil }

func (b *standardBody) Each(f func(piece []byte) error) error { return eachNext(b, f) }

func (b *standardBody) Close() error {
	if b.err == nil {
		b.err = &Error{Class: Cancelled, Reused: b.seen.reused.Load(), Sent: b.seen.sent.Load(), URL: b.client.base.name, Err: errClosedBody}
	}
	b.done()
	if b.held != nil {
		buffers.Put(b.held)
		b.held = nil
	}
	return nil
}

// done lets go of the exchange; net/http closes the connection unless the body was at its end.
func (b *standardBody) done() {
	b.from.Close()
	b.end()
}
