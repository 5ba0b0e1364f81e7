package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

// steering are the headers by which routers and engines are steered from the inside, in odd spellings.
var steering = []string{
	"X-Data-Parallel-Rank", "x-data-parallel-RANK", "X_Data_Parallel_Rank", "X-Prefiller-Host-Port", "x-prefiller-url", "X-Gateway-Destination-Endpoint",
	"x_gateway_destination_endpoint", "X-Gateway-Destination-Endpoint-Served", "X-Worker-Id", "X-WORKER-INSTANCE-ID", "X-Decode-Host-Port", "X-Routing-Target",
	"X-Warmpath-Worker", "x-warmpath-decision", "X_Warmpath_Worker", "X-Warmpath-Anything",
}

func TestSEC01NoClientChoosesWhereItsRequestGoes(t *testing.T) {
	var visits atomic.Int64
	canary, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			conn, err := canary.Accept()
			if err != nil {
				return
			}
			visits.Add(1)
			conn.Close()
		}
	})
	t.Cleanup(func() { canary.Close(); done.Wait() })
	target := canary.Addr().String()
	w := newWorker(t, nil)
	rt := start(t, nil, w)
	body := fmt.Sprintf(`{"model":"m","worker_id":%q,"destination":%q,"x-worker-id":%q,"messages":[{"role":"user","content":"x"}]}`, target, target, target)
	var headers strings.Builder
	for _, name := range steering {
		fmt.Fprintf(&headers, "%s: %s\r\n%s: http://%s\r\n", name, target, name, target)
	}
	requests := []string{
		fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\n%sConnection: close, X-Worker-Id\r\nContent-Length: %d\r\n\r\n%s", target, headers.String(), len(body), body),
		fmt.Sprintf("POST http://%s/v1/chat/completions HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", target, target, len(body), body),
		fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: X-Worker-Id\r\n\r\n%x\r\n%s\r\n0\r\nX-Worker-Id: %s\r\n\r\n", len(body), body, target),
	}
	for _, request := range requests {
		if got := rt.raw(request); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
			t.Errorf("%.60q: %q", request, got)
		}
	}
	calls := w.calls()
	if len(calls) != len(requests) {
		t.Errorf("the worker saw %d requests of %d", len(calls), len(requests))
	}
	for _, c := range calls {
		for name, values := range c.r.Header {
			if strings.Contains(strings.Join(values, " "), target) {
				t.Errorf("the worker got %s: %q", name, values)
			}
		}
		if c.r.Host == target || len(c.r.Trailer) > 0 || string(c.body) != body {
			t.Errorf("the worker got host %s, trailers %v, body %s", c.r.Host, c.r.Trailer, c.body)
		}
	}
	rt.adminCall(http.MethodDelete, "/workers/w1", "", nil)
	for _, request := range requests {
		if got := rt.raw(request); !strings.HasPrefix(got, "HTTP/1.1 503 ") {
			t.Errorf("without a worker: %q", got)
		}
	}
	if n := visits.Load(); n != 0 {
		t.Errorf("the canary got %d connections", n)
	}
}

