package engine

import (
	json "encoding/json/v2"
	"fmt"
	"strings"
	"testing"
)

func TestAFollowUpFindsPromptAndAnswerCached(t *testing.T) {
	e := start(t, Options{Model: "m"})
	system := strings.Repeat("The quick brown fox. ", 100)
	first := fmt.Sprintf(`{"model":"m","max_tokens":64,"ignore_eos":true,"messages":[{"role":"system","content":%q},{"role":"user","content":"hi"}`, system)
	a := e.decode(t, "/v1/chat/completions", first+`]}`)
	prompt := int(at(a, "usage", "prompt_tokens").(float64))
	if at(a, "usage", "completion_tokens") != 64.0 || at(a, "usage", "prompt_tokens_details", "cached_tokens") != 0.0 {
		t.Fatalf("usage %v", a["usage"])
	}
	if prompt < 525 || prompt > 545 {
		t.Errorf("%d prompt tokens for 2,102 bytes", prompt)
	}
	if at(a, "choices", 0, "finish_reason") != "length" || !strings.Contains(a["system_fingerprint"].(string), "sim") {
		t.Errorf("%v", a)
	}
	// The answer goes back with the decoration that client libraries add.
	answer := at(a, "choices", 0, "message", "content").(string)
	b := e.decode(t, "/v1/chat/completions", first+fmt.Sprintf(
		`,{"role":"assistant","content":%q,"refusal":null,"tool_calls":null},{"role":"user","content":"more"}]}`, answer))
	want := (prompt + 63) / 16 * 16
	if got := at(b, "usage", "prompt_tokens_details", "cached_tokens"); got != float64(want) {
		t.Errorf("%v tokens of the follow-up cached, want %d of %d + 64", got, want, prompt)
	}
	// The same conversation in Anthropic's shape shares the cache.
	c := e.decode(t, "/v1/messages", fmt.Sprintf(`{"model":"m","max_tokens":8,"system":%q,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`, system))
	if at(c, "usage", "cache_read_input_tokens").(float64) < 512 {
		t.Errorf("%v", c["usage"])
	}
	// Another salt shares nothing.
	d := e.decode(t, "/v1/chat/completions", `{"cache_salt":"x",`+first[1:]+`]}`)
	if at(d, "usage", "prompt_tokens_details", "cached_tokens") != 0.0 {
		t.Errorf("%v", d["usage"])
	}
}

// events sends a streamed request and returns the data of its events.

func TestAChatStreamHasOneEventATokenAndUsageWhenAsked(t *testing.T) {
	e := start(t, Options{})
	body := `{"stream":true,"max_tokens":5,"min_tokens":5,"messages":[{"role":"user","content":"hi"}]`
	list := e.events(t, "/v1/chat/completions", body+`,"stream_options":{"include_usage":true}}`)
	if len(list) != 1+5+1+1+1 {
		t.Fatalf("%d events: %q", len(list), list)
	}
	if !strings.Contains(list[0], `"role":"assistant"`) || !strings.Contains(list[6], `"finish_reason":"length"`) || list[8] != "[DONE]" {
		t.Errorf("%q", list)
	}
	if !strings.Contains(list[7], `"completion_tokens":5`) || !strings.Contains(list[7], `"choices":[]`) || !strings.Contains(list[7], "warmpath-sim") {
		t.Errorf("usage event %s", list[7])
	}
	if list := e.events(t, "/v1/chat/completions", body+`}`); len(list) != 8 || strings.Contains(strings.Join(list, ""), "usage") {
		t.Errorf("without include_usage: %q", list)
	}
	// The streamed text is the whole text.
	var streamed strings.Builder
	for _, data := range list[1:6] {
		var v any
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			t.Fatal(err)
		}
		streamed.WriteString(at(v, "choices", 0, "delta", "content").(string))
	}
	whole := e.decode(t, "/v1/chat/completions", strings.Replace(body, "true", "false", 1)+`}`)
	if got := at(whole, "choices", 0, "message", "content"); got != streamed.String() {
		t.Errorf("streamed %q, whole %q", streamed.String(), got)
	}
}

