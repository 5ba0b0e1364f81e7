package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestAWorkerThatComesAndGoesAllAtOnceLeavesNothingBehind(t *testing.T) {
	var asked atomic.Int64
	stays, flickers := newWorker(t, nil), newWorker(t, nil)
	flickers.onGet(func(out http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		flickers.detection(out, r)
	})
	rt := start(t, nil, stays)
	var all sync.WaitGroup
	for i := range 300 { // each is removed in the moment in which it is added
		body := fmt.Sprintf(`{"url":"%s/%d","id":"flicker-%d"}`, flickers.url, i, i)
		all.Go(func() { rt.adminCall(http.MethodPost, "/workers", body, nil) })
		all.Go(func() {
			for rt.adminCall(http.MethodDelete, fmt.Sprintf("/workers/flicker-%d", i), "", nil) != http.StatusOK {
				runtime.Gosched()
			}
		})
		if i%20 == 0 {
			rt.post("/v1/chat/completions", chat("x", true))
		}
		all.Wait()
	}
	rt.idle()
	// Telemetry that was left behind would ask on, ten times a second.
	eventually(t, "the removed workers not to be asked for half a second", func() bool {
		before := asked.Load()
		quiet := time.NewTimer(500 * time.Millisecond)
		defer quiet.Stop()
		<-quiet.C
		return asked.Load() == before
	})
	if page := read(rt.http.Get(rt.AdminURL() + "/metrics")).body; strings.Contains(page, `worker="flicker`) {
		t.Error("the metrics still speak of removed workers")
	}
}

func TestSHD02AWorkerRemovedAsItsFirstEventComesBreaksNoStream(t *testing.T) {
	script := func(c *call) {
		c.events()
		c.send(deltaOf("a"))
		c.send(deltaOf("b"))
		c.send("data: [DONE]\n\n")
	}
	stays, goes := newWorker(t, script), newWorker(t, nil)
	rt := start(t, nil, stays)
	body := fmt.Sprintf(`{"url":%q,"id":"goes","model":"m"}`, goes.url)
	goes.on(func(c *call) {
		c.events()
		removed := make(chan struct{})
		go func() {
			defer close(removed)
			req, _ := http.NewRequestWithContext(context.Background(), http.MethodDelete, rt.AdminURL()+"/workers/goes", nil)
			read(rt.http.Do(req))
		}()
		c.send(deltaOf("a"))
		<-removed
		c.send(deltaOf("b"))
		c.send("data: [DONE]\n\n")
	})
	for i := range 200 {
		rt.adminCall(http.MethodPost, "/workers", body, nil)
		for n := goes.count(); goes.count() == n; {
			r := rt.post("/v1/chat/completions", chat(fmt.Sprint(i, rand.Uint64()), true))
			if r.err != nil || strings.Contains(r.body, "error") || !strings.Contains(r.body, "[DONE]") {
				t.Fatalf("round %d: %v in %q", i, r.err, r.body)
			}
		}
	}
	rt.idle()
}

func TestNoWebPageChangesTheFleet(t *testing.T) {
	rt := start(t, nil, newWorker(t, nil))
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPost, "/workers", `{"url":"http://127.0.0.1:1"}`}, {http.MethodPost, "/policy", `{"policy":"random"}`},
		{http.MethodPost, "/workers/w1/drain", ""}, {http.MethodDelete, "/workers/w1", ""},
	} {
		for _, from := range [][2]string{{"Origin", "http://evil.example"}, {"Sec-Fetch-Site", "cross-site"}} {
			req, _ := http.NewRequest(c.method, rt.AdminURL()+c.path, strings.NewReader(c.body))
			req.Header.Set(from[0], from[1])
			req.Header.Set("Content-Type", "text/plain")
			if r := read(rt.http.Do(req)); r.status != http.StatusForbidden {
				t.Errorf("%s %s from %s: %d %s", c.method, c.path, from[1], r.status, r.body)
			}
		}
	}
	if s := rt.state(); len(s.Workers) != 1 || s.Workers[0].State != "ready" {
		t.Errorf("the fleet is %+v", s.Workers)
	}
}

