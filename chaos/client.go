package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// result is what became of a request, as its client saw it.
type result struct {
	r          *request
	began, end time.Time
	status     int // 0: no answer came
	header     http.Header
	body       []byte
	clean      bool  // the answer came to its end by HTTP's rules
	left       bool  // the client went before that
	err        error // of the connection
	surplus    int   // bytes that came behind the answer unasked
	connected  bool
	past       string // of the connection
	behind     bool   // an answer before it on the same connection did not end, or was the last one there
}

// answerTime is how long an answer may take at most. The router's own limits, and the longest answer of a worker, are well below it.
const answerTime = 25 * time.Second

// link is a client's connection.
type link struct {
	net.Conn
	in    *bufio.Reader
	past  string // what it carried before
	since time.Time
}

// clients share connections that are kept.
type clients struct {
	address string

	mu   sync.Mutex
	idle []*link
}

func (c *clients) dial() (*link, error) {
	nc, err := net.DialTimeout("tcp", c.address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &link{Conn: nc, in: bufio.NewReaderSize(nc, 4<<10)}, nil
}

// keptTime is how long a connection is kept without use: less than the router does.
const keptTime = time.Minute

// take returns a connection, one that was used before unless fresh.
func (c *clients) take(fresh bool) (*link, error) {
	c.mu.Lock()
	for len(c.idle) > 0 && time.Since(c.idle[0].since) > keptTime { // in the order in which they were kept, nearly
		c.idle[0].Close()
		c.idle = c.idle[1:]
	}
	n := len(c.idle)
	if fresh || n == 0 {
		c.mu.Unlock()
		return c.dial()
	}
	l := c.idle[n-1]
	c.idle = c.idle[:n-1]
	c.mu.Unlock()
	return l, nil
}

func (c *clients) keep(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, l)
}

// closeIdle closes what is kept: at a rest, and when the router that it leads to ends.
func (c *clients) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.idle {
		l.Close()
	}
	c.idle = nil
}

// do is one request of any kind; each of its answers is given to done.
func (c *clients) do(r *request, done func(*result)) {
	l, err := c.take(r.fresh)
	if err != nil {
		now := time.Now()
		for _, each := range r.each() {
			done(&result{r: each, began: now, end: now, err: err})
		}
		return
	}
	if !c.converse(l, r, done) {
		l.Close()
		return
	}
	l.past, l.since = fmt.Sprintf("%s %d", r.kind, r.id), time.Now()
	c.keep(l)
}

// each is the requests that expect an answer.
func (r *request) each() []*request {
	if r.kind == pipes {
		return r.batch
	}
	return []*request{r}
}

// converse sends and reads, and reports whether the connection can be used again.
func (c *clients) converse(l *link, r *request, done func(*result)) bool {
	began := time.Now()
	l.SetDeadline(began.Add(answerTime))
	switch r.kind {
	case leaves:
		return l.leave(r, began, done)
	case dawdles:
		return l.dawdle(r, began, done)
	case crawls, vanishes:
		return l.crawl(r, began, done)
	case expects:
		return l.expect(r, began, done)
	}
	var sent []byte
	for _, each := range r.each() {
		sent = append(sent, each.wire()...)
	}
	sending := make(chan struct{})
	go func() { // a router that refuses may answer before it has all
		defer close(sending)
		l.Write(sent)
	}()
	whole := true
	for _, each := range r.each() {
		if !whole {
			done(&result{r: each, began: began, end: time.Now(), connected: true, behind: true, err: errors.New("an answer before it was the connection's last")})
			continue
		}
		res := l.read(each, began)
		whole = res.clean && !strings.EqualFold(res.header.Get("Connection"), "close")
		if each == r && r.kind != smuggles && r.kind != garbage {
			res.surplus = l.in.Buffered()
		}
		done(res)
	}
	if !whole || r.fresh {
		l.Close()
	}
	<-sending
	return whole && !r.fresh
}

