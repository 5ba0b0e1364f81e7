package engine

import (
	"bufio"
	"bytes"
	"context"
	json "encoding/json/v2"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/cost"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// real is one engine behind a loopback socket.
type real struct {
	*Server
	url string
}

// start serves a simulated engine, 100 times faster than an 8B model on an H100 unless the options say otherwise.
func start(t *testing.T, o Options) real {
	t.Helper()
	if o.Profile.Name == "" {
		o.Profile = cost.Profiles["h100-8b"]
	}
	if o.TimeScale == 0 {
		o.TimeScale = 100
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(o)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l, time.Second) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return real{s, "http://" + l.Addr().String()}
}

// call sends one request and returns status and body.
func (e real) call(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, e.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	out, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Header.Get("Server") != "warmpath-sim" {
		t.Errorf("%s %s: Server is %q", method, path, answer.Header.Get("Server"))
	}
	return answer.StatusCode, string(out)
}

// decode sends a request that must succeed and returns its JSON.
func (e real) decode(t *testing.T, path, body string) map[string]any {
	t.Helper()
	status, out := e.call(t, "POST", path, body)
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, status, out)
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%s: %v in %s", path, err, out)
	}
	return v
}

// at walks into decoded JSON: at(v, "usage", "prompt_tokens"), at(v, "choices", 0).
func at(v any, path ...any) any {
	for _, p := range path {
		switch key := p.(type) {
		case string:
			object, _ := v.(map[string]any)
			v = object[key]
		case int:
			list, _ := v.([]any)
			if key >= len(list) {
				return nil
			}
			v = list[key]
		}
	}
	return v
}

