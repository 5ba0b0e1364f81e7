package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/ledger"
)

// bound is how one stands now.
func (rt *testRouter) bound(name string) ledger.Line {
	rt.t.Helper()
	for _, l := range rt.state().Bounds {
		if l.Name == name {
			return l
		}
	}
	rt.t.Fatalf("the state has no bound %s", name)
	return ledger.Line{}
}

func TestEveryBoundIsShownWithItsLimitAndItsUse(t *testing.T) {
	rt := start(t, func(c *config.Config) { c.DecisionLog.File = t.TempDir() + "/decisions.jsonl" }, newWorker(t, nil))
	rt.post("/v1/chat/completions", chat("once", false))
	rt.idle()
	without := map[string]bool{ledger.ClientConns: true, ledger.Memory: true} // off as they come, or by where this runs
	for _, l := range rt.state().Bounds {
		if l.Limit <= 0 && !without[l.Name] || l.Used < 0 || l.Limit > 0 && l.Used > l.Limit {
			t.Errorf("%s: %v of %v in use", l.Name, l.Used, l.Limit)
		}
		if shown := rt.metric("warmpath_bound_limit", fmt.Sprintf("bound=%q", l.Name)); shown != l.Limit {
			t.Errorf("%s is %v in the state, and %v in the metrics", l.Name, l.Limit, shown)
		}
	}
	for _, name := range []string{ledger.Connections, ledger.AdminConns, ledger.WorkerConns, ledger.Descriptors, ledger.Goroutines, ledger.Memory, ledger.IndexBytes, ledger.Workers, ledger.ModelLabels} {
		if used := rt.bound(name).Used; used <= 0 {
			t.Errorf("nothing of %s is in use", name)
		}
	}
}

// held opens a connection that has had an answer, so that it counts.
func (rt *testRouter) held() *net.TCPConn {
	rt.t.Helper()
	c := rt.dial()
	io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	if head := make([]byte, 12); rt.first(c, head) != "HTTP/1.1 200" {
		rt.t.Fatalf("answered %q", head)
	}
	return c
}

func (rt *testRouter) first(c net.Conn, into []byte) string {
	n, _ := io.ReadFull(c, into)
	return string(into[:n])
}

