package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// Class says what broke. Its String is a label value.
type Class uint8

const (
	// Refused: no connection could be made; this connection carried nothing.
	Refused Class = iota
	// Exhausted: this machine has no descriptor, port or memory left for a connection. The worker has no part in it.
	Exhausted
	// Reset: the connection broke or ended before the answer was whole.
	Reset
	// Timeout: connecting, the wait for the head, or a gap in a body took longer than its setting.
	Timeout
	// BadShape: what came is not an HTTP/1.1 response.
	BadShape
	// Cancelled: the caller's context ended. Err wraps its cause.
	Cancelled
	// Source: Request.BodyReader failed or ended early.
	Source
	// Invalid: the request cannot be written as HTTP/1.1; nothing was sent.
	Invalid
)

var classNames = [...]string{"refused", "exhausted", "reset", "timeout", "bad_shape", "cancelled", "source", "invalid"}

func (c Class) String() string { return classNames[c] }

// Error is every error of this package's clients and bodies.
type Error struct {
	Class Class
	// Reused: the connection that broke came from the pool.
	Reused bool
	// Sent: a worker may have the whole request: it had been written on this connection, or on the stale one before it.
	Sent bool
	// URL is the worker's, without user, password and query.
	URL string
	Err error
}

func (e *Error) Error() string {
	return "worker " + e.URL + ": " + e.Class.String() + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// shapeError says what is wrong with the bytes of a response.
type shapeError string

func (e shapeError) Error() string { return string(e) }

// sourceError wraps what Request.BodyReader returned.
type sourceError struct{ err error }

func (e sourceError) Error() string { return "request body: " + e.err.Error() }
func (e sourceError) Unwrap() error { return e.err }

var errClosedBody = errors.New("response body was closed")

// classify names the class of an error met on an established connection. A context that has ended explains every error.
func classify(ctx context.Context, err error) (Class, error) {
	var shape shapeError
	var source sourceError
	var timeout net.Error
	switch {
	case contextEnd(ctx) != nil:
		return Cancelled, contextEnd(ctx)
	case errors.As(err, &shape):
		return BadShape, err
	case errors.As(err, &source):
		return Source, err
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return Timeout, err
	case err == io.EOF:
		return Reset, io.ErrUnexpectedEOF
	}
	return Reset, err
}

// silence is the error of a wait that took longer than a setting allows.
func silence(what string, limit time.Duration, setting string, err error) error {
	return fmt.Errorf("no %s within %v (%s): %w", what, limit, setting, err)
}

// contextEnd returns why a context has ended, nil while it has not. Its deadline counts as soon as it is past: net's dialer
// gives up at that instant, a little before the context itself does, and the worker must not be blamed for it.
func contextEnd(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// exhausted says that this machine could not make a connection, whoever it was to. So does a lookup that found no descriptor.
func exhausted(err error) bool {
	for _, own := range [...]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, own) || strings.Contains(err.Error(), own.Error()) { // a DNS error keeps the text of its cause only
			return true
		}
	}
	return false
}

// brokenByPeer says that the worker's side closed the connection: what it said before that can still be read.
func brokenByPeer(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}
