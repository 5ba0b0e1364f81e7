package llmapi

import (
	"strings"
	"testing"
)

func TestRecordedRepliesAreRead(t *testing.T) {
	cases := []struct {
		name string
		api  API
		want Answer
	}{
		{"llamacpp/chat_cold.txt", Chat, Answer{Usage: known(38, 8, 0), ID: "chatcmpl-1bJ5hBsgsmnFtpZVKGETdaFuV8kvU5nY"}},
		{"llamacpp/chat_warm.txt", Chat, Answer{Usage: known(38, 8, 37), ID: "chatcmpl-aRar1r5RYoVa5jXH3yLJnfXymGnD5HcT"}},
		{"llamacpp/completions.txt", Completions, Answer{Usage: known(5, 8, 0), ID: "chatcmpl-mv8w8HzSBfIqFBUHQ2DPeclTz7p2Gwnh"}},
		{"llamacpp/tools.txt", Chat, Answer{Usage: known(34, 40, 24), ID: "chatcmpl-YyjYnGLxfKfX4alk7DHFBZ1isPSqAwsX"}},
		{"llamacpp/messages.txt", Messages, Answer{Usage: known(32, 12, 7), ID: "chatcmpl-pBLFHllWQ5HZY3mzrhbR4AHOcMlvCqvh"}},
		{"llamacpp/messages_count.txt", CountTokens, Answer{}},
		{"llamacpp/responses.txt", Responses, Answer{Usage: known(32, 8, 31), ID: "resp_d9m6G2gG3krhYvqA56RKAqywyX1yJtjw", Status: "completed"}},
		{"llamacpp/err_badjson.txt", Chat, Answer{IsError: true, Err: "server_error"}},
		{"llamacpp/err_wrongtype.txt", Chat, Answer{IsError: true, Err: "invalid_request_error"}},
		{"llamacpp/err_ctx_overflow.txt", Chat, Answer{IsError: true, Err: "exceed_context_size_error"}},
		{"vllm/chat_1.txt", Chat, Answer{Usage: known(220, 8, 0), ID: "chatcmpl-req-abc-123"}},
		{"vllm/chat_2_repeat.txt", Chat, Answer{Usage: known(220, 8, 192), ID: "chatcmpl-req-abc-124"}},
		{"vllm/chat_salt.txt", Chat, Answer{Usage: known(220, 2, 0), ID: "chatcmpl-bbff956f42aeaa53"}},
		{"vllm/completions_1.txt", Completions, Answer{Usage: known(101, 4, 0), ID: "cmpl-bea0657d0c7b6662"}},
		{"vllm/err_model.txt", Chat, Answer{IsError: true, Err: "NotFoundError"}},
	}
	for _, c := range cases {
		if got := ScanReply(c.api, capture(t, c.name)); got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, got, c.want)
		}
	}
}

func TestJSN05UsageOfTheWrongTypeIsIgnored(t *testing.T) {
	prompt := func(n int) Usage { return Usage{PromptTokens: n, HasPrompt: true} }
	cases := []struct {
		body string
		want Usage
	}{
		{`{"usage":"oops"}`, Usage{}},
		{`{"usage":[]}`, Usage{}},
		{`{"usage":null}`, Usage{}},
		{`{"usage":{"prompt_tokens":"1024"}}`, Usage{}},
		{`{"usage":{"prompt_tokens":5,"prompt_tokens_details":0}}`, prompt(5)},
		{`{"usage":{"prompt_tokens":5,"prompt_tokens_details":null}}`, prompt(5)},
		{`{"usage":{"prompt_tokens":-1}}`, Usage{}},
		{`{"usage":{"prompt_tokens":1e99}}`, Usage{}},
		{`{"usage":{"prompt_tokens":1e999}}`, Usage{}},
		{`{"usage":{"prompt_tokens":1.5}}`, Usage{}},
		{`{"usage":{"prompt_tokens":5.0}}`, prompt(5)},
		{`{"usage":{"prompt_tokens":NaN,"completion_tokens":3}}`, Usage{CompletionTokens: 3, HasCompletion: true}},
		{`{"logprob":-Infinity,"usage":{"prompt_tokens":5}}`, prompt(5)},
		{`{"usage":{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":6}}}`, prompt(5)},
		{`{"usage":{"prompt_tokens":5},"timings":{"cache_n":3}}`, Usage{PromptTokens: 5, HasPrompt: true, CachedTokens: 3, HasCached: true}},
		{`{"usage":{"prompt_tokens":5},`, prompt(5)},
		{`{"usage":{"prompt_tokens":5}}` + "\xff", prompt(5)},
		{``, Usage{}},
		{`<html>`, Usage{}},
		{strings.Repeat("[", 1<<20), Usage{}},
		{`{"x":` + strings.Repeat("[", 1<<20), Usage{}},
	}
	for _, c := range cases {
		if got := ScanReply(Chat, []byte(c.body)).Usage; got != c.want {
			t.Errorf("%.80s:\n got %+v\nwant %+v", c.body, got, c.want)
		}
		var s Stream
		s.Reset(Chat, false)
		s.Feed([]byte("data: " + c.body + "\n\n"))
		if s.Usage != c.want {
			t.Errorf("streamed %.80s:\n got %+v\nwant %+v", c.body, s.Usage, c.want)
		}
	}
	if got := ScanReply(Messages, []byte(`{"usage":{"cache_read_input_tokens":7}}`)).Usage; got.HasPrompt || got.PromptTokens != 0 {
		t.Errorf("a prompt was made up: %+v", got)
	}
}