func TestTheAdminPortSaysWhatIsWrongWithABody(t *testing.T) {
	rt := start(t, nil, newWorker(t, nil))
	for body, want := range map[string]string{
		"":                                       "it is empty",
		"[]":                                     "must be a JSON object, not array",
		`"x"`:                                    "must be a JSON object, not string",
		`{"url":5}`:                              `"url" cannot be number`,
		`{"url":"http://127.0.0.1:1"} {}`:        "something follows the JSON object",
		`{"url":"http://127.0.0.1:1"} x`:         "something follows the JSON object",
		`{"url":"http://127.0.0.1:1","id":".."}`: "one letter or digit among them",
		`{"url":"http://127.0.0.1:1","id":"a/b"}`:  "letters, digits",
		`{"url":"http://127.0.0.1:1","id":"a\nb"}`: "letters, digits",
		`{"uri":"http://127.0.0.1:1"}`:             `unknown field \"uri\"`,
	} {
		req, _ := http.NewRequest(http.MethodPost, rt.AdminURL()+"/workers", strings.NewReader(body))
		if r := read(rt.http.Do(req)); r.status != http.StatusBadRequest || !strings.Contains(strings.ReplaceAll(r.body, `\"`, `"`), strings.ReplaceAll(want, `\"`, `"`)) {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
	if n := len(rt.state().Workers); n != 1 {
		t.Errorf("there are %d workers", n)
	}
}

func TestAbsurdSizesThatAnEngineClaimsCountAsUnknown(t *testing.T) {
	w := newWorker(t, nil)
	w.onGet(func(out http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			fmt.Fprint(out, `{"data":[{"id":"m","owned_by":"vllm","max_model_len":9223372036854775807}]}`)
		case "/metrics":
			fmt.Fprint(out, "vllm:num_requests_running 1\nvllm:cache_config_info{block_size=\"1099511627775\",num_gpu_blocks=\"1099511627775\"} 1\n")
		default:
			http.NotFound(out, r)
		}
	})
	rt := start(t, nil, w)
	eventually(t, "the counts to come", func() bool { return rt.state().Workers[0].Telemetry == "fresh" })
	if r := rt.post("/v1/chat/completions", chat("x", false)); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	if s := rt.state().Workers[0]; s.ContextMax != 0 || s.KVTokensMax != 0 || s.AssumedBytesMax <= 0 {
		t.Errorf("context %d, KV tokens %d, assumed cache %d", s.ContextMax, s.KVTokensMax, s.AssumedBytesMax)
	}
}

func TestAKnownAdminPathNamesTheMethodsItTakes(t *testing.T) {
	rt := start(t, nil, newWorker(t, nil))
	for _, c := range []struct{ method, path, allow string }{
		{http.MethodPut, "/policy", "GET, HEAD, POST"}, {http.MethodDelete, "/policy", "GET, HEAD, POST"}, {http.MethodPatch, "/workers", "GET, HEAD, POST"},
		{http.MethodPost, "/state", "GET, HEAD"}, {http.MethodPut, "/metrics", "GET, HEAD"}, {http.MethodPost, "/healthz", "GET, HEAD"},
		{http.MethodPut, "/workers/w1", "GET, HEAD, DELETE"}, {http.MethodPost, "/workers/w1", "GET, HEAD, DELETE"}, {http.MethodGet, "/workers/w1/drain", "POST"}, {http.MethodPut, "/", "GET, HEAD"},
	} {
		req, _ := http.NewRequest(c.method, rt.AdminURL()+c.path, nil)
		r := read(rt.http.Do(req))
		if want := fmt.Sprintf("%s does not take %s, it takes %s", c.path, c.method, c.allow); r.status != http.StatusMethodNotAllowed || r.header.Get("Allow") != c.allow || !strings.Contains(r.body, want) {
			t.Errorf("%s %s: %d, Allow %q, %s", c.method, c.path, r.status, r.header.Get("Allow"), r.body)
		}
	}
	for _, path := range []string{"/polcy", "/workers/w1/resume", "/debug/pprof/"} {
		if status := rt.adminCall(http.MethodPut, path, "", nil); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
}
