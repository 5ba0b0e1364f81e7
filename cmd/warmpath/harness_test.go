package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

// testRouter is the product itself, started in this process on free ports, as serve starts it.
type testRouter struct {
	*router
	t    *testing.T
	log  *lockedBuffer
	http *http.Client
}

// start runs a router before workers. change may alter the configuration first.
func start(t *testing.T, change func(*config.Config), workers ...*worker) *testRouter {
	t.Helper()
	c := config.Default()
	c.Listen, c.Admin, c.StateDir = "127.0.0.1:0", "127.0.0.1:0", t.TempDir()
	c.Telemetry.Interval, c.Telemetry.Timeout, c.Telemetry.StaleAfter = 100*time.Millisecond, 300*time.Millisecond, 500*time.Millisecond
	c.LogLevel = "debug"
	for i, w := range workers {
		c.Workers = append(c.Workers, config.Worker{ID: fmt.Sprintf("w%d", i+1), URL: w.url})
	}
	if change != nil {
		change(&c)
	}
	log := &lockedBuffer{}
	r, err := startRouter(c, newLogger(log, c))
	if err != nil {
		t.Fatal(err)
	}
	rt := &testRouter{router: r, t: t, log: log, http: newClient(t)}
	t.Cleanup(func() {
		rt.http.CloseIdleConnections()
		r.Close()
		if t.Failed() {
			t.Logf("router log:\n%s", log.String())
		}
	})
	for _, w := range workers {
		if w.detectable {
			rt.awaitModels(w)
		}
	}
	return rt
}

// awaitModels returns when the router knows what a worker serves.
func (rt *testRouter) awaitModels(w *worker) {
	rt.t.Helper()
	eventually(rt.t, "the router to learn the models of "+w.url, func() bool {
		for _, s := range rt.state().Workers {
			if s.URL == w.url {
				return len(s.Models) > 0
			}
		}
		return false
	})
}

// newClient is an HTTP client of its own, closed at the end of the test.
func newClient(t *testing.T) *http.Client {
	tr := &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// reply is a response read to its end.
type reply struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

// post sends one request through the router and reads the whole answer.
func (rt *testRouter) post(path, body string, headers ...string) reply {
	rt.t.Helper()
	return rt.do(context.Background(), http.MethodPost, path, body, headers...)
}

func (rt *testRouter) get(path string, headers ...string) reply {
	rt.t.Helper()
	return rt.do(context.Background(), http.MethodGet, path, "", headers...)
}

// do sends any request; headers are name, value, name, value. A failure to get an answer at all is in err with status 0.
func (rt *testRouter) do(ctx context.Context, method, path, body string, headers ...string) reply {
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, rt.DataURL()+path, in)
	if err != nil {
		return reply{err: err}
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return read(rt.http.Do(req))
}

func read(resp *http.Response, err error) reply {
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: string(body), err: err}
}

// open sends a request and returns its response as soon as the head is there. The caller closes the body.
func (rt *testRouter) open(ctx context.Context, path, body string, headers ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, rt.DataURL()+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return rt.http.Do(req)
}

// admin calls the admin port and decodes a JSON answer into out, if out is not nil.
func (rt *testRouter) adminCall(method, path, body string, out any) int {
	rt.t.Helper()
	req, err := http.NewRequest(method, rt.AdminURL()+path, strings.NewReader(body))
	if err != nil {
		rt.t.Fatal(err)
	}
	r := read(rt.http.Do(req))
	if r.err != nil {
		rt.t.Fatal(r.err)
	}
	if out != nil {
		if err := json.Unmarshal([]byte(r.body), out); err != nil {
			rt.t.Fatalf("%s %s: %v in %q", method, path, err, r.body)
		}
	}
	return r.status
}

// metric is the sum of all samples of a family whose labels contain every given text, such as `worker="w1"`.
func (rt *testRouter) metric(name string, labels ...string) float64 {
	rt.t.Helper()
	r := read(rt.http.Get(rt.AdminURL() + "/metrics"))
	if r.err != nil || r.status != http.StatusOK {
		rt.t.Fatalf("metrics: %d %v", r.status, r.err)
	}
	return sumMetric(r.body, name, labels...)
}

func sumMetric(page, name string, labels ...string) (sum float64) {
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `(\{[^\n]*\})? (\S+)$`)
	for _, m := range line.FindAllStringSubmatch(page, -1) {
		match := true
		for _, l := range labels {
			match = match && strings.Contains(m[1], l)
		}
		if match {
			v, _ := strconv.ParseFloat(m[2], 64)
			sum += v
		}
	}
	return sum
}

// idle waits until the router has nothing in flight anywhere.
func (rt *testRouter) idle() {
	rt.t.Helper()
	eventually(rt.t, "the router to be idle", func() bool {
		s := rt.state()
		busy := s.Running
		for _, w := range s.Workers {
			busy += w.InFlight + w.InFlightTokens
		}
		return busy == 0
	})
}

// patience is how long eventually waits. Where tests are meant to fail, as before mutants, WARMPATH_TEST_PATIENCE makes it shorter.
func patience() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("WARMPATH_TEST_PATIENCE")); err == nil {
		return d
	}
	return time.Minute
}

// eventually polls a condition until it holds; after a minute the test fails. It is for what happens soon, never for timing.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	limit := time.NewTimer(patience())
	defer limit.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("waited %v for %s", patience(), what)
		}
	}
}

// events reads server-sent events of a response as they come: each is the text up to and including its blank line.
func eventsOf(resp *http.Response) func() (string, error) {
	in := bufio.NewReader(resp.Body)
	return func() (string, error) {
		var event strings.Builder
		for {
			line, err := in.ReadString('\n')
			event.WriteString(line)
			if err != nil {
				return event.String(), err
			}
			if strings.TrimRight(line, "\r\n") == "" {
				return event.String(), nil
			}
		}
	}
}

// chat is a chat body; unique makes its prompt like no other's.
func chat(unique string, stream bool) string {
	return fmt.Sprintf(`{"model":"m","stream":%t,"messages":[{"role":"user","content":%q}]}`, stream, unique)
}

// lockedBuffer collects a log that several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
