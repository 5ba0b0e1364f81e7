package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

func TestAPI_01_EveryRequestOnAKeptConnectionIsAnsweredWithItsOwnAnswer(t *testing.T) {
	w := newWorker(t, func(c *call) {
		var in struct {
			User string `json:"user"`
		}
		json.Unmarshal(c.body, &in)
		if c.wantsStream() {
			c.events()
			c.send(deltaOf(in.User))
			c.send("data: [DONE]\n\n")
			return
		}
		c.json(http.StatusOK, fmt.Sprintf(`{"id":%q}`, in.User))
	})
	rt := start(t, nil, w)
	var all sync.WaitGroup
	for client := range 4 {
		all.Go(func() {
			tr := &http.Transport{MaxConnsPerHost: 1, ExpectContinueTimeout: 5 * time.Second}
			defer tr.CloseIdleConnections()
			for i := range 8 {
				id := fmt.Sprintf("c%d-%d", client, i)
				text := fmt.Sprintf(`{"model":"m","user":%q,"stream":%t,"messages":[{"role":"user","content":%q}]}`, id, i%2 == 1, id)
				var body io.Reader = strings.NewReader(text)
				if i%4 >= 2 {
					body = struct{ io.Reader }{body} // chunked
				}
				req, _ := http.NewRequest(http.MethodPost, rt.DataURL()+"/v1/chat/completions", body)
				if i%3 == 0 {
					req.Header.Set("Expect", "100-continue")
				}
				r := read((&http.Client{Transport: tr}).Do(req))
				if r.status != http.StatusOK || !strings.Contains(r.body, `"`+id+`"`) {
					t.Errorf("%s: %d %q %v", id, r.status, r.body, r.err)
				}
			}
		})
	}
	all.Wait()
}

func TestAPI_02_TheModelListIsWholeWhateverSomeWorkersDo(t *testing.T) {
	w1, w2 := newWorker(t, nil, "a", "b"), newWorker(t, nil, "b", "org/c")
	w4 := newWorker(t, nil)
	w4.detectable = false
	w4.onGet(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" {
			http.NotFound(w, r)
			return
		}
		io.WriteString(w, `{"object":"list","extra":1,"data":[{"id":"d","zz":{"y":1},"object":"model","created":"not a number"}]}`)
	})
	w5 := newWorker(t, nil)
	w5.detectable = false
	w5.onGet(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>hello</html>") })
	rt := start(t, func(c *config.Config) {
		c.Workers = append(c.Workers, config.Worker{ID: "down", URL: "http://127.0.0.1:1"})
	}, w1, w2, w4, w5)
	eventually(t, "all models to be listed", func() bool { return strings.Contains(rt.get("/v1/models").body, `"d"`) })
	for _, auth := range []string{"", "Bearer ", "Bearer junk"} {
		var headers []string
		if auth != "" {
			headers = []string{"Authorization", auth}
		}
		var list struct {
			Object string
			Data   []struct{ ID, Object string }
		}
		r := rt.get("/v1/models", headers...)
		if err := json.Unmarshal([]byte(r.body), &list); err != nil || r.status != http.StatusOK {
			t.Fatalf("%q: %d %s", auth, r.status, r.body)
		}
		var ids []string
		for _, m := range list.Data {
			if m.Object != "model" {
				t.Errorf("model %s has object %q", m.ID, m.Object)
			}
			ids = append(ids, m.ID)
		}
		if got := strings.Join(ids, " "); list.Object != "list" || got != "a b d org/c" {
			t.Errorf("%q: %s of %s", auth, list.Object, got)
		}
	}
	if r := rt.get("/v1/models/org/c"); r.status != http.StatusOK || !strings.Contains(r.body, `"id":"org/c"`) {
		t.Errorf("one model with a slash: %d %s", r.status, r.body)
	}
	if r := rt.get("/v1/models/nobody"); r.status != http.StatusNotFound || !strings.Contains(r.body, "model_not_found") {
		t.Errorf("an unknown model: %d %s", r.status, r.body)
	}
}