func TestCompletionsTakeEveryFormOfPrompt(t *testing.T) {
	e := start(t, Options{})
	for _, c := range []struct {
		body             string
		choices, prompts int
	}{
		{`{"prompt":"twelve bytes"}`, 1, 3},
		{`{"prompt":["four","more"],"n":2}`, 4, 2},
		{`{"prompt":[1,2,3,4,5]}`, 1, 5},
		{`{"prompt":[[1,2],[3]]}`, 2, 3},
	} {
		v := e.decode(t, "/v1/completions", c.body)
		if n := len(at(v, "choices").([]any)); n != c.choices || at(v, "usage", "prompt_tokens") != float64(c.prompts) {
			t.Errorf("%s: %d choices, usage %v", c.body, n, v["usage"])
		}
	}
	list := e.events(t, "/v1/completions", `{"prompt":"a","n":2,"stream":true,"ignore_eos":true,"max_tokens":3}`)
	if len(list) != 2*(3+1)+1 {
		t.Errorf("%d events of two streamed choices: %q", len(list), list)
	}
}

func TestEmbeddingsArePrefilledOnly(t *testing.T) {
	e := start(t, Options{})
	v := e.decode(t, "/v1/embeddings", `{"input":["hello","hello"],"dimensions":8}`)
	if a, b := at(v, "data", 0, "embedding").([]any), at(v, "data", 1, "embedding").([]any); len(a) != 8 || a[3] != b[3] {
		t.Errorf("%v", v)
	}
	v = e.decode(t, "/v1/embeddings", `{"input":"hello","encoding_format":"base64"}`)
	if text, ok := at(v, "data", 0, "embedding").(string); !ok || len(text) != (64*4+2)/3*4 {
		t.Errorf("%v", v)
	}
	if n := e.Stats(); n.GeneratedTokens != 0 || n.Finished != 3 {
		t.Errorf("%+v", n)
	}
}

func TestMessagesSpeakAnthropicsDialect(t *testing.T) {
	e := start(t, Options{Model: "m"})
	v := e.decode(t, "/v1/messages", `{"model":"m","max_tokens":4,"messages":[{"role":"user","content":"hi"}]}`)
	if v["type"] != "message" || at(v, "content", 0, "type") != "text" || at(v, "usage", "output_tokens") == nil {
		t.Errorf("%v", v)
	}
	_, out := e.call(t, "POST", "/v1/messages", `{"max_tokens":4,"stream":true,"messages":[{"role":"user","content":"hi"}]}`)
	var kinds []string
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			kinds = append(kinds, strings.TrimSpace(name))
		}
	}
	want := "message_start content_block_start content_block_delta content_block_delta content_block_delta content_block_delta content_block_stop message_delta message_stop"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("events %s", got)
	}
	count := e.decode(t, "/v1/messages/count_tokens", `{"messages":[{"role":"user","content":"hi"}]}`)
	if count["input_tokens"] != at(v, "usage", "input_tokens") {
		t.Errorf("%v counted, %v used", count, v["usage"])
	}
	status, out := e.call(t, "POST", "/v1/messages", `{"model":"other","max_tokens":4,"messages":[]}`)
	if status != 404 || !strings.HasPrefix(out, `{"error":{"message":"The model`) || !strings.Contains(out, `"type":"not_found_error"`) || !strings.HasSuffix(out, `"type":"error"}`) {
		t.Errorf("%d %s", status, out)
	}
}

