package upstream

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/warmpath/warmpath/internal/header"
)

func TestASmallRequestLeavesInOneWriteWithItsHeadersAndOurFraming(t *testing.T) {
	seen := make(chan string, 1)
	worker := startWorker(t, func(w *workerConn) {
		b := make([]byte, 64<<10)
		n, _ := w.Read(b) // on loopback one read returns what one write sent
		seen <- string(b[:n])
		w.say(okHello)
	})
	client := newClient(t, strings.Replace(worker.url, "http://", "http://me:pw@", 1)+"/base/", Options{})
	req := &Request{
		Method: "POST", Path: "/v1/x%2Fy?q=1&r=%20", Host: "model.example:80", Body: []byte(`{"a":1}`),
		Header: header.Fields{
			{Name: "X-Two", Value: "1"}, {Name: "X-Two", Value: "2"}, {Name: "Content-Length", Value: "999"}, {Name: "Transfer-Encoding", Value: "chunked"},
			{Name: "connection", Value: "close"}, {Name: "Host", Value: "evil"}, {Name: "Expect", Value: "100-continue"}, {Name: "Upgrade", Value: "h2c"}, {Name: "Trailer", Value: "X"},
		},
	}
	mustFetch(t, client, req)
	want := "POST /base/v1/x%2Fy?q=1&r=%20 HTTP/1.1\r\nHost: model.example:80\r\nX-Two: 1\r\nX-Two: 2\r\n" +
		"Authorization: Basic bWU6cHc=\r\nContent-Length: 7\r\n\r\n{\"a\":1}"
	if got := <-seen; got != want {
		t.Fatalf("got  %q\nwant %q", got, want)
	}
}

func TestEveryBodyArrivesWholeWhateverItsSizeAndSource(t *testing.T) {
	worker := startWorker(t, func(w *workerConn) {
		for r := w.request(); r != nil; r = w.request() {
			body, _ := io.ReadAll(r.Body)
			sum := sha256.Sum256(body)
			w.say("HTTP/1.1 200 OK\r\nContent-Length: 32\r\n\r\n" + string(sum[:]))
		}
	})
	client := newClient(t, worker.url, Options{})
	for _, size := range []int{0, 1, 100, bufferBytes - 200, bufferBytes, bufferBytes + 1, 100_000, 1 << 20, 8 << 20} {
		body := strings.Repeat("0123456789", size/10+1)[:size]
		want := sha256.Sum256([]byte(body))
		for name, req := range map[string]*Request{
			"memory":         post(body),
			"sized reader":   {Method: "POST", Path: "/", BodyReader: strings.NewReader(body), ContentLength: int64(size)},
			"chunked reader": {Method: "POST", Path: "/", BodyReader: iotest.DataErrReader(strings.NewReader(body)), ContentLength: -1},
			"long head":      {Method: "POST", Path: "/" + strings.Repeat("p", 20_000), Body: []byte(body)},
		} {
			if _, got := mustFetch(t, client, req); got != string(want[:]) {
				t.Errorf("%d bytes from %s: arrived changed", size, name)
			}
		}
	}
	if n := worker.connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestAnEarlyAnswerIsReadableWhileTheBodyIsStillBeingWritten(t *testing.T) {
	for name, after := range map[string]func(*workerConn){
		"and the worker reads no further": (*workerConn).stay,
		"and the worker closes":           func(w *workerConn) {},
	} {
		t.Run(name, func(t *testing.T) {
			worker := startWorker(t, func(w *workerConn) {
				w.r.Peek(1)
				w.say("HTTP/1.1 413 Too Large\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ntoo \r\n")
				w.say("4\r\nbig!\r\n0\r\n\r\n")
				after(w)
			})
			client := newClient(t, worker.url, Options{})
			resp, body, err := fetch(client, post(strings.Repeat("x", 64<<20)))
			if name == "and the worker closes" && err != nil {
				// With bytes unread, the close is a reset that may overtake the answer.
				if e := asError(t, err); e.Class != Reset || e.Sent {
					t.Fatalf("%v: class %v, sent %v", e, e.Class, e.Sent)
				}
				return
			}
			if err != nil || resp.Status != 413 || body != "too big!" {
				t.Fatal(resp, body, err)
			}
			within(t, worker.closed, "closing of the connection")
			if n := client.idleConns(); n != 0 {
				t.Fatalf("%d connections in the pool", n)
			}
		})
	}
}

// stay keeps the connection open until the client has reset it, without reading.
func (c *workerConn) stay() { <-c.closedByPeer() }

func TestAnEarlyAnswerKeepsItsConnectionWhenTheBodyWasWrittenAfterAll(t *testing.T) {
	worker := startWorker(t, func(w *workerConn) {
		for {
			if _, err := w.r.Peek(1); err != nil {
				return
			}
			w.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nearly\r\n")
			if w.request() == nil {
				return
			}
			w.say("5\r\n-late\r\n0\r\n\r\n")
		}
	})
	client := newClient(t, worker.url, Options{})
	for i := range 2 {
		resp, body := mustFetch(t, client, post(strings.Repeat("x", 16<<20)))
		if body != "early-late" || resp.Reused != (i > 0) {
			t.Fatal(body, resp.Reused)
		}
	}
}

func TestSettingsForWaitingStrike(t *testing.T) {
	const gap = 30 * time.Millisecond
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
	for _, c := range []struct {
		name, raw, body string
		o               Options
		deaf            bool
		sent            bool
	}{
		{"no head", "", "{}", Options{HeaderTimeout: gap}, false, true},
		{"half a head", "HTTP/1.1 200 OK\r\n", "{}", Options{HeaderTimeout: gap}, false, true},
		{"a head byte by byte", "drip", "{}", Options{HeaderTimeout: 3 * gap}, false, true},
		{"no body", head, "{}", Options{IdleGap: gap}, false, true},
		{"a gap in the body", head + "hello", "{}", Options{IdleGap: gap}, false, true},
		{"the worker takes no more of the request", "", strings.Repeat("x", 64<<20), Options{IdleGap: gap}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			done := make(chan struct{})
			worker := startWorker(t, func(w *workerConn) {
				if c.deaf {
					<-done
					return
				}
				w.request()
				if c.raw == "drip" {
					w.say("HTTP/1.1 200 OK\r\nX-A: ")
					for _, err := w.Write([]byte("x")); err == nil; _, err = w.Write([]byte("x")) {
						<-time.After(gap / 3)
					}
					return
				}
				w.say(c.raw)
				w.untilClosed()
			})
			client := newClient(t, worker.url, c.o)
			_, _, err := fetch(client, post(c.body))
			close(done)
			t.Log(err)
			if e := asError(t, err); e.Class != Timeout || e.Sent != c.sent {
				t.Fatalf("%v: class %v, sent %v", e, e.Class, e.Sent)
			}
			within(t, worker.closed, "closing of the connection")
		})
	}
}

