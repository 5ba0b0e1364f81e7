package downstream

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func TestWhatServersReadInMoreThanOneWayIsRefused(t *testing.T) {
	var asked atomic.Int32
	_, addr := start(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		echo(w, r)
	})
	for _, fields := range []string{
		"Content-Length: 3\r\nContent-Length: 4\r\n",
		"Content-Length: 3\r\ncontent-length: 3\r\n",
		"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
		"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
		"Content-Length : 3\r\nTransfer-Encoding: chunked\r\n",
		"Transfer-Encoding: chunked\nContent-Length: 3\n",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
		"X: y\r\n z\r\n",
		"X: y\r\n\tContent-Length: 3\r\n",
		"X: y\r\n \r\n",
		"X: " + strings.Repeat("y", 2*bufferBytes) + "\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n",
		"X: " + strings.Repeat("y", 66<<10) + "\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n", // net/http takes a bit more than its bound
	} {
		c := dial(t, addr)
		c.send("POST / HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n0\r\n\r\n" + post("hidden"))
		r, said := c.answer(t, "POST")
		rest, _ := io.ReadAll(c.r)
		if r.StatusCode != http.StatusBadRequest || !r.Close || len(rest) > 0 || asked.Load() != 0 {
			t.Errorf("%q: %s %q close %t, then %q, %d requests", fields, r.Status, said, r.Close, rest, asked.Load())
		}
	}
	for request, why := range map[string]string{
		"POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n": "Transfer-Encoding in HTTP/1.0",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":                                 "HTTP/2 is not spoken here, HTTP/1.1 is",
	} {
		c := dial(t, addr)
		c.send(request)
		if r, said := c.answer(t, "POST"); r.StatusCode != http.StatusBadRequest || !strings.Contains(said, why) {
			t.Errorf("%q: %s %q", request, r.Status, said)
		}
	}
}

// net/http drops one of two lengths, and what a coding in HTTP/1.0 would mean, unseen.
func TestWhereNetHTTPServesAllWhatComesBehindChunksIsNotARequest(t *testing.T) {
	var asked atomic.Int32
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Context: t.Context(), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked.Add(1); echo(w, r) })})
	done := make(chan error, 1)
	go func() { done <- s.Serve(foreignListener{l}) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	for _, head := range []string{
		"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 90\r\n",
		"POST / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n",
	} {
		asked.Store(0)
		c := dial(t, l.Addr().String())
		c.send(head + "\r\n0\r\n\r\n" + post("hidden"))
		r, _ := c.answer(t, "POST")
		rest, err := io.ReadAll(c.r)
		if !r.Close || len(rest) > 0 || err != nil || asked.Load() != 1 {
			t.Errorf("%q: close %t, then %q %v, %d requests", head, r.Close, rest, err, asked.Load())
		}
	}
}

func TestARequestForNowhereIsRefused(t *testing.T) {
	_, addr := start(t, Options{}, echo)
	for request, want := range map[string]int{
		"GET / HTTP/1.1\r\nHost:\r\n":                        400,
		"GET ftp://h/ HTTP/1.1\r\nHost: h\r\n":               400,
		"GET http:///x HTTP/1.1\r\nHost: h\r\n":              400,
		"GET http://user:secret@h/x HTTP/1.1\r\nHost: h\r\n": 400,
		"GET http://h/x HTTP/1.1\r\nHost: h\r\n":             200,
		"GET /x HTTP/1.0\r\n":                                200,
	} {
		c := dial(t, addr)
		c.send(request + "\r\n")
		if r, said := c.answer(t, "GET"); r.StatusCode != want || !r.Close {
			t.Errorf("%q: %s %q", request, r.Status, said)
		}
	}
}
