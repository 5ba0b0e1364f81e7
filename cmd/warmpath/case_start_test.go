package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

// freeAddress is one where nobody listens, for a worker that comes later.
func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// asked counts how often a worker was asked for its models.
func asked(w *worker, answer http.HandlerFunc) *atomic.Int32 {
	n := new(atomic.Int32)
	w.onGet(func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			n.Add(1)
		}
		answer(out, r)
	})
	return n
}

// comesUp checks that traffic reaches w soon after it came up, without a restart of the router.
func (rt *testRouter) comesUp(w *worker, times *atomic.Int32) {
	rt.t.Helper()
	eventually(rt.t, "traffic on "+w.url, func() bool {
		rt.post("/v1/chat/completions", chat(fmt.Sprint("is it up ", time.Now().UnixNano()), false))
		return w.count() > 0
	})
	if n := times.Load(); n > 3 { // one more than the two intervals, for a busy machine
		rt.t.Errorf("it took %d rounds until it got traffic, want 2", n)
	}
	if r := rt.get("/readyz"); r.status != http.StatusOK {
		rt.t.Errorf("readiness: %d %s", r.status, r.body)
	}
}

// unready checks that the router lives and refuses clearly while it has nobody.
func (rt *testRouter) unready() {
	rt.t.Helper()
	eventually(rt.t, "readiness to turn red", func() bool { return rt.get("/readyz").status == http.StatusServiceUnavailable })
	if r := rt.get("/healthz"); r.status != http.StatusOK {
		rt.t.Errorf("liveness: %d", r.status)
	}
	for path, want := range map[string]string{"/v1/chat/completions": `"error"`, "/v1/messages": `"type":"error"`} {
		r := rt.post(path, chat("anybody there", path == "/v1/messages"))
		if r.status != http.StatusServiceUnavailable || !strings.Contains(r.body, want) || r.header.Get("Content-Type") != "application/json" || r.header.Get("Retry-After") == "" {
			rt.t.Errorf("%s: %d %s, Retry-After %q", path, r.status, r.body, r.header.Get("Retry-After"))
		}
	}
}

func TestHLT_06_OneOfThreeIsDown(t *testing.T) {
	address := freeAddress(t)
	rt := start(t, func(c *config.Config) {
		c.Workers = append(c.Workers, config.Worker{ID: "late", URL: "http://" + address})
	}, newWorker(t, nil), newWorker(t, nil))
	for _, path := range []string{"/healthz", "/readyz"} {
		if r := rt.get(path); r.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	for i := range 30 {
		if r := rt.post("/v1/chat/completions", chat(fmt.Sprint("two of three ", i), false)); r.status != http.StatusOK {
			t.Errorf("request %d: %d %s", i, r.status, r.body)
		}
	}
	late := newWorkerAt(t, address, nil)
	rt.comesUp(late, asked(late, late.detection))
}

func TestHLT_06_AllAreDown(t *testing.T) {
	addresses := []string{freeAddress(t), freeAddress(t), freeAddress(t)}
	rt := start(t, func(c *config.Config) {
		for i, a := range addresses {
			w := config.Worker{ID: fmt.Sprint("late", i), URL: "http://" + a}
			if i == 2 {
				w.Model = "m" // told by the configuration: known, and down all the same
			}
			c.Workers = append(c.Workers, w)
		}
	})
	rt.unready()
	for _, a := range addresses {
		w := newWorkerAt(t, a, nil)
		rt.comesUp(w, asked(w, w.detection))
	}
}

func TestHLT_06_AWorkerThatTellsNothingComesUp(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"not found": http.NotFound,
		"forbidden": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"broken":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"no models": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"data":[]}`) },
		"silence":   func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			address := freeAddress(t)
			rt := start(t, func(c *config.Config) {
				c.Workers = append(c.Workers, config.Worker{ID: "late", URL: "http://" + address, Model: "m"})
			})
			rt.unready()
			late := newWorkerAt(t, address, nil)
			rt.comesUp(late, asked(late, answer))
		})
	}
}

func TestHLT_06_NoneIsConfigured(t *testing.T) {
	rt := start(t, nil)
	rt.unready()
	address := freeAddress(t)
	if code := rt.adminCall(http.MethodPost, "/workers", fmt.Sprintf(`{"url":"http://%s"}`, address), nil); code != http.StatusCreated {
		t.Fatalf("adding a worker that is down: %d", code)
	}
	rt.unready()
	late := newWorkerAt(t, address, nil)
	rt.comesUp(late, asked(late, late.detection))
	here := newWorker(t, nil)
	times := asked(here, here.detection)
	if code := rt.adminCall(http.MethodPost, "/workers", fmt.Sprintf(`{"url":%q}`, here.url), nil); code != http.StatusCreated {
		t.Fatalf("adding a worker: %d", code)
	}
	rt.comesUp(here, times)
}

func TestReadinessIsNeverGreenBeforeAWorkerWasHeardOrAfterTheLastDied(t *testing.T) {
	for range 10 {
		rt := start(t, func(c *config.Config) {
			c.Workers = []config.Worker{{ID: "a", URL: "http://" + freeAddress(t)}, {ID: "b", URL: "http://" + freeAddress(t), Model: "m"}}
		})
		for range 20 {
			if r := rt.get("/readyz"); r.status != http.StatusServiceUnavailable {
				t.Fatalf("with everybody down: %d", r.status)
			}
		}
	}
	w1, w2 := newWorker(t, nil), newWorker(t, nil)
	rt := start(t, nil, w1, w2)
	if r := rt.get("/readyz"); r.status != http.StatusOK {
		t.Errorf("with both up: %d", r.status)
	}
	w1.stop()
	rt.awaitTelemetryFailures("w1", 2)
	if r := rt.get("/readyz"); r.status != http.StatusOK {
		t.Errorf("with one up: %d", r.status)
	}
	w2.stop()
	eventually(t, "readiness to turn red, though nobody asked anything", func() bool { return rt.get("/readyz").status == http.StatusServiceUnavailable })
	newWorkerAt(t, strings.TrimPrefix(w2.url, "http://"), nil)
	eventually(t, "readiness to turn green", func() bool { return rt.get("/readyz").status == http.StatusOK })
}

func (rt *testRouter) awaitTelemetryFailures(id string, n float64) {
	rt.t.Helper()
	eventually(rt.t, "telemetry to fail", func() bool {
		return rt.metric("warmpath_telemetry_failures_total", fmt.Sprintf("worker=%q", id)) >= n
	})
}
