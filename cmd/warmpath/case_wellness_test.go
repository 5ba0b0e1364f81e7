package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// flowing is a vLLM whose streams give a token now and then while they flow, and whose health endpoint answers as it is told.
type flowing struct {
	*worker
	still, over, unwell atomic.Bool
	hangs               atomic.Bool // all of its GETs
}

func newFlowing(t *testing.T) *flowing {
	f := &flowing{}
	f.worker = newWorker(t, func(c *call) {
		if !strings.Contains(string(c.body), "flow") {
			c.good("x")
			return
		}
		c.events()
		for c.wait(10*time.Millisecond) && !f.over.Load() {
			if !f.still.Load() {
				c.send(deltaOf("x"))
			}
		}
		c.send("data: [DONE]\n\n")
	})
	rest := asVLLM("m")
	f.onGet(func(out http.ResponseWriter, r *http.Request) {
		switch {
		case f.hangs.Load():
			<-r.Context().Done()
		case r.URL.Path == "/health" && f.unwell.Load():
			out.WriteHeader(http.StatusServiceUnavailable) // its engine core died, says vLLM
		default:
			rest(out, r)
		}
	})
	return f
}

// streaming is a router before two such workers, with streams under way on both or on the first alone, until end.
func streaming(t *testing.T) (rt *testRouter, f *flowing, end func()) {
	t.Helper()
	f, other := newFlowing(t), newFlowing(t)
	rt = start(t, nil, f.worker, other.worker)
	rt.awaitTelemetry("w1", "fresh")
	var streams sync.WaitGroup
	rt.flows(f, &streams)
	return rt, f, func() {
		f.over.Store(true)
		other.over.Store(true)
		streams.Wait()
	}
}

// flows has a stream under way on the worker, until the test ends.
func (rt *testRouter) flows(f *flowing, all *sync.WaitGroup) {
	rt.t.Helper()
	for i := 0; rt.worker("w1").InFlight == 0; i++ {
		before := rt.worker("w1").InFlight + rt.worker("w2").InFlight
		all.Go(func() {
			if r := rt.post("/v1/chat/completions", chat(fmt.Sprint("flow ", i), true)); r.status != http.StatusOK || !strings.Contains(r.body, "[DONE]") {
				rt.t.Errorf("a stream: %d %v", r.status, r.err)
			}
		})
		eventually(rt.t, "a stream to begin", func() bool { return rt.worker("w1").InFlight+rt.worker("w2").InFlight > before })
	}
}

func TestHLT_05_AWorkerWithoutTelemetryLivesWhileItsStreamsMoveAndIsPutOutWhenTheyStop(t *testing.T) {
	t.Parallel()
	rt, f, end := streaming(t)
	defer end()
	f.hangs.Store(true)
	rt.awaitTelemetry("w1", "stale")
	rt.awaitTelemetryFailures("w1", rt.metric("warmpath_telemetry_failures_total", `worker="w1"`)+4)
	if s := rt.worker("w1"); s.State != "ready" {
		t.Errorf("its streams move, and it is %s: %+v", s.State, s.Out)
	}
	f.still.Store(true)
	eventually(t, "it to be put out when its streams stop", func() bool { return rt.worker("w1").State == "ejected" })
	if out := rt.worker("w1").Out; out == nil || out.Cause != "silent" || !strings.Contains(out.Why, "nothing came from it for ") {
		t.Errorf("it is out: %+v", out)
	}
	f.still.Store(false)
	eventually(t, "it to be back when they move again", func() bool { return rt.worker("w1").State == "ready" })
}

func TestAnEngineThatCallsItselfUnwellIsPutOutWhenItsStreamsStandStill(t *testing.T) {
	t.Parallel()
	rt, f, end := streaming(t)
	defer end()
	f.unwell.Store(true)
	for range 4 { // it is asked every second at the least, and every tenth of one while it says no
		<-time.After(300 * time.Millisecond)
		if s := rt.worker("w1"); s.State != "ready" {
			t.Fatalf("its streams move, and it is %s: %+v", s.State, s.Out)
		}
	}
	f.still.Store(true)
	eventually(t, "it to be put out", func() bool { return rt.worker("w1").State == "ejected" })
	if out := rt.worker("w1").Out; out == nil || out.Cause != "unwell" || !strings.Contains(out.Why, "GET /health: status 503") {
		t.Errorf("it is out: %+v", out)
	}
	seen := f.count()
	for i := range 10 {
		if r := rt.post("/v1/chat/completions", short(i)); r.status != http.StatusOK {
			t.Errorf("beside it: %d %s", r.status, r.body)
		}
	}
	if n := f.count() - seen; n > 0 {
		t.Errorf("it got %d requests", n)
	}
	f.unwell.Store(false)
	eventually(t, "it to be back", func() bool { return rt.worker("w1").State == "ready" })
	if s := rt.worker("w1"); s.SlowStart == nil {
		t.Error("it came back without a slow start")
	}
}

func TestAWorkerThatLoadsItsModelGetsNoRequestsAndNoFaults(t *testing.T) {
	t.Parallel()
	var loaded atomic.Bool
	w1 := newWorker(t, func(c *call) { // as llama.cpp has it
		if !loaded.Load() {
			c.json(http.StatusServiceUnavailable, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`)
			return
		}
		c.good("x")
	})
	w1.detectable = false
	w1.onGet(func(out http.ResponseWriter, r *http.Request) {
		if !loaded.Load() {
			out.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		asVLLM("m")(out, r)
	})
	rt := start(t, nil, w1)
	eventually(t, "it to be seen loading", func() bool { return rt.worker("w1").State == "loading" })
	if r := rt.get("/readyz"); r.status != http.StatusServiceUnavailable {
		t.Errorf("only one that loads is there, and the router is ready: %d", r.status)
	}
	if rt.metric("warmpath_worker_state", `worker="w1"`, `state="loading"`) != 1 {
		t.Error("the metrics do not tell that it loads")
	}
	w2 := newWorker(t, nil)
	rt.adminCall(http.MethodPost, "/workers", fmt.Sprintf(`{"id":"w2","url":%q}`, w2.url), nil)
	rt.awaitModels(w2)
	for i := range 10 {
		if r := rt.post("/v1/chat/completions", short(i)); r.status != http.StatusOK {
			t.Errorf("beside it: %d %s", r.status, r.body)
		}
	}
	if n := w1.count(); n > 0 {
		t.Errorf("it got %d requests while it loads", n)
	}
	loaded.Store(true)
	eventually(t, "it to be ready", func() bool { return rt.worker("w1").State == "ready" })
	if s := rt.worker("w1"); s.LastFault != nil || rt.metric("warmpath_ejections_total") > 0 {
		t.Errorf("last fault %+v", s.LastFault)
	}
}