// until waits for a state of the engine that its own steps bring about.
func (e real) until(t *testing.T, what string, ok func(Stats) bool) {
	t.Helper()
	limit := time.After(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok(e.Stats()) {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s: still %+v", what, e.Stats())
		}
	}
}

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
func (e real) events(t *testing.T, path, body string) []string {
	t.Helper()
	status, out := e.call(t, "POST", path, body)
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, status, out)
	}
	var list []string
	for line := range strings.Lines(out) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			list = append(list, strings.TrimSuffix(data, "\n"))
		}
	}
	return list
}

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
	if n := len(e.responses.byID); n > 2 {
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

func TestAClientThatLeavesFreesItsRoomWithinAStep(t *testing.T) {
	e := start(t, Options{TimeScale: 1})
	for _, stream := range []string{"true", "false"} {
		ctx, leave := context.WithCancel(context.Background())
		r, err := http.NewRequestWithContext(ctx, "POST", e.url+"/v1/completions",
			strings.NewReader(`{"prompt":"a","max_tokens":100000,"ignore_eos":true,"stream":`+stream+`}`))
		if err != nil {
			t.Fatal(err)
		}
		var wait sync.WaitGroup
		wait.Go(func() {
			if answer, err := http.DefaultClient.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		})
		e.until(t, "running", func(n Stats) bool { return n.Running == 1 && n.ContextTokens > 2 })
		leave()
		e.until(t, "gone", func(n Stats) bool { return n.Running == 0 && n.KVUsage == 0 })
		wait.Wait()
	}
	if n := e.Stats(); n.Aborted != 2 {
		t.Errorf("%+v", n)
	}
}

func TestTheHeadOfAStreamComesBeforeItsFirstToken(t *testing.T) {
	e := start(t, Options{TimeScale: .001}) // a first token would take seconds
	r, err := http.NewRequest("POST", e.url+"/v1/completions", strings.NewReader(`{"prompt":"a","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if n := e.Stats(); n.GeneratedTokens != 0 || answer.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
		t.Errorf("%+v, header %v", n, answer.Header)
	}
	answer.Body.Close()
}

func TestAnEngineThatStopsBreaksItsStreams(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Profile: cost.Profiles["h100-8b"]})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l, 0) }()
	answer, err := http.Post("http://"+l.Addr().String()+"/v1/completions", "application/json",
		strings.NewReader(`{"prompt":"a","max_tokens":100000,"ignore_eos":true,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Scan()
	stop()
	for lines.Scan() {
		if lines.Text() == "data: [DONE]" {
			t.Error("a clean end")
		}
	}
	if lines.Err() == nil {
		t.Error("the body ended as if it were whole")
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestADrainLetsRequestsFinish(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := real{New(Options{Profile: cost.Profiles["h100-8b"], TimeScale: 10}), "http://" + l.Addr().String()}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Serve(ctx, l, time.Minute) }()
	var wait sync.WaitGroup
	wait.Go(func() {
		v := e.decode(t, "/v1/completions", `{"prompt":"a","max_tokens":100,"ignore_eos":true}`)
		if at(v, "usage", "completion_tokens") != 100.0 {
			t.Errorf("%v", v)
		}
	})
	e.until(t, "running", func(n Stats) bool { return n.Running == 1 })
	stop()
	wait.Wait()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAFullQueueAnswers503(t *testing.T) {
	e := start(t, Options{WaitingMax: 1})
	if status, out := e.call(t, "POST", "/v1/completions", `{"prompt":"a","n":2}`); status != 503 || !strings.Contains(out, "the limit of 1") {
		t.Errorf("%d %s", status, out)
	}
}

func TestMetricsAgreeWithTheCountsUnderVLLMsNames(t *testing.T) {
	e := start(t, Options{Model: "m"})
	prompt := strings.Repeat("0123456789abcdef", 16)
	for range 2 {
		e.decode(t, "/v1/completions", `{"prompt":"`+prompt+`","max_tokens":10,"ignore_eos":true}`)
	}
	_, out := e.call(t, "GET", "/metrics", "")
	for _, want := range []string{
		`vllm:num_requests_running{engine="0",model_name="m"} 0`,
		`vllm:num_requests_waiting{engine="0",model_name="m"} 0`,
		`vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0`,
		`vllm:prompt_tokens_total{engine="0",model_name="m"} 128`,
		`vllm:prefix_cache_queries_total{engine="0",model_name="m"} 128`,
		`vllm:prefix_cache_hits_total{engine="0",model_name="m"} 48`,
		`vllm:generation_tokens_total{engine="0",model_name="m"} 20`,
		`vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 2`,
		`vllm:request_prefill_time_seconds_count{engine="0",model_name="m"} 2`,
		`vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 2`,
		`vllm:inter_token_latency_seconds_count{engine="0",model_name="m"} 18`,
		`vllm:cache_config_info{block_size="16",enable_prefix_caching="True",engine="0",kv_cache_size_tokens="400000",model_name="m",num_gpu_blocks="25000"} 1`,
		`process_start_time_seconds `,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s", want)
		}
	}
}

func TestTheEngineSaysWhatItIs(t *testing.T) {
	e := start(t, Options{Model: "m", ContextMax: 4096})
	if _, out := e.call(t, "GET", "/v1/models", ""); !strings.Contains(out, `"id":"m"`) || !strings.Contains(out, `"max_model_len":4096`) {
		t.Error(out)
	}
	if status, out := e.call(t, "GET", "/health", ""); status != 200 || out != "" {
		t.Errorf("%d %s", status, out)
	}
	if _, out := e.call(t, "GET", "/version", ""); !strings.Contains(out, `"simulated":true`) {
		t.Error(out)
	}
}

func TestTimesFollowTheProfileAndTheScale(t *testing.T) {
	e := start(t, Options{TimeScale: 2})
	began := time.Now()
	e.decode(t, "/v1/completions", `{"prompt":"a","max_tokens":50,"ignore_eos":true}`)
	took := time.Since(began)
	// Prefill 1.3 + 6.24 ms, 49 decodes of 6.25 ms: 314 ms, at twice the speed. Being early would be a fault of the
	// clock; being late is the machine's.
	if took < 157*time.Millisecond {
		t.Errorf("took %v, less than the profile's time", took)
	}
	if busy := e.Stats().BusyTime; busy < 313*time.Millisecond || busy > 315*time.Millisecond {
		t.Errorf("busy for %v of virtual time", busy)
	}
}

func FuzzARequestNeverBreaksTheEngine(f *testing.F) {
	for _, seed := range []string{
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:,x"}}]}]}`,
		`{"prompt":[[1,2],[3]],"n":2,"seed":-1}`, `{"input":[{"type":"function_call_output","call_id":"c","output":"o"}]}`,
		`{"messages":[{"role":"a","content":null,"tool_calls":[{"id":"1"}]}],"tools":[{}],"max_tokens":null}`, `[]`, `{"messages":7}`, "\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := parse(raw)
		if err != nil {
			return
		}
		p := b.chatPrompt(b.System, b.Messages, 16)
		if again := b.chatPrompt(b.System, b.Messages, 16); again.hash != p.hash || len(p.keys) != p.tokens/16 {
			t.Errorf("%d tokens, %d keys, hashes %x and %x", p.tokens, len(p.keys), p.hash, again.hash)
		}
		if items, err := b.inputMessages(); err == nil {
			b.chatPrompt(nil, items, 16)
		}
		a := newAnswer(p, 0, limits{tokensMax: 40, tokensMin: 2}, 20, 0)
		if a.tokens < 1 || a.tokens > 40 || len(a.text()) != 4*a.tokens {
			t.Errorf("%d tokens, text of %d bytes", a.tokens, len(a.text()))
		}
		if !bytes.Equal([]byte(a.text()), []byte(newAnswer(p, 0, limits{tokensMax: 40, tokensMin: 2}, 20, 0).text())) {
			t.Error("the same request got two answers")
		}
	})
}
