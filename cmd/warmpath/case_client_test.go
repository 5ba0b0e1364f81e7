package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

// dial is a raw connection to the data port, closed at the end of the test.
func (rt *testRouter) dial() *net.TCPConn {
	rt.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(rt.DataURL(), "http://"))
	if err != nil {
		rt.t.Fatal(err)
	}
	rt.t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

// raw sends bytes as they are and returns all that comes back until the router closes the connection.
func (rt *testRouter) raw(request string) string {
	rt.t.Helper()
	conn := rt.dial()
	io.WriteString(conn, request)
	answer, err := io.ReadAll(conn)
	if err != nil {
		rt.t.Fatalf("%v after %q", err, answer)
	}
	return string(answer)
}

func TestAClientThatStopsReadingIsGivenUpAndItsWorkerFreed(t *testing.T) {
	left := make(chan struct{})
	w := newWorker(t, func(c *call) {
		defer close(left)
		if c.wantsStream() {
			c.events()
		}
		for c.r.Context().Err() == nil {
			if _, err := io.WriteString(c.w, deltaOf(strings.Repeat("x", 4000))); err != nil {
				return
			}
		}
	})
	rt := start(t, func(c *config.Config) { c.Timeouts.Client = 100 * time.Millisecond }, w)
	for _, stream := range []bool{true, false} {
		left = make(chan struct{})
		conn := rt.dial()
		conn.SetReadBuffer(4 << 10)
		body := chat(fmt.Sprint("stuck ", stream), stream)
		fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		<-left
		rt.idle()
		if rt.metric("warmpath_worker_inflight_requests") != 0 {
			t.Errorf("stream %v: the worker is not free", stream)
		}
		conn.Close()
	}
}

func TestAClientThatReadsSlowlyButSteadilyGetsItsWholeStream(t *testing.T) {
	const events = 40
	w := newWorker(t, func(c *call) {
		c.events()
		for range events {
			c.send(deltaOf("x"))
			c.wait(10 * time.Millisecond)
		}
		c.send("data: [DONE]\n\n")
	})
	rt := start(t, func(c *config.Config) { c.Timeouts.Client = 150 * time.Millisecond }, w)
	if r := rt.post("/v1/chat/completions", chat("slow", true)); strings.Count(r.body, "content") != events || !strings.Contains(r.body, "[DONE]") {
		t.Errorf("got %d events, error %v", strings.Count(r.body, "content"), r.err)
	}
}

func TestSEC06ABodyThatComesTooSlowlyIs408AndReachesNoWorker(t *testing.T) {
	w := newWorker(t, nil)
	rt := start(t, func(c *config.Config) { c.Timeouts.Client = 150 * time.Millisecond }, w)
	for framing, piece := range map[string]string{"Content-Length: 100000": "x", "Transfer-Encoding: chunked": "1\r\nx\r\n"} {
		conn := rt.dial()
		fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", framing)
		stop := make(chan struct{})
		go func() { // a byte at a time keeps no connection alive
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					io.WriteString(conn, piece)
				case <-stop:
					return
				}
			}
		}()
		answer := make([]byte, 4096)
		n, err := conn.Read(answer)
		close(stop)
		if got := string(answer[:n]); err != nil || !strings.HasPrefix(got, "HTTP/1.1 408 ") || !strings.Contains(got, "timeouts.client") {
			t.Errorf("%s: %q, %v", framing, got, err)
		}
		conn.Close()
	}
	if w.count() != 0 {
		t.Errorf("the worker saw %d requests", w.count())
	}
	rt.idle()
}

func TestSEC06MemoryFollowsWhatWasSentNotWhatWasAnnounced(t *testing.T) {
	const claims = 200
	w := newWorker(t, nil)
	rt := start(t, nil, w)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range claims {
		kind := []string{"Content-Type: application/json", "Content-Type: application/octet-stream", "Content-Encoding: gzip"}[i%3]
		fmt.Fprintf(rt.dial(), "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: %d\r\n\r\n{", kind, 64<<20)
	}
	eventually(t, "all announcements to be inside", func() bool { return rt.state().Running == claims })
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > claims*512<<10 {
		t.Errorf("%d bodies that were only announced take %d bytes of memory", claims, grown)
	}
}

