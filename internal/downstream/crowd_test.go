package downstream

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const plainGet = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// answered reads one answer whose body is "ok".
func (w *wire) answered(t *testing.T) *http.Response {
	t.Helper()
	res, err := http.ReadResponse(w.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "ok" {
		t.Fatalf("%q %v", body, err)
	}
	return res
}

func TestAConnectionThatWaitsGivesWayToANewOne(t *testing.T) {
	_, addr := start(t, Options{ConnectionsMax: 2}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") })
	var kept []*wire
	for range 2 {
		w := dial(t, addr)
		w.send(plainGet)
		if res := w.answered(t); res.Close {
			t.Error("a connection within the bound is not kept")
		}
		kept = append(kept, w)
	}
	for end := time.Now().Add(20 * time.Second); ; {
		w := dial(t, addr)
		w.send(plainGet)
		if res := w.answered(t); !res.Close {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a connection that only waits keeps out those that ask")
		}
	}
	ended := 0
	for _, w := range kept {
		w.send(plainGet)
		if _, err := http.ReadResponse(w.r, nil); err != nil {
			ended++
		}
	}
	if ended == 0 {
		t.Error("no connection that only waited was closed for those that asked")
	}
}

func TestConnectionsBeyondTheBoundAreAnsweredAndNotKept(t *testing.T) {
	hold := make(chan struct{})
	began := make(chan struct{}, 2)
	_, addr := start(t, Options{ConnectionsMax: 2}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			began <- struct{}{}
			<-hold
		}
		io.WriteString(w, "ok")
	})
	var long []*wire
	for range 2 {
		w := dial(t, addr)
		w.send(strings.Replace(plainGet, "/", "/long", 1))
		<-began
		long = append(long, w)
	}
	for range 4 { // one at a time: a fifth of two, and at least one, is let in beside the long ones
		w := dial(t, addr)
		w.send(plainGet)
		if res := w.answered(t); !res.Close {
			t.Error("a connection beyond the bound is kept")
		}
	}
	close(hold)
	for _, w := range long {
		if res := w.answered(t); res.Close {
			t.Error("a connection within the bound is not kept")
		}
	}
}

// foreignListener is a listener whose connections are not TCP's own, as with TLS: net/http serves them.
type foreignListener struct{ net.Listener }

func (l foreignListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return struct{ net.Conn }{c}, err
}

func TestAConnectionThatWaitsGivesWayWhereNetHTTPServesThemAllToo(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{ConnectionsMax: 2, Context: t.Context(), Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })})
	var done sync.WaitGroup
	done.Go(func() { s.Serve(foreignListener{l}) })
	t.Cleanup(func() { s.Close(); done.Wait() })
	for range 20 { // each is kept, and only waits from then on
		w := dial(t, l.Addr().String())
		w.send(plainGet)
		w.answered(t)
	}
}