// wire is what is sent.
func (r *request) wire() []byte {
	switch r.kind {
	case packed:
		return r.compressed()
	case chunked:
		return r.inChunks()
	case ancient:
		return bytes.Replace(r.bytes(), []byte(" HTTP/1.1\r\n"), []byte(" HTTP/1.0\r\n"), 1)
	case lists:
		return []byte("GET " + listed[r.variant%len(listed)] + " HTTP/1.1\r\nHost: chaos\r\n\r\n")
	case garbage, floods, smuggles:
		return r.hostile()
	}
	return r.bytes()
}

var listed = []string{"/v1/models", "/healthz", "/readyz", "/v1/models/alpha", "/nowhere"}

// read reads one answer.
func (l *link) read(r *request, began time.Time) *result {
	res := &result{r: r, began: began, connected: true}
	if l.past != "" {
		res.past = fmt.Sprintf(", on a connection that was idle for %v after %s", began.Sub(l.since).Round(time.Microsecond), l.past)
	}
	method := http.MethodPost
	if r.kind == lists {
		method = http.MethodGet
	}
	l.answer(res, method, io.ReadAll)
	return res
}

// answer reads an answer's head, and its body by take.
func (l *link) answer(res *result, method string, take func(io.Reader) ([]byte, error)) {
	defer func() { res.end = time.Now() }()
	in, err := http.ReadResponse(l.in, &http.Request{Method: method})
	if err != nil {
		res.err = err
		return
	}
	defer in.Body.Close()
	res.status, res.header = in.StatusCode, in.Header
	if in.ContentLength < 0 && len(in.TransferEncoding) == 0 && res.r.kind != ancient {
		res.err = errors.New("the answer has neither a length nor chunks: nobody can tell its end from a break")
	}
	body, err := take(in.Body)
	res.body = body
	if err == nil && res.err == nil {
		res.clean = true
		return
	}
	if res.err == nil {
		res.err = err
	}
}

// leave sends a request and goes away after a while, whatever has come.
func (l *link) leave(r *request, began time.Time, done func(*result)) bool {
	res := &result{r: r, began: began, connected: true}
	l.Write(r.bytes())
	l.SetReadDeadline(began.Add(r.patient))
	l.answer(res, http.MethodPost, io.ReadAll)
	res.left = errors.Is(res.err, os.ErrDeadlineExceeded)
	if r.variant%2 == 0 { // half of them by a reset
		l.Conn.(*net.TCPConn).SetLinger(0)
	}
	l.Close()
	res.end = time.Now()
	done(res)
	return false
}

// dawdle reads a long answer in small bits.
func (l *link) dawdle(r *request, began time.Time, done func(*result)) bool {
	l.Conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	l.Write(r.bytes())
	res := &result{r: r, began: began, connected: true}
	l.answer(res, http.MethodPost, func(in io.Reader) ([]byte, error) {
		var b bytes.Buffer
		for {
			_, err := io.CopyN(&b, in, 1500)
			if err == io.EOF {
				return b.Bytes(), nil
			}
			if err != nil {
				return b.Bytes(), err
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	l.Close()
	done(res)
	return false
}

// expect waits for 100 Continue before it sends its body.
func (l *link) expect(r *request, began time.Time, done func(*result)) bool {
	l.Write(r.head(len(r.body), "Expect: 100-continue\r\n"+sumLine(r.body)))
	res := &result{r: r, began: began, connected: true}
	if line, err := l.in.Peek(12); err == nil && string(line) == "HTTP/1.1 100" {
		for text := ""; text != "\r\n" && err == nil; {
			text, err = l.in.ReadString('\n')
		}
		l.Write(r.body)
	}
	l.answer(res, http.MethodPost, io.ReadAll)
	l.Close()
	done(res)
	return false
}

func (r *result) String() string {
	return fmt.Sprintf("%s %d to %s: status %d, %d bytes, clean %t, left %t, error %v, after %v%s", r.r.kind, r.r.id, r.r.want.model, r.status, len(r.body), r.clean, r.left, r.err, r.end.Sub(r.began).Round(time.Millisecond), r.past)
}
