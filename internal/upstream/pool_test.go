package upstream

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

const okHello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

func TestOneConnectionServesOneRequestAfterAnother(t *testing.T) {
	worker := answers(t, okHello, false)
	client := newClient(t, worker.url, Options{})
	for i := range 20 {
		resp, body := mustFetch(t, client, post("{}"))
		if body != "hello" || resp.Reused != (i > 0) {
			t.Fatalf("request %d: body %q, reused %v", i, body, resp.Reused)
		}
	}
	if n := worker.connections(); n != 1 {
		t.Fatalf("%d connections", n)
	}
}

// RET-03: each request is executed once although the worker closes every connection without saying so.
func TestAStaleConnectionIsReplacedInvisibly(t *testing.T) {
	for name, reused := range map[string]func(*workerConn){
		"closed at once":               nil,
		"closed when a request comes":  func(w *workerConn) { w.r.Peek(1) },
		"reset when a request comes":   func(w *workerConn) { w.r.Peek(1); w.reset() },
		"closed after the whole of it": func(w *workerConn) { w.request() },
	} {
		t.Run(name, func(t *testing.T) {
			worker := startWorker(t, func(w *workerConn) {
				if w.request() != nil {
					w.say(okHello)
					if reused != nil {
						reused(w)
					}
				}
			})
			client := newClient(t, worker.url, Options{})
			for i := range 50 {
				if _, body := mustFetch(t, client, post(strings.Repeat("x", i*1000))); body != "hello" {
					t.Fatal(body)
				}
			}
		})
	}
}

func TestAStaleConnectionIsNotReplacedOnceAnAnswerBegan(t *testing.T) {
	worker := startWorker(t, func(w *workerConn) {
		if w.request() != nil {
			w.say(okHello)
			if w.request() != nil {
				w.say("HTTP/1.1 ")
			}
		}
	})
	client := newClient(t, worker.url, Options{})
	mustFetch(t, client, post("{}"))
	_, _, err := fetch(client, post("{}"))
	if e := asError(t, err); e.Class != Reset || !e.Reused || !e.Sent {
		t.Fatalf("%v: class %v, reused %v, sent %v", e, e.Class, e.Reused, e.Sent)
	}
	if n := worker.connections(); n != 1 {
		t.Fatalf("%d connections", n)
	}
}

func TestAReusedConnectionThatBreaksDuringTheWorkIsNotRetriedHere(t *testing.T) {
	t.Parallel()
	worker := startWorker(t, func(w *workerConn) {
		if w.request() != nil {
			w.say(okHello)
			if w.request() != nil {
				<-time.After(staleWindow + 50*time.Millisecond) // it works, and dies of it
			}
		}
	})
	client := newClient(t, worker.url, Options{})
	mustFetch(t, client, post("{}"))
	_, _, err := fetch(client, post("{}"))
	if e := asError(t, err); e.Class != Reset || !e.Reused || !e.Sent {
		t.Fatalf("%v: class %v, reused %v, sent %v", e, e.Class, e.Reused, e.Sent)
	}
}

func TestARequestThatMayHaveReachedAWorkerSaysSoAlthoughTheFreshConnectionWasRefused(t *testing.T) {
	worker := startWorker(t, func(w *workerConn) {
		if w.request() != nil {
			w.say(okHello)
			w.request() // whole, and then the connection closes
		}
	})
	client := newClient(t, worker.url, Options{})
	mustFetch(t, client, post("{}"))
	client.addr = "127.0.0.1:1" // where the fresh connection goes: nobody listens there
	_, _, err := fetch(client, post("{}"))
	if e := asError(t, err); e.Class != Refused || !e.Sent || e.Reused {
		t.Fatalf("%v: class %v, sent %v, reused %v", e, e.Class, e.Sent, e.Reused)
	}
}

