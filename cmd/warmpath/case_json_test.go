package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

// postPaths are the paths whose bodies are scanned.
var postPaths = []string{"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"}

func TestJSN_01_NumbersAndTextAreNotReencodedByARewrite(t *testing.T) {
	w := newWorker(t, nil)
	w.onGet(asVLLM("m"))
	rt := start(t, nil, w)
	eventually(t, "the worker to be known as vLLM", func() bool { return rt.state().Workers[0].Engine == "vllm" })
	rest := `"seed":9007199254740993,"x":1e400,"y":1.0,"z":-0,"big":12345678901234567890,"messages":[{"role":"user","content":"<a> & \u2028 \ud83d\ude00 ` + "\u2028" + `"}],"stream":true}`
	rt.post("/v1/chat/completions", `{"model":"m",`+rest)
	got := string(w.calls()[0].body)
	if !strings.Contains(got, "include_usage") {
		t.Fatalf("no rewrite took place: %s", got)
	}
	for _, piece := range []string{`"seed":9007199254740993`, `"x":1e400`, `"y":1.0`, `"z":-0`, `"big":12345678901234567890`, `"<a> & \u2028 \ud83d\ude00 ` + "\u2028" + `"`} {
		if !strings.Contains(got, piece) {
			t.Errorf("%s did not survive: %s", piece, got)
		}
	}
}

func TestJSN_02_FieldsNobodyKnowsArriveOnEveryPath(t *testing.T) {
	w := newWorker(t, nil)
	rt := start(t, nil, w)
	for i, path := range postPaths {
		body := fmt.Sprintf(`{"zz_unknown":{"a":[1,null]},"model":"m","messages":[{"role":"user","content":"%d"}],"prompt":"%d","input":"%d","top_k":4,"min_p":0.05,"return_token_ids":true,"chat_template_kwargs":{"enable_thinking":false},"guided_json":{"type":"object"},"cache_salt":"s","priority":3,"max_completion_tokens":9,"max_tokens":9,"tools":[{"type":"function","function":{"name":"f"}}]}`, i, i, i)
		if r := rt.post(path, body); r.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, r.status, r.body)
			continue
		}
		if got := string(w.calls()[i].body); got != body {
			t.Errorf("%s: the body changed:\n%s\n%s", path, body, got)
		}
	}
}

func TestJSN_04_MalformedBodiesAreTheClientsMistake(t *testing.T) {
	bodies := map[string]string{
		"empty": "", "open": "{", "not json": "not json", "array": "[]", "string": `"x"`, "null": "null", "number model": `{"model":5}`,
		"trailing garbage": `{"model":"m"} x`, "BOM": "\xef\xbb\xbf" + `{"model":"m"}`, "invalid UTF-8": "{\"model\":\"\xff\xfe\"}",
		"control character": "{\"model\":\"a\nb\"}", "bad number": `{"model":"m","n":01}`, "bad escape": `{"model":"\x"}`, "unquoted key": `{model:"m"}`,
		"deep": `{"model":"m","x":` + strings.Repeat("[", 100_000),
	}
	w := newWorker(t, func(c *call) { c.json(http.StatusBadRequest, `{"error":"the worker's own"}`) })
	rt := start(t, nil, w)
	for _, path := range postPaths {
		for name, body := range bodies {
			r := rt.post(path, body)
			if r.status != http.StatusBadRequest {
				t.Errorf("%s %s: %d %s", path, name, r.status, r.body)
			}
			anthropic := strings.Contains(r.body, `"type":"error"`)
			if own := strings.Contains(r.body, "worker's own"); !own && anthropic != strings.HasPrefix(path, "/v1/messages") {
				t.Errorf("%s %s: wrong dialect: %s", path, name, r.body)
			}
		}
	}
	if r := rt.post("/v1/chat/completions", `{"model":"m","messages":[}`); !strings.Contains(r.body, "25") {
		t.Errorf("the offset of the mistake, byte 25, is not named: %s", r.body)
	}
	if e, s := rt.metric("warmpath_upstream_errors_total"), rt.state().Workers[0].State; e != 0 || s != "ready" {
		t.Errorf("%v errors counted against the worker, which is %s", e, s)
	}
}

