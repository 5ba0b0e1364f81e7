package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

func TestHDR_01_AWorkerSeesItsOwnHost(t *testing.T) {
	w := newWorker(t, nil)
	own := strings.TrimPrefix(w.url, "http://")
	w.on(func(c *call) {
		if c.r.Host != own {
			c.json(http.StatusMisdirectedRequest, `{"error":"who?"}`)
			return
		}
		c.good("hi")
	})
	rt := start(t, nil, w)
	req, err := http.NewRequest(http.MethodPost, rt.DataURL()+"/v1/chat/completions", strings.NewReader(chat("host", false)))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "router.example"
	if r := read(rt.http.Do(req)); r.status != http.StatusOK {
		t.Errorf("got %d %s", r.status, r.body)
	}
	for name, values := range w.calls()[0].r.Header {
		if strings.Contains(strings.Join(values, " "), "router.example") && name != "X-Forwarded-Host" && name != "Forwarded" {
			t.Errorf("the client's host went on as %s", name)
		}
	}
}

// rawWorker answers on bare TCP and hands each request's bytes over, to see framing as it is.
func rawWorker(t *testing.T) (url string, requests chan *rawRequest) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	requests = make(chan *rawRequest, 64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serveRaw(conn, requests)
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return "http://" + l.Addr().String(), requests
}

type rawRequest struct {
	head string
	body []byte
}

func serveRaw(conn net.Conn, requests chan<- *rawRequest) {
	defer conn.Close()
	var raw bytes.Buffer
	in := bufio.NewReader(io.TeeReader(conn, &raw))
	req, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	body, _ := io.ReadAll(req.Body)
	head, _, _ := strings.Cut(raw.String(), "\r\n\r\n")
	if req.Method == http.MethodPost {
		requests <- &rawRequest{head, body}
	}
	answer := `{"object":"list","data":[{"id":"m"}]}`
	fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
}

func TestHDR_02_ARequestGoesOnWithOneLengthThatIsRight(t *testing.T) {
	url, requests := rawWorker(t)
	rt := start(t, func(c *config.Config) { c.Workers = []config.Worker{{ID: "raw", URL: url, Model: "m"}} })
	pretty := "{\n" + strings.Repeat(" ", 5000) + `"model" : "m", "stream" : false,` + "\n\t" + `"messages" : [ { "role":"user" , "content":"sp ace" } ]` + strings.Repeat("\n", 100) + "}"
	for _, chunked := range []bool{false, true} {
		var in io.Reader = strings.NewReader(pretty)
		if chunked {
			in = struct{ io.Reader }{in} // hides the length
		}
		resp, err := rt.http.Post(rt.DataURL()+"/v1/chat/completions", "application/json", in)
		if r := read(resp, err); r.status != http.StatusOK {
			t.Fatalf("chunked %v: %d %s %v", chunked, r.status, r.body, r.err)
		}
		got := <-requests
		if string(got.body) != pretty {
			t.Errorf("chunked %v: the body changed on its way", chunked)
		}
		head := strings.ToLower(got.head)
		if n := strings.Count(head, "content-length:") + strings.Count(head, "transfer-encoding:"); n != 1 {
			t.Errorf("chunked %v: %d framing headers:\n%s", chunked, n, got.head)
		}
		if !strings.Contains(head, fmt.Sprintf("content-length: %d", len(pretty))) {
			t.Errorf("chunked %v: no length of %d in\n%s", chunked, len(pretty), got.head)
		}
	}
}

func TestHDR_02_ASplicedBodyHasItsNewLength(t *testing.T) {
	w := newWorker(t, nil)
	w.onGet(asVLLM("m"))
	rt := start(t, nil, w)
	eventually(t, "the worker to be known as vLLM", func() bool { return rt.state().Workers[0].Engine == "vllm" })
	if r := rt.post("/v1/chat/completions", chat("splice", true)); r.status != http.StatusOK {
		t.Fatalf("got %d %s", r.status, r.body)
	}
	c := w.calls()[0]
	if int64(len(c.body)) != c.r.ContentLength || !bytes.Contains(c.body, []byte("include_usage")) {
		t.Errorf("length %d for %d bytes: %s", c.r.ContentLength, len(c.body), c.body)
	}
}