// TMO-02: only silence counts, not the length of the whole.
func TestNoTimeoutCutsAStreamThatGoesOn(t *testing.T) {
	t.Parallel()
	const events = 120
	worker := startWorker(t, func(w *workerConn) {
		for w.request() != nil {
			w.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			for range events {
				<-time.After(10 * time.Millisecond)
				w.say("1\r\nx\r\n")
			}
			w.say("0\r\n\r\n")
		}
	})
	client := newClient(t, worker.url, Options{IdleGap: time.Second, HeaderTimeout: patience})
	for range 2 { // the second time over the same connection, past the deadlines of the first
		if _, body := mustFetch(t, client, post(strings.Repeat("x", 16<<20))); len(body) != events {
			t.Fatalf("%d events", len(body))
		}
	}
	if n := worker.connections(); n != 1 {
		t.Fatalf("%d connections", n)
	}
}

func TestABodyReaderThatFailsNeverLooksLikeAWholeRequest(t *testing.T) {
	broken := errors.New("the client left")
	for name, req := range map[string]*Request{
		"fails, sized":   {BodyReader: io.MultiReader(strings.NewReader("hello"), iotest.ErrReader(broken)), ContentLength: 10},
		"fails, chunked": {BodyReader: io.MultiReader(strings.NewReader("hello"), iotest.ErrReader(broken)), ContentLength: -1},
		"ends early":     {BodyReader: strings.NewReader("hello"), ContentLength: 10},
	} {
		t.Run(name, func(t *testing.T) {
			whole := make(chan bool, 1)
			worker := startWorker(t, func(w *workerConn) { whole <- w.request() != nil })
			client := newClient(t, worker.url, Options{})
			req.Method, req.Path = "POST", "/"
			_, err := client.Do(context.Background(), req)
			if e := asError(t, err); e.Class != Source || e.Sent {
				t.Fatalf("%v: class %v, sent %v", e, e.Class, e.Sent)
			}
			if within(t, whole, "the worker's verdict") {
				t.Fatal("the worker took it for a whole request")
			}
		})
	}
}

func TestARequestThatCouldBeReadAsTwoIsNotSent(t *testing.T) {
	client := newClient(t, "http://127.0.0.1:1", Options{})
	for name, req := range map[string]*Request{
		"method":        {Method: "GET /", Path: "/"},
		"no method":     {Path: "/"},
		"path":          {Method: "GET", Path: "/ HTTP/1.1\r\nX: y"},
		"relative path": {Method: "GET", Path: "v1"},
		"blank in path": {Method: "GET", Path: "/a b"},
		"host":          {Method: "GET", Path: "/", Host: "a\r\nX: y"},
		"header name":   {Method: "GET", Path: "/", Header: header.Fields{{Name: "X\r\nY", Value: "1"}}},
		"blank in name": {Method: "GET", Path: "/", Header: header.Fields{{Name: "X ", Value: "1"}}},
		"empty name":    {Method: "GET", Path: "/", Header: header.Fields{{Value: "1"}}},
		"header value":  {Method: "GET", Path: "/", Header: header.Fields{{Name: "X", Value: "1\nY: 2"}}},
	} {
		_, err := client.Do(t.Context(), req)
		if e := asError(t, err); e.Class != Invalid || e.Sent {
			t.Errorf("%s: %v", name, err)
		}
	}
}
