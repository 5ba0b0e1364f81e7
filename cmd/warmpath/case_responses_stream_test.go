package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

func TestABodyThatIsNotReadInheritsNothingFromTheRequestBefore(t *testing.T) {
	a, b := newWorker(t, nil, "a"), newWorker(t, nil, "b")
	rt := start(t, nil, a, b)
	form := "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n" + strings.Repeat("x", 200) + "\r\n--b--\r\n"
	for i := range 30 {
		rt.post("/v1/chat/completions", fmt.Sprintf(`{"model":"a","messages":[{"role":"user","content":"before %d"}]}`, i))
		for _, r := range []reply{rt.get("/v1/files"), rt.post("/v1/files", form, "Content-Type", "multipart/form-data; boundary=b")} {
			if r.status != http.StatusBadRequest || !strings.Contains(r.body, "names no model") {
				t.Fatalf("a request without a model among several: %d %s", r.status, r.body)
			}
		}
	}

	w := newWorker(t, nil)
	w.onGet(asVLLM("m"))
	one := start(t, nil, w)
	eventually(t, "the worker to be known as vLLM", func() bool { return one.state().Workers[0].Engine == "vllm" })
	for i := range 30 {
		one.post("/v1/chat/completions", chat(fmt.Sprint("before ", i), true))
		one.post("/v1/files", form, "Content-Type", "multipart/form-data; boundary=b")
	}
	for _, c := range w.calls() {
		if c.r.URL.Path == "/v1/files" && string(c.body) != form {
			t.Fatalf("a form reached the worker as %q", c.body)
		}
	}
}

func TestRSP_02_InStreamErrorsOfResponsesPassUnchanged(t *testing.T) {
	event := func(kind, fields string) string {
		return fmt.Sprintf("event: %s\ndata: {\"type\":%q,\"sequence_number\":1%s}\n\n", kind, kind, fields)
	}
	head := event("response.created", `,"response":{"id":"resp_1","status":"in_progress"}`) + event("response.in_progress", `,"response":{"id":"resp_1"}`) +
		event("response.output_text.delta", `,"delta":"a"`) + event("response.output_text.delta", `,"delta":"b"`)
	for _, end := range []struct{ name, last, outcome string }{
		{"an error", event("error", `,"code":"server_error","message":"the engine  ran out of room","param":null`), "failed"},
		{"failed", event("response.failed", `,"response":{"id":"resp_1","status":"failed","error":{"code":"server_error","message":"own words"}}`), "failed"},
		{"incomplete", event("response.incomplete", `,"response":{"id":"resp_1","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}`), "incomplete"},
		{"completed", event("response.completed", `,"response":{"id":"resp_1","status":"completed"}`), "succeeded"},
	} {
		t.Run(end.name, func(t *testing.T) {
			stream := head + end.last
			w := newWorker(t, func(c *call) {
				c.events()
				for i := 0; i < len(stream); i += 50 { // pieces that know nothing of events
					c.send(stream[i:min(i+50, len(stream))])
				}
			})
			rt := start(t, func(c *config.Config) { c.InjectUsage = true }, w)
			r := rt.post("/v1/responses", `{"model":"m","stream":true,"input":"x"}`)
			if r.status != http.StatusOK || r.err != nil || r.body != stream {
				t.Errorf("got %d %v\n%s\nwant\n%s", r.status, r.err, r.body, stream)
			}
			rt.idle()
			if n := rt.metric("warmpath_requests_total", `api="responses"`, fmt.Sprintf("outcome=%q", end.outcome)); n != 1 {
				t.Errorf("%v requests counted as %s, want 1", n, end.outcome)
			}
			if n := rt.metric("warmpath_requests_total"); n != 1 {
				t.Errorf("%v requests counted, want 1", n)
			}
		})
	}
}