func TestHDR_03_CredentialsPassAndARefusedKeyIsTheClientsAffair(t *testing.T) {
	w := newWorker(t, nil)
	w.on(func(c *call) {
		if c.r.Header.Get("Authorization") != "Bearer right" {
			c.json(http.StatusUnauthorized, `{"error":{"message":"bad key"}}`)
			return
		}
		c.good("hi")
	})
	rt := start(t, nil, w)
	trace := "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	r := rt.post("/v1/chat/completions", chat("key", false), "Authorization", "Bearer right", "X-Request-Id", "req-1", "Traceparent", trace, "X-Custom", "1")
	if r.status != http.StatusOK || r.header.Get("X-Request-Id") != "req-1" {
		t.Fatalf("got %d, request id %q", r.status, r.header.Get("X-Request-Id"))
	}
	seen := w.calls()[0].r.Header
	for name, want := range map[string]string{"X-Request-Id": "req-1", "Traceparent": trace, "X-Custom": "1", "Content-Type": "application/json"} {
		if got := seen[name]; len(got) != 1 || got[0] != want {
			t.Errorf("the worker saw %s: %q, want %q once", name, got, want)
		}
	}
	for range 20 {
		if r := rt.post("/v1/chat/completions", chat("key", false), "Authorization", "Bearer wrong"); r.status != http.StatusUnauthorized || r.body != `{"error":{"message":"bad key"}}` {
			t.Fatalf("got %d %s", r.status, r.body)
		}
	}
	if s := rt.state().Workers[0].State; s != "ready" {
		t.Errorf("the worker is %s after refusing a client's key", s)
	}
}

func TestAWorkersOwnKeyReplacesTheClients(t *testing.T) {
	w := newWorker(t, nil)
	rt := start(t, func(c *config.Config) { c.Workers[0].Key = "workers-own-key" }, w)
	rt.post("/v1/chat/completions", chat("own key", false), "Authorization", "Bearer clients", "X-Api-Key", "clients")
	h := w.calls()[0].r.Header
	if h.Get("Authorization") != "Bearer workers-own-key" || h.Get("X-Api-Key") != "" {
		t.Errorf("the worker saw Authorization %q and X-Api-Key %q", h.Get("Authorization"), h.Get("X-Api-Key"))
	}
	state := read(rt.http.Get(rt.AdminURL() + "/state"))
	if strings.Contains(state.body+rt.log.String(), "workers-own-key") {
		t.Error("the worker's key is in the state or the log")
	}
}

func TestHeadersThatSteerFromTheInsideStopAtTheRouter(t *testing.T) {
	w := newWorker(t, nil)
	rt := start(t, nil, w)
	rt.post("/v1/chat/completions", chat("steer", false), "X-Warmpath-Worker", "w9", "X-Warmpath-Decision", "{}", "X-Data-Parallel-Rank", "3",
		"X-Prefiller-Host-Port", "10.0.0.1:1", "X-Gateway-Destination-Endpoint", "10.0.0.1:1", "Connection", "X-Secret", "X-Secret", "1")
	for name := range w.calls()[0].r.Header {
		if strings.HasPrefix(name, "X-Warmpath") || name == "X-Data-Parallel-Rank" || name == "X-Prefiller-Host-Port" || name == "X-Gateway-Destination-Endpoint" || name == "X-Secret" {
			t.Errorf("the worker saw the client's %s", name)
		}
	}
}

func TestOBS_03_ARequestIsGivenAnIdAndATraceWhereItHasNoneOrABrokenOne(t *testing.T) {
	w := newWorker(t, nil)
	rt := start(t, nil, w)
	for _, trace := range []string{"", "garbage", "00-00000000000000000000000000000000-00f067aa0ba902b7-01"} {
		headers := []string{}
		if trace != "" {
			headers = []string{"Traceparent", trace}
		}
		r := rt.post("/v1/chat/completions", chat("trace", false), headers...)
		h := w.calls()[w.count()-1].r.Header
		if len(h.Get("Traceparent")) != 55 || h.Get("Traceparent") == trace {
			t.Errorf("traceparent %q became %q", trace, h.Get("Traceparent"))
		}
		if id := h.Get("X-Request-Id"); id == "" || r.header.Get("X-Request-Id") != id {
			t.Errorf("the worker saw request id %q, the client %q", id, r.header.Get("X-Request-Id"))
		}
	}
}