func TestSEC05NoKeyAndNoPromptIsFoundAnywhereButAtTheWorker(t *testing.T) {
	const workerKey, clientKey, prompt = "S3CR3T-WORKER", "C4NARY-KEY", "CANARY-PROMPT"
	var shown strings.Builder // all that anybody but the worker can read
	script := func(c *call) {
		if end := workerEnds[c.r.Header.Get("X-End")]; end != nil {
			end(c)
		}
	}
	w1, w2 := newWorker(t, script), newWorker(t, script)
	rt := start(t, func(c *config.Config) {
		c.AccessLog, c.ExplainHeaders = true, true
		for i := range c.Workers {
			c.Workers[i].Key = workerKey
		}
	}, w1, w2)
	note := func(r reply) { fmt.Fprintln(&shown, r.status, r.header, r.body, r.err) }
	key := []string{"Authorization", "Bearer " + clientKey, "X-Api-Key", clientKey}
	for end := range workerEnds {
		if strings.HasPrefix(end, "silent") {
			continue // nothing ends it but its client
		}
		for _, stream := range []bool{false, true} {
			note(rt.post("/v1/chat/completions?key="+clientKey, chat(prompt, stream), append(key, "X-End", end)...))
		}
	}
	for _, body := range []string{`{"model":"m","messages":"` + prompt, `{"model":"m","messages":[` + strings.Repeat("[", 600) + `"` + prompt, `{"model":5,"prompt":"` + prompt + `"}`,
		`{"model":"m","max_tokens":"` + prompt + `","messages":[]}`, `{"stream":"` + prompt + `"}`, prompt, `{"model":"m","stop":"` + prompt + "\x01" + `"}`} {
		for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/completions", "/v1/embeddings"} {
			note(rt.post(path, body, key...))
		}
	}
	note(rt.post("/nowhere?key="+clientKey, prompt, key...))
	fmt.Fprintln(&shown, rt.raw("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+clientKey+"\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"+prompt))
	for _, body := range []string{`{"url":"http://user:` + workerKey + `@127.0.0.1:1"}`, `{"url":"http://127.0.0.1:1/?key=` + workerKey + `"}`, `{"url":"http://127.0.0.1:1","key":"` + workerKey + `\n"}`,
		`{"url":"http://127.0.0.1:1","key":"` + workerKey + `"}`, `{"url":"http://127.0.0.1:1","key":{"` + workerKey + `":1}}`} {
		req, _ := http.NewRequest(http.MethodPost, rt.AdminURL()+"/workers", strings.NewReader(body))
		note(read(rt.http.Do(req)))
	}
	rt.idle()
	for _, path := range []string{"/state", "/metrics", "/workers"} {
		note(read(rt.http.Get(rt.AdminURL() + path)))
	}
	io.WriteString(&shown, rt.log.String())
	for line := range strings.Lines(shown.String()) {
		for _, secret := range []string{workerKey, clientKey, prompt} {
			if strings.Contains(line, secret) {
				t.Errorf("%s in %.300q", secret, line)
			}
		}
	}
	for _, c := range append(w1.calls(), w2.calls()...) {
		if c.r.Header.Get("Authorization") != "Bearer "+workerKey || c.r.Header.Get("X-Api-Key") != "" {
			t.Fatalf("the worker got %v", c.r.Header)
		}
	}
}

// refused sends the bytes of a request and reads the answer, though the request may not be at its end.
func (rt *testRouter) refused(request string) reply {
	rt.t.Helper()
	conn := rt.dial()
	defer conn.Close()
	io.WriteString(conn, request)
	return read(http.ReadResponse(bufio.NewReader(conn), nil))
}

func TestSEC06WhoeverIsRefusedIsToldTheIdOfItsRequest(t *testing.T) {
	w := newWorker(t, nil)
	rt := start(t, func(c *config.Config) {
		keyed(t, "")(c)
		c.BodyBytesMax, c.Timeouts.Client = 1<<20, 150*time.Millisecond
	}, w)
	const key, path = "Authorization: Bearer " + searchKey + "\r\n", "/v1/chat/completions"
	whole := func(body string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body) }
	for i, c := range []struct {
		status           int
		line, head, rest string
		logged           bool
	}{
		{400, "POST " + path, key, whole(`{"model":"m","x":` + strings.Repeat("[", 100_000)), true},
		{400, "POST " + path, key, whole("no JSON"), true},
		{401, "POST " + path, "", "Content-Length: 1073741824\r\n\r\n", true},
		{401, "POST /v1/messages", "", "Transfer-Encoding: chunked\r\n\r\n", true},
		{404, "POST " + path, key, whole(`{"model":"nobody's"}`), true},
		{404, "POST /nowhere", "", "Content-Length: 1073741824\r\n\r\n", false},
		{405, "TRACE /v1/models", "", "\r\n", false},
		{408, "POST " + path, key, "Content-Length: 100\r\n\r\n{", true},
		{413, "POST " + path, key, "Content-Length: 1048577\r\n\r\n", true},
	} {
		id := fmt.Sprint("mine-", i)
		named := rt.refused(c.line + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Request-Id: " + id + "\r\n" + c.head + c.rest)
		nameless := rt.refused(c.line + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + c.head + c.rest)
		made := nameless.header.Get("X-Request-Id")
		if named.status != c.status || nameless.status != c.status || named.header.Get("X-Request-Id") != id || len(made) != 32 {
			t.Errorf("%s: %d and %d, want %d; ids %q and %q; %s", c.line, named.status, nameless.status, c.status, named.header.Get("X-Request-Id"), made, named.body)
		}
		if anthropic := c.line == "POST /v1/messages"; anthropic != (named.header.Get("Request-Id") == id) {
			t.Errorf("%s: Request-Id %q", c.line, named.header.Get("Request-Id"))
		}
		rt.idle()
		for _, one := range []string{id, made} {
			if line := fmt.Sprintf("msg=request request=%s ", one); c.logged != strings.Contains(rt.log.String(), line) {
				t.Errorf("%s, answered %d: %q in the access log, want %v", c.line, c.status, line, c.logged)
			}
		}
	}
	if n := w.count(); n != 0 {
		t.Errorf("the worker was asked %d times", n)
	}
	few := start(t, func(c *config.Config) { c.ClientMax = 1 }, w)
	few.held()
	if r := few.refused("POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Request-Id: beyond\r\nContent-Length: 2\r\n\r\n{}"); r.status != 429 || r.header.Get("X-Request-Id") != "beyond" || r.header.Get("Request-Id") != "beyond" {
		t.Errorf("on a connection too many: %d %v", r.status, r.header)
	}
}