func TestSEC06AllBodiesTogetherAreBoundedUnpackedOnesToo(t *testing.T) {
	hold := make(chan struct{})
	w := newWorker(t, func(c *call) {
		if strings.Contains(string(c.body), "hold") {
			<-hold
		}
		c.good("ok")
	})
	rt := start(t, func(c *config.Config) { c.BodiesBytesMax = 1 << 20 }, w)
	big := chat("hold"+strings.Repeat("x", 700<<10), false)
	first := make(chan reply)
	go func() { first <- rt.post("/v1/chat/completions", big) }()
	eventually(t, "the first to reach its worker", func() bool { return w.count() == 1 })
	if r := rt.post("/v1/chat/completions", big); r.status != http.StatusServiceUnavailable || !strings.Contains(r.body, "bodies_bytes_max") || r.header.Get("Retry-After") == "" {
		t.Errorf("a second body that does not fit beside the first: %d %s", r.status, r.body)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, chat(strings.Repeat("x", 10<<20), false))
	z.Close()
	if r := rt.post("/v1/chat/completions", packed.String(), "Content-Encoding", "gzip"); r.status != http.StatusServiceUnavailable {
		t.Errorf("%d bytes that unpack to ten million: %d %s", packed.Len(), r.status, r.body)
	}
	close(hold)
	if r := <-first; r.status != http.StatusOK {
		t.Errorf("the first: %d %s", r.status, r.body)
	}
	rt.idle()
	if r := rt.post("/v1/chat/completions", chat(strings.Repeat("y", 700<<10), false)); r.status != http.StatusOK {
		t.Errorf("after all is over: %d %s", r.status, r.body)
	}
}

func TestNoRequestThatCannotBePassedOnCountsAgainstAWorker(t *testing.T) {
	w1, w2 := newWorker(t, nil), newWorker(t, nil)
	rt := start(t, nil, w1, w2)
	body := chat("x", false)
	for range 8 {
		got := rt.raw(fmt.Sprintf("POST /v1/chat/completions?a=#b HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		if !strings.HasPrefix(got, "HTTP/1.1 200 ") {
			t.Fatalf("got %q", got)
		}
	}
	for _, c := range append(w1.calls(), w2.calls()...) {
		if c.r.URL.RawQuery != "a=%23b" {
			t.Errorf("the worker got the query %q", c.r.URL.RawQuery)
		}
	}
	for _, s := range rt.state().Workers {
		if s.State != "ready" {
			t.Errorf("worker %s is %s", s.ID, s.State)
		}
	}
}

func TestWhatAClientNamesIsNotEchoedAtLength(t *testing.T) {
	w := newWorker(t, nil)
	rt := start(t, func(c *config.Config) { c.AccessLog = true }, w)
	long := strings.Repeat("m", 1<<20)
	for _, r := range []reply{
		rt.post("/v1/chat/completions", fmt.Sprintf(`{"model":%q}`, long)),
		rt.post("/v1/messages", fmt.Sprintf(`{"model":%q}`, long)),
		rt.get("/v1/models/" + long[:40<<10]),
		rt.get("/" + long[:40<<10]),
		rt.post("/v1/"+long[:40<<10], `{"model":"m"}`),
		rt.post("/v1/responses", fmt.Sprintf(`{"model":"m","input":"x","previous_response_id":%q}`, long)),
	} {
		if r.err != nil || len(r.body) > 4<<10 {
			t.Errorf("status %d, an answer of %d bytes, %v", r.status, len(r.body), r.err)
		}
	}
	rt.idle()
	for line := range strings.Lines(rt.log.String()) {
		if len(line) > 8<<10 {
			t.Errorf("a log line of %d bytes: %.200s", len(line), line)
		}
	}
}

func TestATunnelAnEchoAndAnIdThatIsAPathArePassedToNoWorker(t *testing.T) {
	w := newWorker(t, nil)
	rt := start(t, nil, w)
	for _, method := range []string{"CONNECT", "TRACE"} {
		if got := rt.raw(method + " /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 405 ") {
			t.Errorf("%s: %q", method, got)
		}
	}
	for _, id := range []string{".", ".."} {
		if r := rt.post("/v1/responses", fmt.Sprintf(`{"model":"m","input":"x","previous_response_id":%q}`, id)); r.status != http.StatusBadRequest {
			t.Errorf("id %q: %d %s", id, r.status, r.body)
		}
	}
	if n := w.count(); n != 0 {
		t.Errorf("the worker saw %d requests, the first %s %s", n, w.calls()[0].r.Method, w.calls()[0].r.URL)
	}
}