func TestAClientWithTooManyConnectionsIsToldSoInTheWordsOfItsAPI(t *testing.T) {
	w := newWorker(t, nil)
	rt := start(t, func(c *config.Config) { c.ClientMax = 3 }, w)
	for range 3 {
		rt.held()
	}
	for path, words := range map[string]string{"/v1/chat/completions": `"code":"rate_limit`, "/v1/messages": `"type":"error"`} {
		got := rt.raw(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", path))
		if !strings.HasPrefix(got, "HTTP/1.1 429 ") || !strings.Contains(got, "more than 3 connections") || !strings.Contains(got, "connections_per_client_max") ||
			!strings.Contains(got, "Retry-After: 1") || !strings.Contains(got, words) {
			t.Errorf("%s: %q, want words such as %s", path, got, words)
		}
	}
	if got := rt.raw("GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
		t.Errorf("whether the router is ready is answered %q", got)
	}
	if b := rt.bound(ledger.ClientConns); b.Limit != 3 || b.Used < 3 || b.Refused != 3 {
		t.Errorf("the bound stands at %+v", b)
	}
	if w.count() != 0 {
		t.Errorf("the worker saw %d requests", w.count())
	}
}

func TestBeyondAllConnectionsTheLimitAndItsSettingAreNamed(t *testing.T) {
	release := make(chan struct{})
	w := newWorker(t, func(c *call) { <-release; c.good("ok") })
	rt := start(t, func(c *config.Config) { c.ClientsMax = 2 }, w)
	for i := range 2 {
		body := chat(fmt.Sprint("held ", i), false)
		fmt.Fprintf(rt.dial(), "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	eventually(t, "both requests to be at their worker", func() bool { return w.count() == 2 })
	got := rt.raw("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
	if !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.Contains(got, "more than 2 connections") || !strings.Contains(got, "connections_max") || !strings.Contains(got, "Retry-After: ") {
		t.Errorf("answered %q", got)
	}
	if b := rt.bound(ledger.Connections); b.Limit != 2 || b.Used < 2 || b.Refused != 1 {
		t.Errorf("the bound stands at %+v", b)
	}
	close(release)
	rt.idle()
}

func TestWhileMemoryIsShortLargeBodiesAreRefusedAndSmallOnesServed(t *testing.T) {
	w := newWorker(t, nil)
	rt := start(t, nil, w)
	rt.setTight(1000, 960)
	large := chat(strings.Repeat("x", 512<<10), false)
	if r := rt.post("/v1/chat/completions", large); r.status != http.StatusServiceUnavailable || !strings.Contains(r.body, "960 bytes of memory, the limit is 1000") || !strings.Contains(r.body, "memory_max") || r.header.Get("Retry-After") == "" {
		t.Errorf("a large body is answered %d %s", r.status, r.body)
	}
	if r := rt.post("/v1/chat/completions", chat("small", false)); r.status != http.StatusOK {
		t.Errorf("a small one is answered %d %s", r.status, r.body)
	}
	if b := rt.bound(ledger.BodiesBytes); b.Refused != 1 {
		t.Errorf("the bound stands at %+v", b)
	}
	rt.setTight(0, 0)
	if r := rt.post("/v1/chat/completions", large); r.status != http.StatusOK {
		t.Errorf("with memory at hand the large one is answered %d %s", r.status, r.body)
	}
}

func TestAClientThatReadsSlowlyButReadsIsLeftAlone(t *testing.T) {
	t.Parallel()
	const events, bytes = 1500, 4000 // more than the kernel's buffers take in between
	w := newWorker(t, func(c *call) {
		c.events()
		for range events {
			c.send(deltaOf(strings.Repeat("x", bytes)))
		}
		c.send("data: [DONE]\n\n")
	})
	rt := start(t, func(c *config.Config) { c.Timeouts.Client = 500 * time.Millisecond }, w)
	conn := rt.dial()
	conn.SetReadBuffer(256 << 10)
	body := chat("slow", true)
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	slow := &slowReader{conn, time.NewTicker(5 * time.Millisecond)} // 3.2 MB a second: longer than the limit for the whole, never for a piece
	defer slow.tick.Stop()
	res, err := http.ReadResponse(bufio.NewReaderSize(slow, 16<<10), nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(res.Body)
	if got := strings.Count(string(all), "chat.completion.chunk"); err != nil || got != events || !strings.HasSuffix(string(all), "[DONE]\n\n") {
		t.Errorf("%d of %d events came, %v", got, events, err)
	}
}

// slowReader takes what one read brings at each tick.
type slowReader struct {
	io.Reader
	tick *time.Ticker
}

func (r *slowReader) Read(p []byte) (int, error) {
	<-r.tick.C
	return r.Reader.Read(p)
}

func TestAStormOfOneMessageDoesNotFillTheLog(t *testing.T) {
	rt := start(t, func(c *config.Config) { c.LogLinesMax, c.AccessLog = 5, true }, newWorker(t, nil))
	for i := range 200 {
		rt.router.log.Error("the disk is on fire", "sector", i)
	}
	for range 8 {
		rt.post("/v1/chat/completions", chat("logged", false))
	}
	rt.idle()
	if n := strings.Count(rt.log.String(), "the disk is on fire"); n != 5 {
		t.Errorf("%d lines of the storm are in the log, want 5", n)
	}
	if n := strings.Count(rt.log.String(), "msg=request "); n != 8 {
		t.Errorf("%d lines of the access log, want 8", n)
	}
	if b := rt.bound(ledger.LogLines); b.Limit != 5 || b.Refused < 195 {
		t.Errorf("the bound stands at %+v", b)
	}
	rt.Close()
	if text := rt.log.String(); !strings.Contains(text, `message="the disk is on fire" left_out=195`) {
		t.Errorf("nothing tells how many lines were left out")
	}
}

func TestTooManyConnectionsToTheAdminPortAreToldSo(t *testing.T) {
	rt := start(t, nil, newWorker(t, nil))
	at := strings.TrimPrefix(rt.AdminURL(), "http://")
	rt.http.CloseIdleConnections()
	for range adminConnectionsMax {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "POST /explain HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
	}
	eventually(t, "all of them to have a request under way", func() bool {
		rt.adminConns.mu.Lock()
		defer rt.adminConns.mu.Unlock()
		return rt.adminConns.open.Load() == adminConnectionsMax && len(rt.adminConns.waiting) == 0
	})
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(res.Body); res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "256 connections") || rt.adminConns.refused.Load() != 1 {
		t.Errorf("the next one is answered %d %q, %v", res.StatusCode, body, err)
	}
}

func TestConnectionsToTheAdminPortThatAskForNothingGiveWay(t *testing.T) {
	rt := start(t, guardedBy(t), newWorker(t, nil))
	for i := range 2 * adminConnectionsMax {
		c, err := net.Dial("tcp", strings.TrimPrefix(rt.AdminURL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, []string{"", "GET /state HTTP/1.1\r\nX-Slow: ", "GET /state HTTP/1.1\r\nHost: localhost\r\n\r\n", "POST /policy HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"}[i%4])
		if i%4 > 1 { // it is told that it needs a token, and then waits
			if _, err := io.ReadFull(c, make([]byte, 12)); err != nil {
				t.Fatal(err)
			}
		}
	}
	rt.http.CloseIdleConnections()
	if r := rt.adminAsks(http.MethodGet, "/state", "", readToken, ""); r.status != http.StatusOK {
		t.Errorf("%d %s %v", r.status, r.body, r.err)
	}
	if n := rt.adminConns.open.Load(); n > adminConnectionsMax {
		t.Errorf("%d connections", n)
	}
}

func TestSEC06SlowHeadsHoldUpNobodyElse(t *testing.T) {
	const slow = 500
	rt := start(t, nil, newWorker(t, nil))
	for range slow {
		io.WriteString(rt.dial(), "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Slow: ")
	}
	eventually(t, "all of them to be inside", func() bool { return rt.bound(ledger.Connections).Used >= slow })
	for i := range 20 {
		if r := rt.post("/v1/chat/completions", chat(fmt.Sprint("beside ", i), false)); r.status != http.StatusOK {
			t.Errorf("a request beside %d slow heads is answered %d %s", slow, r.status, r.body)
		}
	}
	if used := rt.bound(ledger.Goroutines).Used; used > 3*slow {
		t.Errorf("%v goroutines for %d slow heads", used, slow)
	}
}