func TestBytesNobodyAskedForMakeAnIdleConnectionUseless(t *testing.T) {
	said := make(chan struct{}, 2)
	worker := startWorker(t, func(w *workerConn) {
		for w.request() != nil {
			w.say(okHello)
			w.r.Peek(0)
			w.say("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
			said <- struct{}{}
		}
	})
	client := newClient(t, worker.url, Options{})
	for range 2 {
		resp, err := client.Do(t.Context(), post("{}"))
		if err != nil || resp.Status != 200 {
			t.Fatal(resp, err)
		}
		within(t, said, "the worker's second answer")
		if b, err := io.ReadAll(resp.Body); string(b) != "hello" || err != nil {
			t.Fatalf("%q, %v", b, err)
		}
	}
	if n := worker.connections(); n != 2 {
		t.Fatalf("%d connections, want a fresh one for each", n)
	}
}

func TestIdleConnectionsAreClosedAtTheEndOfTheirLife(t *testing.T) {
	for _, c := range []struct {
		name, keepAlive string
		o               Options
	}{
		{"our own", "", Options{IdleConnLifetime: 20 * time.Millisecond}},
		{"the worker's, announced", "Keep-Alive: max=9, timeout=1\r\n", Options{IdleConnLifetime: time.Hour}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			worker := startWorker(t, func(w *workerConn) {
				for w.request() != nil {
					w.say("HTTP/1.1 200 OK\r\n" + c.keepAlive + "Content-Length: 0\r\n\r\n")
				}
			})
			client := newClient(t, worker.url, c.o)
			mustFetch(t, client, post("{}"))
			within(t, worker.closed, "closing of the idle connection")
			if resp, _ := mustFetch(t, client, post("{}")); resp.Reused {
				t.Fatal("a connection past its life was used")
			}
		})
	}
}

func TestNoMoreIdleConnectionsAreKeptThanAllowed(t *testing.T) {
	worker := answers(t, okHello, false)
	client := newClient(t, worker.url, Options{IdleConnsMax: 2})
	var open []*Response
	for range 5 {
		resp, err := client.Do(t.Context(), post("{}"))
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, resp)
	}
	for _, resp := range open {
		io.Copy(io.Discard, resp.Body)
	}
	for range 3 {
		within(t, worker.closed, "closing of a surplus connection")
	}
	if n := client.idleConns(); n != 2 {
		t.Fatalf("%d idle connections", n)
	}
	client.Close()
	for range 2 {
		within(t, worker.closed, "closing of an idle connection")
	}
}

func TestAClosedClientLetsRunningExchangesEnd(t *testing.T) {
	worker := answers(t, okHello, false)
	client := newClient(t, worker.url, Options{})
	resp, err := client.Do(t.Context(), post("{}"))
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	if b, err := io.ReadAll(resp.Body); string(b) != "hello" || err != nil {
		t.Fatalf("%q, %v", b, err)
	}
	within(t, worker.closed, "closing of the connection")
}

func TestABodyClosedEarlyClosesItsConnectionAndOneClosedAtItsEndDoesNot(t *testing.T) {
	for _, c := range []struct {
		name, raw string
		kept      bool
	}{
		{"not read, but all there", "Content-Length: 5\r\n\r\nhello", true},
		{"chunked and all there", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", true},
		{"more to come", "Content-Length: 6\r\n\r\nhello", false},
		{"last chunk to come", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			worker := answers(t, "HTTP/1.1 200 OK\r\n"+c.raw, false)
			client := newClient(t, worker.url, Options{})
			resp, err := client.Do(t.Context(), post("{}"))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			resp.Body.Close()
			if kept := client.idleConns() == 1; kept != c.kept {
				t.Fatalf("kept %v", kept)
			}
			if !c.kept {
				within(t, worker.closed, "closing of the connection")
			}
			_, err = resp.Body.Next()
			asError(t, err)
		})
	}
}

func TestConnectErrorsAreClassifiedAndNothingWasSent(t *testing.T) {
	worker := startWorker(t, func(w *workerConn) {})
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		name, url string
		ctx       context.Context
		o         Options
		want      Class
	}{
		{"refused", "http://127.0.0.1:1", context.Background(), Options{}, Refused},
		{"no such host", "http://nowhere.invalid:80", context.Background(), Options{}, Refused},
		{"slower than allowed", worker.url, context.Background(), Options{ConnectTimeout: 1}, Timeout},
		{"cancelled before", worker.url, ended, Options{}, Cancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := newClient(t, c.url, c.o).Do(c.ctx, post("{}"))
			if e := asError(t, err); e.Class != c.want || e.Sent || e.Reused {
				t.Fatalf("%v: class %v, sent %v, reused %v", e, e.Class, e.Sent, e.Reused)
			}
		})
	}
}

func TestAWorkerURLIsCheckedAndItsSecretsStayOutOfErrors(t *testing.T) {
	for _, bad := range []string{"", "10.0.0.7:8000", "ftp://a", "http://", "http://a?x=1", "http://a#b", "http://a b"} {
		if _, err := New(bad, Options{}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	client := newClient(t, "http://user:hunter2@127.0.0.1:1/base", Options{})
	_, err := client.Do(t.Context(), &Request{Method: http.MethodGet, Path: "/v1/models?key=hunter2"})
	if e := asError(t, err); strings.Contains(e.Error(), "hunter2") || !strings.Contains(e.Error(), "http://127.0.0.1:1/base") {
		t.Fatal(e)
	}
}