func TestAPI_03_ARequestWithoutAModelNeverGoesToAnArbitraryOne(t *testing.T) {
	a, b := newWorker(t, nil, "a"), newWorker(t, nil, "b")
	rt := start(t, nil, a, b)
	for _, path := range append([]string{"/v1/rerank"}, postPaths...) {
		for model, want := range map[string]int{``: 400, `"model":"",`: 400, `"model":null,`: 400, `"model":"zz",`: 404, `"model":"A",`: 404} {
			r := rt.post(path, `{`+model+`"messages":[{"role":"user","content":"x"}],"prompt":"x","input":"x"}`)
			if r.status != want || !json.Valid([]byte(r.body)) || !strings.Contains(r.body, "a, b") {
				t.Errorf("%s %s: %d %s, want %d that lists the models", path, model, r.status, r.body, want)
			}
		}
	}
	if a.count()+b.count() > 0 {
		t.Errorf("%d requests reached a worker", a.count()+b.count())
	}
	r := rt.post("/v1/chat/completions", `{"model":"zz","messages":[]}`)
	if !strings.Contains(r.body, `"code":"model_not_found"`) || !strings.Contains(r.body, `"param":"model"`) {
		t.Errorf("not as OpenAI clients expect it: %s", r.body)
	}
}

func TestABodyWithoutAModelGoesToTheOnlyModelThereIs(t *testing.T) {
	w1, w2 := newWorker(t, nil), newWorker(t, nil)
	rt := start(t, nil, w1, w2)
	for _, path := range append([]string{"/v1/rerank"}, postPaths...) {
		if r := rt.post(path, `{"messages":[{"role":"user","content":"x"}],"prompt":"x","input":"x"}`); r.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}

func TestAPI_04_AWorkersErrorStatusIsNeverTurnedIntoSuccess(t *testing.T) {
	for _, run := range []struct {
		name, contentType, body string
		status                  int
		want                    string
	}{
		{"429 JSON", "application/json", `{"error":{"message":"slow down"}}`, 429, "busy"},
		{"429 HTML", "text/html", "<h1>slow down</h1>", 429, "busy"},
		{"503 empty", "", "", 503, "busy"},
		{"500 plain", "text/plain", "boom", 500, "failed"},
		{"200 with an error", "application/json", `{"error":{"message":"exhausted"}}`, 200, "failed"},
	} {
		t.Run(run.name, func(t *testing.T) {
			w := newWorker(t, func(c *call) {
				c.w.Header().Set("Content-Type", run.contentType)
				c.w.Header().Set("Retry-After", "7")
				c.w.WriteHeader(run.status)
				io.WriteString(c.w, run.body)
			})
			rt := start(t, nil, w)
			r := rt.post("/v1/chat/completions", chat("status", false))
			if r.status != run.status || r.body != run.body || r.header.Get("Retry-After") != "7" {
				t.Errorf("got %d %q, Retry-After %q", r.status, r.body, r.header.Get("Retry-After"))
			}
			if got := rt.metric("warmpath_requests_total", `outcome="`+run.want+`"`); got != 1 {
				t.Errorf("%v requests counted as %s, want 1", got, run.want)
			}
		})
	}
}

func TestAPI_05_ErrorsSpeakTheClientsDialect(t *testing.T) {
	w := newWorker(t, func(c *call) {
		conn := c.raw()
		io.WriteString(conn, chunkedHead)
		writeChunk(conn, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m1\"}}\n\n")
		writeChunk(conn, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n")
		conn.Close()
	})
	rt := start(t, func(c *config.Config) { c.Timeouts.Header = 200 * time.Millisecond }, w)
	r := rt.post("/v1/messages", chat("broken", true))
	event, data, _ := strings.Cut(lastEvent(r.body), "\n")
	var e struct {
		Type  string
		Error struct{ Type, Message string }
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(strings.TrimSpace(data), "data: ")), &e); event != "event: error" || err != nil || e.Type != "error" || e.Error.Type == "" || e.Error.Message == "" {
		t.Errorf("in the stream: %q", lastEvent(r.body))
	}
	if r := rt.post("/v1/chat/completions", chat("broken", true)); !strings.HasPrefix(lastEvent(r.body), `data: {"error":{`) {
		t.Errorf("in an OpenAI stream: %q", lastEvent(r.body))
	}
	w.on(func(c *call) { c.stall() })
	for _, body := range []string{chat("timeout", true), `{"model":"zz","messages":[],"max_tokens":1}`, `{`} {
		r := rt.post("/v1/messages", body)
		if err := json.Unmarshal([]byte(r.body), &e); err != nil || e.Type != "error" || e.Error.Type == "" || r.status < 400 {
			t.Errorf("before the stream: %d %s", r.status, r.body)
		}
		if r := rt.post("/v1/chat/completions", body); !strings.HasPrefix(r.body, `{"error":{"message":`) || r.status < 400 {
			t.Errorf("OpenAI, before the stream: %d %s", r.status, r.body)
		}
	}
}

// lastEvent is the last event of a stream, without its blank line.
func lastEvent(stream string) string {
	all := strings.Split(strings.TrimSpace(stream), "\n\n")
	return all[len(all)-1]
}

func TestAPI_06_MessagesGoToTheNativeEndpointUntouched(t *testing.T) {
	stream := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m1\",\"usage\":{\"input_tokens\":9,\"output_tokens\":0}}}\n\n" +
		"event: ping\ndata: {\"type\":\"ping\"}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"EqQBCg==\"}}\n\n" +
		"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"f\",\"input\":{}}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\":1}\"}}\n\n" +
		"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":1}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":12}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	other := newWorker(t, nil, "other")
	w := newWorker(t, func(c *call) {
		if strings.HasSuffix(c.r.URL.Path, "/count_tokens") {
			c.json(http.StatusOK, `{"input_tokens":9}`)
			return
		}
		c.events()
		c.send(stream)
	}, "claude-like")
	rt := start(t, nil, other, w)
	body := `{"model":"claude-like","max_tokens":64,"stream":true,"thinking":{"type":"enabled","budget_tokens":32},"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"}]},{"role":"user","content":"y"}]}`
	if r := rt.do(context.Background(), http.MethodPost, "/v1/messages", body, "Anthropic-Version", "2023-06-01"); r.body != stream {
		t.Errorf("the stream changed: %q", r.body)
	}
	if r := rt.post("/v1/messages/count_tokens", body); r.body != `{"input_tokens":9}` {
		t.Errorf("count_tokens: %d %s", r.status, r.body)
	}
	calls := w.calls()
	if len(calls) != 2 || calls[0].r.URL.Path != "/v1/messages" || string(calls[0].body) != body || other.count() != 0 {
		t.Errorf("the worker saw %d calls, the other %d", len(calls), other.count())
	}
	if got := rt.metric("warmpath_completion_tokens_total"); got != 12 {
		t.Errorf("%v completion tokens counted, want 12", got)
	}
}

func TestAnyOtherPathGoesToAWorkerOfItsModelAndIsCounted(t *testing.T) {
	a, b := newWorker(t, nil, "a"), newWorker(t, nil, "b")
	rt := start(t, nil, a, b)
	if r := rt.post("/v1/something/new?x=1", `{"model":"b","anything":true}`); r.status != http.StatusOK || r.header.Get("X-Warmpath-Worker") != "w2" {
		t.Errorf("got %d from %q", r.status, r.header.Get("X-Warmpath-Worker"))
	}
	if got := b.calls()[0].r.URL.RequestURI(); got != "/v1/something/new?x=1" {
		t.Errorf("the worker saw %s", got)
	}
	if got := rt.metric("warmpath_requests_total", `api="other"`, `outcome="succeeded"`); got != 1 {
		t.Errorf("%v requests counted, want 1", got)
	}
	for path, want := range map[string]int{"/metrics": 404, "/state": 404, "/workers": 404, "/": 404, "/healthz": 200, "/readyz": 200} {
		if r := rt.get(path); r.status != want {
			t.Errorf("%s on the data port: %d, want %d", path, r.status, want)
		}
	}
}
