package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// worker is a scriptable engine: a real HTTP server that records each request and does to it what the test says.
type worker struct {
	t          *testing.T
	url        string
	server     *http.Server
	models     []string
	detectable bool // it lists its models

	mu      sync.Mutex
	script  func(*call)
	other   http.HandlerFunc // answers GETs; nil: /v1/models, /health
	seen    []*call
	forgets bool // seen stays empty: for long runs
	tells   bool // the router's own questions about tokens come to the script; else there are no such endpoints
}

// call is one POST (or other non-detection request) as the worker saw it.
type call struct {
	w      http.ResponseWriter
	r      *http.Request
	body   []byte
	worker *worker
	n      int           // 0 for the worker's first
	at     time.Time     // arrival, body included
	gone   chan struct{} // closed when the peer's connection is closed while the call runs, or when the call ends
	ended  chan struct{} // closed when the script returned
	left   bool          // the peer closed before the script ended; valid after ended
}

// newWorker starts an engine that serves models (default "m"); script nil answers every request well.
func newWorker(t *testing.T, script func(*call), models ...string) *worker {
	t.Helper()
	return newWorkerAt(t, "127.0.0.1:0", script, models...)
}

func newWorkerAt(t *testing.T, address string, script func(*call), models ...string) *worker {
	t.Helper()
	w, ended := startWorker(t, address, script, models...)
	t.Cleanup(func() { w.stop(); ended() })
	return w
}

// startWorker leaves it to the caller to stop the worker, and then to wait until it has ended.
func startWorker(t *testing.T, address string, script func(*call), models ...string) (w *worker, ended func()) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if len(models) == 0 {
		models = []string{"m"}
	}
	w = &worker{t: t, url: "http://" + l.Addr().String(), models: models, script: script, detectable: true}
	w.server = &http.Server{Handler: w, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	var done sync.WaitGroup
	done.Go(func() { w.server.Serve(l) })
	return w, done.Wait
}

// stop closes the worker's port and every connection at once.
func (w *worker) stop() { w.server.Close() }

// on changes what the worker does from now on.
func (w *worker) on(script func(*call)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.script = script
}

// onGet changes how the worker answers GETs (models, health, metrics, version).
func (w *worker) onGet(h http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.other = h
}

// calls is what came so far, in order of arrival.
func (w *worker) calls() []*call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*call(nil), w.seen...)
}

func (w *worker) count() int { return len(w.calls()) }

// ServeHTTP answers detection by itself and leaves the rest to the script.
func (w *worker) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	other := w.other
	w.mu.Unlock()
	if r.Method == http.MethodGet && !strings.HasPrefix(r.URL.Path, "/v1/responses") && !strings.HasPrefix(r.URL.Path, "/v1/conversations") {
		if other != nil {
			other(out, r)
			return
		}
		w.detection(out, r)
		return
	}
	if r.UserAgent() == "warmpath" && !w.tells {
		http.NotFound(out, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	c := &call{w: out, r: r, body: body, worker: w, at: time.Now(), gone: make(chan struct{}), ended: make(chan struct{})}
	w.mu.Lock()
	c.n = len(w.seen)
	if !w.forgets {
		w.seen = append(w.seen, c)
	}
	script := w.script
	w.mu.Unlock()
	stop := context.AfterFunc(r.Context(), func() { close(c.gone) })
	defer func() {
		c.left = !stop()
		if !c.left {
			close(c.gone)
		}
		close(c.ended)
	}()
	if script == nil {
		c.good("hello", "world")
		return
	}
	script(c)
}

func (w *worker) detection(out http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/models":
		var data []string
		for _, m := range w.models {
			data = append(data, fmt.Sprintf(`{"id":%q,"object":"model","owned_by":"test"}`, m))
		}
		out.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(out, `{"object":"list","data":[%s]}`, strings.Join(data, ","))
	case "/health":
	default:
		http.NotFound(out, r)
	}
}

// wantsStream says whether the request asks for events.
func (c *call) wantsStream() bool { return bytes.Contains(c.body, []byte(`"stream":true`)) }

// good answers a chat request well, streamed or not, one token a word.
func (c *call) good(words ...string) {
	if !c.wantsStream() {
		c.json(http.StatusOK, fmt.Sprintf(`{"id":"chatcmpl-%d","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":%d,"total_tokens":%d}}`,
			c.n, strings.Join(words, " "), len(words), 10+len(words)))
		return
	}
	c.events()
	for _, word := range words {
		c.send(deltaOf(word))
	}
	c.send("data: [DONE]\n\n")
}

// deltaOf is one chat chunk.
func deltaOf(content string) string {
	text, _ := json.Marshal(content)
	return fmt.Sprintf(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":%s}}]}`, text) + "\n\n"
}

// usageEvent is the event that ends a stream whose usage was asked for.
func usageEvent(prompt, completion, cached int) string {
	return fmt.Sprintf(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}}`,
		prompt, completion, prompt+completion, cached) + "\n\n"
}

func (c *call) json(status int, body string) {
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	io.WriteString(c.w, body)
}

// events sends the head of an event stream at once.
func (c *call) events() {
	c.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	c.w.WriteHeader(http.StatusOK)
	http.NewResponseController(c.w).Flush()
}

// send writes bytes and flushes them.
func (c *call) send(text string) {
	io.WriteString(c.w, text)
	http.NewResponseController(c.w).Flush()
}

// wait passes d, or less when the peer leaves; it says whether the peer is still there.
func (c *call) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.gone:
		return false
	}
}

// stall waits for the peer to leave.
func (c *call) stall() { <-c.gone }

// raw takes the connection over, for bytes that net/http would not write. What it returns must be closed.
func (c *call) raw() *net.TCPConn {
	conn, _, err := http.NewResponseController(c.w).Hijack()
	if err != nil {
		panic(err)
	}
	if secure, ok := conn.(*tls.Conn); ok { // what breaks below it breaks it too
		conn = secure.NetConn()
	}
	return conn.(*net.TCPConn)
}

// reset breaks the connection with a TCP RST. Bytes sent before may be lost with it.
func (c *call) reset() {
	conn := c.raw()
	conn.SetLinger(0)
	conn.Close()
}
