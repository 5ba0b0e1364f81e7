// Package upstream sends one HTTP request to one worker and hands back its answer, byte by byte as it comes.
//
// For http:// it is a lean HTTP/1.1 client of our own: one write for head and body, a last-in-first-out pool of idle
// connections, a strict parser, and a body that lends out its buffer instead of copying it. For https:// it is
// net/http's Transport behind the same interface.
//
//	client, err := upstream.New("http://10.0.0.7:8000", upstream.DefaultOptions())
//	resp, err := client.Do(ctx, &upstream.Request{Method: "POST", Path: "/v1/chat/completions", Header: h, Body: body})
//	if err != nil {
//		var broken *upstream.Error // says what broke, and whether the worker may have seen the request
//		errors.As(err, &broken)
//	}
//	defer resp.Body.Close()
//	for {
//		piece, err := resp.Body.Next() // waits for the next bytes; they are valid until the next call
//		if err == io.EOF {
//			break
//		}
//		w.Write(piece)
//		if !resp.Body.More() {
//			flush() // events that came together leave together
//		}
//	}
//
// Nothing is decoded, followed or added: gzip stays gzip, redirects are answers, cookies are headers.
package upstream

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/header"
)

// Request is one request to a worker. It must not be changed before the response body is at its end or closed.
type Request struct {
	Method string
	// Path is the request target with its query, "/v1/models?x=1", already escaped. The path of the base URL goes before it.
	Path string
	// Header holds end-to-end headers only. What frames a message (Content-Length, Transfer-Encoding, Connection, Expect,
	// Upgrade, Trailer) and Host are written by the client and skipped here. Names are as net/http writes them.
	Header header.Fields
	// Host overrides the worker's own authority when not empty.
	Host string

	// Body is the whole body. The client reads it until the response body is at its end or closed, or Do has failed;
	// afterwards the caller may use its memory again.
	Body []byte
	// BodyReader is the body when Body is nil: ContentLength bytes, or chunked when that is negative. It is read in a
	// goroutine of its own which ends when a Read returns, so the caller must be able to end a Read that waits.
	// Such a request cannot be repeated on a fresh connection once a byte of it was read, unless Reopen gives the body once more.
	BodyReader    io.Reader
	ContentLength int64
	// Sent, when not nil, is called by Do once as much of the request has left as leaves at once, before it waits for the answer; again
	// when the request is repeated on a fresh connection. For https it is called before the request leaves.
	Sent func()
	// Reopen returns a second reader of the body, from its start, when there can be one. The first may still be in use.
	Reopen func() io.Reader
}

// Options bound what a client waits for and keeps. A zero field takes its default, named in DefaultOptions.
type Options struct {
	// ConnectTimeout bounds name lookup, TCP connect and TLS handshake. Default 2 s.
	ConnectTimeout time.Duration
	// HeaderTimeout bounds the wait for the whole response head, from when the request was sent, or the first part of it
	// that the worker took at once. 0 is off: prefill is silent.
	HeaderTimeout time.Duration
	// IdleGap bounds the silence between two reads of a body (and of a body that the worker does not take). Negative is
	// off. Default 5 min. It may strike up to an eighth late.
	IdleGap time.Duration
	// IdleConnLifetime is how long an unused connection is kept. It must be shorter than the worker's own: llama.cpp
	// closes after 5 s. Default 4 s. A shorter "Keep-Alive: timeout=" of the worker is respected.
	IdleConnLifetime time.Duration
	// IdleConnsMax bounds the idle connections kept. Default 256.
	IdleConnsMax int
	// HeadBytesMax bounds a response head, and the trailers of a chunked body. Default 64 KiB.
	HeadBytesMax int
	// DialTLS connects to an https worker and shakes hands. Nil: it is trusted by the system's roots.
	DialTLS func(ctx context.Context, network, address string) (net.Conn, error)
}

// DefaultOptions are the values a zero field stands for.
func DefaultOptions() Options {
	return Options{
		ConnectTimeout:   2 * time.Second,
		IdleGap:          5 * time.Minute,
		IdleConnLifetime: 4 * time.Second,
		IdleConnsMax:     256,
		HeadBytesMax:     64 << 10,
	}
}