func TestAPI04AnErrorObjectInA200IsAnError(t *testing.T) {
	for body, want := range map[string]bool{
		`{"error":{"message":"exhausted"}}`:    true,
		`{"error":"exhausted"}`:                true,
		`{"type":"error","error":{}}`:          true,
		`{"object":"error","message":"m"}`:     true,
		`{"error":null,"choices":[]}`:          false,
		`{"choices":[{"error":{"type":"x"}}]}`: false,
	} {
		if got := ScanReply(Chat, []byte(body)); got.IsError != want {
			t.Errorf("%s: %+v", body, got)
		}
	}
}

func TestThePartsOfAPromptAreOneStatementHoweverOftenTheyAreTold(t *testing.T) {
	for _, c := range []struct {
		start, delta string
		want         Usage
	}{
		// vLLM: the whole first, then its parts
		{`"input_tokens":247,"output_tokens":0`, `"input_tokens":23,"cache_creation_input_tokens":224,"cache_read_input_tokens":0,"output_tokens":3`, known(247, 3, 0)},
		{`"input_tokens":411,"output_tokens":0`, `"input_tokens":27,"cache_creation_input_tokens":160,"cache_read_input_tokens":224,"output_tokens":3`, known(411, 3, 224)},
		// the parts first
		{`"input_tokens":23,"cache_creation_input_tokens":24,"cache_read_input_tokens":200,"output_tokens":1`, `"output_tokens":3`, known(247, 3, 200)},
		{`"input_tokens":23,"cache_creation_input_tokens":24,"cache_read_input_tokens":200,"output_tokens":1`, `"input_tokens":0,"cache_read_input_tokens":0,"output_tokens":3`, known(247, 3, 200)},
		{`"input_tokens":23,"cache_creation_input_tokens":24,"cache_read_input_tokens":200,"output_tokens":1`, `"input_tokens":247,"output_tokens":3`, known(247, 3, 200)},
		// nothing first
		{`"input_tokens":0,"output_tokens":0`, `"input_tokens":7,"cache_read_input_tokens":31,"output_tokens":3`, known(38, 3, 31)},
	} {
		var s Stream
		s.Reset(Messages, false)
		s.Feed([]byte(`data: {"type":"message_start","message":{"usage":{` + c.start + "}}}\n\n" + `data: {"type":"message_delta","usage":{` + c.delta + "}}\n\n"))
		if s.Usage != c.want {
			t.Errorf("%s, then %s: %+v, want %+v", c.start, c.delta, s.Usage, c.want)
		}
	}
}

func TestCountsThatAreSummedUpKeepTheirBound(t *testing.T) {
	const most = `2147483647`
	for api, body := range map[API]string{
		Messages: `{"usage":{"input_tokens":` + most + `,"cache_read_input_tokens":` + most + `,"cache_creation_input_tokens":` + most + `}}`,
		Chat:     `{"timings":{"prompt_n":` + most + `,"cache_n":` + most + `}}`,
	} {
		if u := ScanReply(api, []byte(body)).Usage; u.PromptTokens != countMax || u.CachedTokens != countMax {
			t.Errorf("%v: %+v", api, u)
		}
	}
}
