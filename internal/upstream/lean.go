package upstream

import (
	"context"
	"errors"
	"net"
	"net/url"
	"time"
)

// staleWindow is how long after sending a reused connection may still turn out stale. The worker's close was on its
// way when we sent, so it shows within a round trip. A break after that happened during the work, and may be its doing:
// repeating the request is then the caller's decision.
const staleWindow = time.Second

// interimMax bounds the 1xx answers before the final one.
const interimMax = 16

// lean is the client for http.
type lean struct {
	base   base
	addr   string
	o      Options
	dialer net.Dialer
	pool   pool
	watch  watch
}

func newLean(b base, u *url.URL, o Options) *lean {
	port := u.Port()
	if port == "" {
		port = "80"
	}
	return &lean{
		base:   b,
		addr:   net.JoinHostPort(u.Hostname(), port),
		o:      o,
		dialer: net.Dialer{Timeout: o.ConnectTimeout},
		pool:   pool{max: o.IdleConnsMax},
	}
}

func (l *lean) Close() {
	l.pool.close()
	l.watch.close()
}

func (l *lean) Do(ctx context.Context, r *Request) (*Response, error) {
	if err := checkRequest(r); err != nil {
		return nil, &Error{Class: Invalid, URL: l.base.name, Err: err}
	}
	if err := contextEnd(ctx); err != nil {
		return nil, &Error{Class: Cancelled, URL: l.base.name, Err: err}
	}
	var stale *Error
	start := time.Now()
	if c := l.pool.get(start); c != nil {
		x := &exchange{client: l, c: c, req: r, ctx: ctx, reused: true}
		resp, err := x.run()
		if err == nil {
			return resp, nil
		}
		if err.Class != Reset || x.answered || !x.repeatable() || time.Since(start) > staleWindow {
			return nil, err
		}
		stale = err
		if r.streams() && r.Reopen != nil {
			again := *r
			again.BodyReader = r.Reopen()
			r = &again
		}
	}
	c, err := l.dial(ctx)
	if err == nil {
		x := &exchange{client: l, c: c, req: r, ctx: ctx}
		var resp *Response
		if resp, err = x.run(); err == nil {
			return resp, nil
		}
	}
	err.Sent = err.Sent || stale != nil && stale.Sent
	return nil, err
}

func (l *lean) dial(ctx context.Context) (*conn, *Error) {
	nc, err := l.dialer.DialContext(ctx, "tcp", l.addr)
	if err == nil {
		var c *conn
		if c, err = newConn(nc.(*net.TCPConn), l.watch.get(), l.o.IdleConnLifetime); err == nil {
			return c, nil
		}
		nc.Close()
	}
	return nil, dialError(ctx, l.base.name, l.o, err)
}

// dialError classifies an error from before there was a connection.
func dialError(ctx context.Context, name string, o Options, err error) *Error {
	e := &Error{Class: Refused, URL: name, Err: err}
	var timeout net.Error
	if over := contextEnd(ctx); over != nil {
		e.Class, e.Err = Cancelled, over
	} else if errors.As(err, &timeout) && timeout.Timeout() {
		e.Class, e.Err = Timeout, silence("connection", o.ConnectTimeout, "connect timeout", err)
	} else if exhausted(err) {
		e.Class = Exhausted
	}
	return e
}