func (o Options) withDefaults() Options {
	d := DefaultOptions()
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = d.ConnectTimeout
	}
	if o.IdleGap == 0 {
		o.IdleGap = d.IdleGap
	}
	if o.IdleConnLifetime <= 0 {
		o.IdleConnLifetime = d.IdleConnLifetime
	}
	if o.IdleConnsMax <= 0 {
		o.IdleConnsMax = d.IdleConnsMax
	}
	if o.HeadBytesMax <= 0 {
		o.HeadBytesMax = d.HeadBytesMax
	}
	if o.DialTLS == nil {
		o.DialTLS = new(tls.Dialer).DialContext
	}
	return o
}

// Client talks to one worker. It has two implementations: our own for http and net/http's for https.
//
// Do returns when the final response head is there; interim 1xx answers are skipped. An answer that comes while the
// body is still being written is returned at once. A pooled connection that turns out stale is replaced by a fresh one
// inside Do, once and only while no byte of an answer came. Every error is an *Error. When ctx ends, at any
// moment until the body is at its end, the exchange is broken off at once and its connection is never used again.
// Do is safe for concurrent use. Close closes idle connections; running exchanges live on, and their connections are
// closed when they are done.
type Client interface {
	Do(ctx context.Context, r *Request) (*Response, error)
	Close()
}

// Response is the final response to one request. The caller must read Body to its end or close it.
type Response struct {
	Status int
	// Header has canonical names. Transfer-Encoding is taken out, the rest is as it came, hop-by-hop headers included.
	Header header.Fields
	// ContentLength is what the head says, -1 when it says nothing. For HEAD and 304 it describes a body that is not sent.
	ContentLength int64
	Body          Body
	// Reused says that the connection came from the pool.
	Reused bool
}

// Body is a response body. It is for one goroutine at a time. Errors other than io.EOF are *Error.
// At io.EOF the connection has gone back to the pool; Close before that closes the connection, unless the whole body
// has been received.
type Body interface {
	io.ReadCloser
	// Next waits until some bytes of the body are there and returns all that are at hand, without a copy. They belong
	// to the body and are valid until the next call of any of its methods but More. It never returns bytes and an
	// error together.
	Next() ([]byte, error)
	// More says that the next call of Next returns at once, with bytes, the end or an error. False means that it may
	// have to wait. For https it is always false.
	More() bool
	// Each calls f with every piece of the body that is still to come, as Next would return them, until the body is at its end
	// or f returns an error, which it then returns. It costs fewer system calls than Next. f may call More and nothing else of Body;
	// it may take its time: only Close and the end of ctx close the connection a little later than they would.
	Each(f func(piece []byte) error) error
}

// Ahead is a body before which head comes, which was read ahead.
func Ahead(head []byte, b Body) Body { return &ahead{b, head} }

type ahead struct {
	Body
	head []byte
}

func (a *ahead) Next() ([]byte, error) {
	if head := a.head; len(head) > 0 {
		a.head = nil
		return head, nil
	}
	return a.Body.Next()
}

func (a *ahead) More() bool { return len(a.head) > 0 || a.Body.More() }

func (a *ahead) Each(f func(piece []byte) error) error { return eachNext(a, f) }

// eachNext is Each where no system call can be spared.
func eachNext(b Body, f func(piece []byte) error) error {
	for {
		piece, err := b.Next()
		if err == nil {
			err = f(piece)
		} else if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// New returns a client for a worker's base URL, http://host:port or https://host:port, with or without a path.
// User and password in it become basic authorization for requests that carry none.
func New(baseURL string, o Options) (Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil, fmt.Errorf("worker URL: %w", err)
	}
	b := base{host: u.Host, path: strings.TrimRight(u.EscapedPath(), "/")}
	b.name = u.Scheme + "://" + u.Host + b.path
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("worker URL %q: scheme %q is neither http nor https", u.Redacted(), u.Scheme)
	case u.Hostname() == "":
		return nil, fmt.Errorf("worker URL %q has no host", u.Redacted())
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("worker URL %q: a query or fragment has no meaning here", b.name)
	}
	if u.User != nil {
		password, _ := u.User.Password()
		b.authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	if u.Scheme == "https" {
		return newStandard(b, o.withDefaults()), nil
	}
	return newLean(b, u, o.withDefaults()), nil
}

// base is a worker's URL in the parts that requests and errors need.
type base struct {
	name          string // for errors: no user, no password, no query
	host          string
	path          string // goes before each request's path; no slash at its end
	authorization string
}
