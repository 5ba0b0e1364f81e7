package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// jsonBytesMax bounds the JSON answers read (model lists, properties); a chat template of 100 kB is the longest part seen.
const jsonBytesMax = 4 << 20

// headBytesMax bounds the heads of answers.
const headBytesMax = 64 << 10

// Error is an engine that did not tell what it was asked.
type Error struct {
	Path    string // what was asked
	Status  int    // HTTP status of an answer that was refused; 0 when there was none, or its body is what failed
	Head    bool   // the head of an answer came
	Loading bool   // the engine is there and has not loaded its model yet
	Err     error  // nil when the status says it all
}

// Error names the path and what came instead.
func (e *Error) Error() string {
	switch {
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		return fmt.Sprintf("GET %s: status %d: the engine wants a key; set the worker's key", e.Path, e.Status)
	case e.Loading:
		return fmt.Sprintf("GET %s: status %d, and the same at %s: the engine is loading its model", e.Path, e.Status, healthPath)
	case e.Err == nil:
		return fmt.Sprintf("GET %s: status %d", e.Path, e.Status)
	}
	return fmt.Sprintf("GET %s: %v", e.Path, e.Err)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Unreachable reports whether nobody could be connected to, as opposed to an engine that answers badly or late.
func (e *Error) Unreachable() bool {
	for _, own := range [...]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL} {
		if errors.Is(e.Err, own) || e.Err != nil && strings.Contains(e.Err.Error(), own.Error()) { // this machine's own shortage says nothing of the worker
			return false
		}
	}
	var op *net.OpError
	var dns *net.DNSError
	return errors.As(e.Err, &op) && op.Op == "dial" || errors.As(e.Err, &dns)
}

// absent reports whether the engine has no such endpoint, or not for us: asking again soon is of no use.
func (e *Error) absent() bool {
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	}
	return false
}

// client asks one engine, over one connection that is kept alive.
type client struct {
	base, key string
	rank      string // as Target.Rank
	timeout   time.Duration
	transport *http.Transport
}

func newClient(t Target, o *Options) *client {
	base := strings.TrimRight(t.URL, "/")
	base = strings.TrimSuffix(base, "/v1")
	return &client{base: base, key: t.Key, rank: t.Rank, timeout: o.Timeout, transport: &http.Transport{
		DialContext:            o.dial,
		DialTLSContext:         o.DialTLS,
		MaxConnsPerHost:        1,
		MaxIdleConnsPerHost:    1,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: headBytesMax,
		DisableCompression:     true, // unpacking would cost more than a local network saves
	}}
}

func (c *client) close() { c.transport.CloseIdleConnections() }

// get asks for a path and hands the body of a 200 to read. It bounds time, not length: that is up to read.
func (c *client) get(ctx context.Context, path string, read func(*http.Response) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no whole answer within %v (telemetry timeout)", c.timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return &Error{Path: path, Err: err}
	}
	req.Header.Set("User-Agent", "warmpath")
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	// The transport itself, not http.Client: redirects are not followed, the key goes nowhere else.
	resp, err := c.transport.RoundTrip(req)
	if err == nil {
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // a short error is read, so that its connection serves again
			return &Error{Path: path, Status: resp.StatusCode, Head: true}
		}
		err = read(resp)
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) && !(&Error{Err: err}).Unreachable() {
		err = context.Cause(ctx)
	}
	return &Error{Path: path, Err: err, Head: resp != nil}
}

// json asks for a path and decodes its answer into v. Fields of an unexpected type are left at zero: unknown.
func (c *client) json(ctx context.Context, path string, v any) (http.Header, error) {
	var header http.Header
	err := c.get(ctx, path, func(resp *http.Response) error {
		header = resp.Header
		body, err := io.ReadAll(io.LimitReader(resp.Body, jsonBytesMax+1))
		if err != nil {
			return err
		}
		if len(body) > jsonBytesMax {
			return fmt.Errorf("answer longer than %d bytes", jsonBytesMax)
		}
		var odd *json.UnmarshalTypeError
		if err := json.Unmarshal(body, v); err != nil && !errors.As(err, &odd) {
			return err
		}
		return nil
	})
	return header, err
}
