package upstream

import (
	"context"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// CAN-01, CAN-02: whatever the exchange is doing, the end of its context closes the connection at once.
func TestACancelledRequestClosesItsConnectionAtAnyMoment(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	big := strings.Repeat("x", 64<<20) // more than any socket buffer takes
	deaf := func(w *workerConn, reached chan<- struct{}) {
		w.r.Peek(1)
		reached <- struct{}{}
		<-w.closedByPeer()
	}
	silent := func(raw string) func(*workerConn, chan<- struct{}) {
		return func(w *workerConn, reached chan<- struct{}) {
			w.request()
			w.say(raw)
			reached <- struct{}{}
			w.untilClosed()
		}
	}
	endless, feed := io.Pipe()
	defer feed.Close()
	for _, c := range []struct {
		name   string
		req    *Request
		worker func(*workerConn, chan<- struct{})
		sent   bool
	}{
		{"writing the body", post(big), deaf, false},
		{"writing a streamed body", &Request{Method: "POST", Path: "/", BodyReader: endless, ContentLength: -1}, deaf, false},
		{"waiting for the head", post("{}"), silent(""), true},
		{"in the middle of the head", post("{}"), silent("HTTP/1.1 200 OK\r\nContent-"), true},
		{"after an interim answer", post("{}"), silent("HTTP/1.1 100 Continue\r\n\r\n"), true},
		{"before the first event", post("{}"), silent(head), true},
		{"between events", post("{}"), silent(head + "5\r\nhello\r\n"), true},
		{"in the middle of an event", post("{}"), silent(head + "5\r\nhe"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			reached := make(chan struct{}, 1)
			worker := startWorker(t, func(w *workerConn) { c.worker(w, reached) })
			client := newClient(t, worker.url, Options{})
			if c.req.BodyReader != nil {
				go feed.Write([]byte("{"))
			}
			ctx, cancel := context.WithCancel(context.Background())
			failed := make(chan error, 1)
			go func() {
				resp, err := client.Do(ctx, c.req)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
				}
				failed <- err
			}()
			within(t, reached, "the moment to cancel")
			cancelled := time.Now()
			cancel()
			within(t, worker.closed, "the worker's seeing its connection closed")
			t.Logf("the worker saw it after %v", time.Since(cancelled))
			if e := asError(t, within(t, failed, "the error")); e.Class != Cancelled || e.Sent != c.sent {
				t.Fatalf("%v: class %v, sent %v", e, e.Class, e.Sent)
			}
			if n := client.idleConns(); n != 0 {
				t.Fatalf("%d connections in the pool", n)
			}
		})
	}
}

// closedByPeer is closed when the kernel has seen the connection reset, without reading what came before.
func (c *workerConn) closedByPeer() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := c.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n")); err != nil {
				return
			}
			<-time.After(time.Millisecond)
		}
	}()
	return done
}

func TestTheCauseOfACancelledContextIsInTheError(t *testing.T) {
	worker := startWorker(t, func(w *workerConn) { w.request(); w.untilClosed() })
	client := newClient(t, worker.url, Options{})
	ctx, cancel := context.WithTimeoutCause(context.Background(), 20*time.Millisecond, io.ErrShortWrite)
	defer cancel()
	_, err := client.Do(ctx, post("{}"))
	if e := asError(t, err); e.Class != Cancelled || e.Unwrap() != io.ErrShortWrite {
		t.Fatal(e)
	}
}

func TestACancelAfterTheEndTouchesNobodyElsesConnection(t *testing.T) {
	worker := answers(t, okHello, false)
	client := newClient(t, worker.url, Options{})
	for range 500 {
		ctx, cancel := context.WithCancel(context.Background())
		resp, err := client.Do(ctx, post("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(resp.Body); string(b) != "hello" || err != nil {
			t.Fatalf("%q, %v", b, err)
		}
		cancel()
	}
	if n := worker.connections(); n != 1 {
		t.Fatalf("%d connections", n)
	}
}

func TestRandomCancelsNeverMixUpAnswersAndLeaveNothingOpen(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	worker := startWorker(t, func(w *workerConn) {
		for r := w.request(); r != nil; r = w.request() {
			body, _ := io.ReadAll(r.Body)
			w.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			for len(body) > 0 {
				n := min(3, len(body))
				w.say(string(rune('0'+n)) + "\r\n" + string(body[:n]) + "\r\n")
				body = body[n:]
			}
			w.say("0\r\n\r\n")
		}
	})
	client := newClient(t, worker.url, Options{})
	var clients sync.WaitGroup
	for i := range 16 {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		clients.Go(func() {
			for range 60 {
				want := strings.Repeat(string(rune('a'+random.IntN(26))), 1+random.IntN(40))
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(3000))*time.Microsecond)
				resp, err := client.Do(ctx, post(want))
				var got []byte
				if err == nil {
					got, err = io.ReadAll(resp.Body)
				}
				if e, _ := err.(*Error); e != nil && e.Class != Cancelled || !strings.HasPrefix(want, string(got)) || err == nil && string(got) != want {
					t.Errorf("got %q, error %v, want %q", got, err, want)
				}
				cancel()
			}
		})
	}
	clients.Wait()
	client.Close()
	for range worker.connections() {
		within(t, worker.closed, "closing of every connection")
	}
}