func TestResponsesAreKeptContinuedAndDeleted(t *testing.T) {
	e := start(t, Options{ResponsesMax: 2})
	long := strings.Repeat("word ", 200)
	a := e.decode(t, "/v1/responses", fmt.Sprintf(`{"input":%q,"max_output_tokens":40}`, long))
	id := a["id"].(string)
	b := e.decode(t, "/v1/responses", fmt.Sprintf(`{"input":[{"role":"user","content":"go on"}],"max_output_tokens":4,"previous_response_id":%q}`, id))
	if at(b, "usage", "input_tokens_details", "cached_tokens").(float64) < 250 || b["previous_response_id"] != id {
		t.Errorf("%v", b)
	}
	if status, out := e.call(t, "GET", "/v1/responses/"+id, ""); status != 200 || !strings.Contains(out, id) {
		t.Errorf("%d %s", status, out)
	}
	if status, out := e.call(t, "DELETE", "/v1/responses/"+id, ""); status != 200 || !strings.Contains(out, `"deleted":true`) {
		t.Errorf("%d %s", status, out)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if status, out := e.call(t, method, "/v1/responses/"+id, ""); status != 404 || !strings.Contains(out, "not found") {
			t.Errorf("%s: %d %s", method, status, out)
		}
	}
	if status, _ := e.call(t, "POST", "/v1/responses", fmt.Sprintf(`{"input":"x","previous_response_id":%q}`, id)); status != 404 {
		t.Errorf("continuing a deleted response: %d", status)
	}
	list := e.events(t, "/v1/responses", `{"input":"x","stream":true,"max_output_tokens":3,"ignore_eos":true}`)
	last := list[len(list)-1]
	if len(list) != 4+3+3+1 || !strings.Contains(last, `"type":"response.incomplete"`) || !strings.Contains(last, `"output_tokens":3`) {
		t.Errorf("%q", list)
	}
	if _, out := e.call(t, "POST", "/v1/responses", `{"input":"x","store":false,"max_output_tokens":1}`); strings.Contains(out, "error\":{") {
		t.Error(out)
	}
	if n := e.responses.Len(); n > 2 {
		t.Errorf("%d responses kept, the limit is 2", n)
	}
}

func TestErrorsHaveVLLMsShape(t *testing.T) {
	e := start(t, Options{Model: "m", ContextMax: 100, BodyBytesMax: 10_000})
	long := strings.Repeat("a", 500)
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/v1/chat/completions", `{"model":"x","messages":[{"role":"user","content":"a"}]}`, 404,
			"{\"error\":{\"code\":404,\"message\":\"The model `x` does not exist. Valid aliases: m.\",\"param\":\"model\",\"type\":\"NotFoundError\"}}"},
		{"/v1/completions", `{"prompt":"` + long + `"}`, 400, `maximum context length is 100 tokens. However, your prompt contains at least 125 input tokens`},
		{"/v1/embeddings", `{"input":"` + long + `"}`, 400, `maximum context length is 100 tokens`},
		{"/v1/completions", `{"prompt":"a","max_tokens":100}`, 400, `you requested 100 output tokens and your prompt contains at least 1 input tokens, for a total of at least 101`},
		{"/v1/completions", `{"prompt":"a","max_tokens":0}`, 400, `max_tokens must be at least 1, got 0.`},
		{"/v1/completions", `{"prompt":"a","min_tokens":20}`, 400, `min_tokens must be less than or equal to max_tokens=16, got 20.`},
		{"/v1/completions", `{"prompt":"a","n":0}`, 400, `n must be between 1 and 1024`},
		{"/v1/completions", `{}`, 400, `prompt is required.`},
		{"/v1/completions", `{"prompt":{}}`, 400, `a prompt is a string`},
		{"/v1/chat/completions", `{"messages":[]}`, 400, `messages must be a list`},
		{"/v1/chat/completions", `{"messages":[`, 400, `BadRequestError`},
		{"/v1/responses", `{"input":7}`, 400, `input must be a text or a list`},
		{"/v1/chat/completions", `{"a":"` + strings.Repeat(long, 20) + `"}`, 413, `larger than 10000 bytes`},
	} {
		status, out := e.call(t, "POST", c.path, c.body)
		if status != c.status || !strings.Contains(out, c.want) {
			t.Errorf("%s %.60s: %d %s", c.path, c.body, status, out)
		}
	}
	if n := e.Stats(); n.Running+n.Waiting != 0 || n.Finished != 0 {
		t.Errorf("%+v", n)
	}
}