func TestJSN_04_OfTwoModelsTheLastCountsAsItDoesForEngines(t *testing.T) {
	a, b := newWorker(t, nil, "a"), newWorker(t, nil, "b")
	rt := start(t, nil, a, b)
	for _, body := range []string{`{"model":"a","model":"b","messages":[]}`, `{"model":"a","mod\u0065l":"b","messages":[]}`} {
		rt.post("/v1/chat/completions", body)
	}
	rt.post("/v1/chat/completions", `{"model":"b","Model":"a","MODEL":"a","messages":[]}`)
	if a.count() != 0 || b.count() != 3 {
		t.Errorf("worker a got %d and b %d requests, want 0 and 3", a.count(), b.count())
	}
}

func TestJSN_05_UsageOfTheWrongShapePassesAndCountsNothing(t *testing.T) {
	usages := []string{`"oops"`, `[]`, `{"prompt_tokens":"1024"}`, `{"prompt_tokens_details":0}`, `{"prompt_tokens":-1,"completion_tokens":-5}`, `{"prompt_tokens":1e99}`, `{"prompt_tokens":NaN}`, `{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":[1]}}`, `null`, `{"prompt_tokens":1.5e300,"completion_tokens":99999999999999999999}`}
	for _, usage := range usages {
		for _, stream := range []bool{false, true} {
			body := `{"id":"x","choices":[],"usage":` + usage + `}`
			w := newWorker(t, func(c *call) {
				if stream {
					c.events()
					c.send("data: " + body + "\n\ndata: [DONE]\n\n")
					return
				}
				c.json(http.StatusOK, body)
			})
			rt := start(t, nil, w)
			r := rt.post("/v1/chat/completions", chat("usage", stream))
			if !strings.Contains(r.body, body) {
				t.Errorf("usage %s, stream %v: the client got %q", usage, stream, r.body)
			}
			for _, name := range []string{"warmpath_prompt_tokens_total", "warmpath_completion_tokens_total", "warmpath_cached_tokens_reported_total"} {
				if got := rt.metric(name); got < 0 || got > 10 {
					t.Errorf("usage %s, stream %v: %s is %v", usage, stream, name, got)
				}
			}
		}
	}
}

func TestJSN_05_AReplyTooLongToBeMeteredStillPassesWhole(t *testing.T) {
	const size = 64 << 20
	text := strings.Repeat("x", size)
	w := newWorker(t, func(c *call) { c.json(http.StatusOK, `{"id":"x","text":"`+text+`"}`) })
	rt := start(t, nil, w)
	if r := rt.post("/v1/chat/completions", chat("huge", false)); len(r.body) != size+len(`{"id":"x","text":""}`) {
		t.Errorf("got %d bytes, %v", len(r.body), r.err)
	}
	if got := rt.metric("warmpath_replies_unmetered_total"); got != 1 {
		t.Errorf("%v unmetered replies, want 1", got)
	}
}

func TestABodyOverTheLimitIsRefusedByNameBeforeAnyWorker(t *testing.T) {
	w := newWorker(t, nil)
	rt := start(t, func(c *config.Config) { c.BodyBytesMax = 1 << 20 }, w)
	under := chat(strings.Repeat("u", 1<<20-200), false)
	if r := rt.post("/v1/chat/completions", under); r.status != http.StatusOK || string(w.calls()[0].body) != under {
		t.Errorf("below the limit: %d", r.status)
	}
	for _, path := range []string{"/v1/chat/completions", "/v1/messages"} {
		r := rt.post(path, chat(strings.Repeat("o", 1<<20), false))
		if r.status != http.StatusRequestEntityTooLarge || !strings.Contains(r.body, "body_bytes_max") || !strings.Contains(r.body, "1048576") {
			t.Errorf("%s over the limit: %d %s %v", path, r.status, r.body, r.err)
		}
	}
	if w.count() != 1 {
		t.Errorf("an oversized body reached the worker")
	}
}
