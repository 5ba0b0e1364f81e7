package openbench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"sync"
	"time"
)

// crowd is all clients: each stream has a connection and a goroutine of its own.
type crowd struct {
	addr    string
	running sync.WaitGroup

	mu      sync.Mutex
	open    int
	most    int // of open, at any time
	whole   int // streams that came whole
	refused []error
	lost    []error
	late    []time.Duration // since they were taken last
}

// refusal is a stream that did not begin: no connection, or another status than 200.
type refusal struct{ error }

// watch asks for one stream and checks every byte of it, however it comes.
func (c *crowd) watch(ctx context.Context, p plan) {
	err := c.read(ctx, p)
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var r refusal
	switch {
	case err == nil:
		c.whole++
	case errors.As(err, &r):
		c.refused = append(c.refused, fmt.Errorf("stream %d: %w", p.number, err))
	default:
		c.lost = append(c.lost, fmt.Errorf("stream %d: %w", p.number, err))
	}
}

func (c *crowd) read(ctx context.Context, p plan) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return refusal{err}
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	body := fmt.Sprintf(`{"model":"%s","stream":true,"max_tokens":%d,"messages":[{"role":"user","content":"%s"}]}`, modelName, p.events, p)
	if _, err := fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		return refusal{err}
	}
	r := bufio.NewReaderSize(conn, 1<<10)
	length, err := head(r)
	if err != nil {
		return refusal{err}
	}
	c.count(1)
	defer c.count(-1)
	if length > 0 {
		return c.events(io.LimitReader(r, length), p)
	}
	return c.events(httputil.NewChunkedReader(r), p)
}

// head reads a head to its end. A stream that was whole before the first of it left comes with its length, others in chunks: 0. The error is a
// status other than 200.
func head(r *bufio.Reader) (length int64, err error) {
	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		switch {
		case err != nil:
			return 0, err
		case first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200")):
			return 0, fmt.Errorf("answered %q", line)
		case len(line) <= 2:
			return length, nil
		}
		length = max(length, int64(lengthIn(line[:len(line)-2])))
	}
}

// events reads the stream's events, each of which must be the next one to the byte, and its end.
func (c *crowd) events(body io.Reader, p plan) error {
	var want [320]byte
	var got [320]byte
	for i := range p.events {
		event := appendEvent(want[:0], p.number, i, 1e18)
		have := got[:len(event)]
		if _, err := io.ReadFull(body, have); err != nil {
			return fmt.Errorf("after %d of %d events: %w", i, p.events, err)
		}
		now := time.Now().UnixNano()
		at := bytes.LastIndex(event, []byte(" at ")) + len(" at ")
		sent, err := strconv.ParseInt(string(have[at:at+stampDigits]), 10, 64)
		if err != nil || !bytes.Equal(appendEvent(want[:0], p.number, i, sent), have) {
			return fmt.Errorf("event %d is %q", i, have)
		}
		c.mu.Lock()
		c.late = append(c.late, time.Duration(now-sent))
		c.mu.Unlock()
	}
	rest, err := io.ReadAll(body)
	if err != nil || string(rest) != doneEvent {
		return fmt.Errorf("behind its %d events came %q, %w", p.events, rest, errors.Join(err, io.ErrUnexpectedEOF))
	}
	return nil
}

func (c *crowd) count(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open += n
	c.most = max(c.most, c.open)
}

// takeLate returns how late events were since the last call.
func (c *crowd) takeLate() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	late := c.late
	c.late = nil
	return late
}
