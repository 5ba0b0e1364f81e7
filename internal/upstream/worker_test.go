package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/header"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of a test for something that must come; it is no measure of speed.
const patience = 10 * time.Second

// rawWorker is a real listener whose connections are played by a script that writes raw bytes.
type rawWorker struct {
	t      *testing.T
	url    string
	closed chan struct{} // one value for each connection whose script has ended

	mu       sync.Mutex
	accepted int
}

func startWorker(t *testing.T, script func(c *workerConn)) *rawWorker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &rawWorker{t: t, url: "http://" + l.Addr().String(), closed: make(chan struct{}, 10000)}
	var running sync.WaitGroup
	var conns []net.Conn
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.mu.Lock()
			w.accepted++
			n := w.accepted
			conns = append(conns, c)
			w.mu.Unlock()
			running.Go(func() {
				script(&workerConn{TCPConn: c.(*net.TCPConn), r: bufio.NewReader(c), number: n})
				c.Close()
				w.closed <- struct{}{}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		w.mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		w.mu.Unlock()
		running.Wait()
	})
	return w
}

func (w *rawWorker) connections() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.accepted
}

type workerConn struct {
	*net.TCPConn
	r      *bufio.Reader
	number int // from 1, in order of arrival
}

// request reads one whole request; nil when the connection has ended.
func (c *workerConn) request() *http.Request {
	r, err := http.ReadRequest(c.r)
	if err != nil {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r
}

func (c *workerConn) say(s string) { io.WriteString(c, s) }

func (c *workerConn) reset() {
	c.SetLinger(0)
	c.Close()
}

// untilClosed reads on until the client has closed the connection.
func (c *workerConn) untilClosed() { io.Copy(io.Discard, c.r) }

func newClient(t *testing.T, url string, o Options) *lean {
	t.Helper()
	c, err := New(url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.(*lean)
}

func post(body string) *Request {
	return &Request{Method: "POST", Path: "/v1/completions", Header: header.Fields{{Name: "Content-Type", Value: "application/json"}}, Body: []byte(body)}
}

// fetch does one request and reads the whole answer.
func fetch(c Client, r *Request) (*Response, string, error) {
	resp, err := c.Do(context.Background(), r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

func mustFetch(t *testing.T, c Client, r *Request) (*Response, string) {
	t.Helper()
	resp, body, err := fetch(c, r)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

// asError takes the *Error out of err, which must be one.
func asError(t *testing.T, err error) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v (%T) is not an *Error", err, err)
	}
	return e
}

func within[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not happen within %v", what, patience)
		panic("unreachable")
	}
}

func (l *lean) idleConns() int {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	return len(l.pool.idle)
}
