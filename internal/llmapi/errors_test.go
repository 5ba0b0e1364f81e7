package llmapi

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAPI05ErrorsHaveTheShapeOfTheirDialect(t *testing.T) {
	cases := []struct {
		d             Dialect
		status        int
		kind, param   string
		message, want string
	}{
		{OpenAI, 404, KindModel, "model", "m", `{"error":{"message":"m","type":"invalid_request_error","param":"model","code":"model_not_found"}}`},
		{OpenAI, 400, KindInvalid, "", "say \"x\"\n\u2028", `{"error":{"message":"say \"x\"\n\u2028","type":"invalid_request_error","param":null,"code":null}}`},
		{OpenAI, 503, KindOverloaded, "", "m", `{"error":{"message":"m","type":"server_error","param":null,"code":"overloaded"}}`},
		{OpenAI, 502, "", "", "m", `{"error":{"message":"m","type":"server_error","param":null,"code":null}}`},
		{Anthropic, 404, KindModel, "model", "m", `{"type":"error","error":{"type":"not_found_error","message":"m"}}`},
		{Anthropic, 503, KindOverloaded, "", "m", `{"type":"error","error":{"type":"overloaded_error","message":"m"}}`},
		{Anthropic, 429, "quota", "", "m", `{"type":"error","error":{"type":"rate_limit_error","message":"m"}}`},
		{Anthropic, 500, "", "", "m", `{"type":"error","error":{"type":"api_error","message":"m"}}`},
	}
	for _, c := range cases {
		if got := string(ErrorBody(c.d, c.status, c.kind, c.message, c.param)); got != c.want {
			t.Errorf("got %s\nwant %s", got, c.want)
		}
	}
}

func TestAPI05ErrorEventsAreReadBackAsErrors(t *testing.T) {
	for _, api := range []API{Chat, Completions, Responses, Messages, Other} {
		for _, kind := range []string{KindUpstream, KindTimeout, KindOverloaded, ""} {
			event := ErrorEvent(api.Dialect(), api, kind, "worker \"w1\" broke\r\n\r\nin mid-stream\xff")
			_, data, _ := strings.Cut(string(event), "data: ")
			if !json.Valid([]byte(data)) || strings.Count(data, "\n") != 2 {
				t.Errorf("%s: %q", api, event)
			}
			named := strings.HasPrefix(string(event), "event: error\n")
			if wantNamed := api == Messages || api == Responses; named != wantNamed {
				t.Errorf("%s: %q", api, event)
			}
			var s Stream
			s.Reset(api, true)
			s.Feed(event)
			if s.Err == "" || !s.FirstEventIsError || s.Done {
				t.Errorf("%s: %q is seen as %+v", api, event, s.seen())
			}
		}
	}
}

func TestPathsNameTheirAPI(t *testing.T) {
	cases := []struct {
		method, path string
		api          API
		dialect      Dialect
	}{
		{"POST", "/v1/chat/completions", Chat, OpenAI},
		{"POST", "/chat/completions?x=1", Chat, OpenAI},
		{"POST", "/v1/completions/", Completions, OpenAI},
		{"POST", "/v1/embeddings", Embeddings, OpenAI},
		{"POST", "/v1/responses", Responses, OpenAI},
		{"GET", "/v1/responses/resp_1", Other, OpenAI},
		{"POST", "/v1/messages", Messages, Anthropic},
		{"POST", "/v1/messages/count_tokens", CountTokens, Anthropic},
		{"POST", "/v1/messages/batches", Other, Anthropic},
		{"GET", "/v1/messages", Other, Anthropic},
		{"POST", "/v1/rerank", Other, OpenAI},
		{"GET", "/v1/chat/completions", Other, OpenAI},
	}
	for _, c := range cases {
		if api, d := Route(c.method, c.path); api != c.api || d != c.dialect {
			t.Errorf("%s %s: %s, dialect %d", c.method, c.path, api, d)
		}
	}
	for path, want := range map[string]string{
		"/v1/responses/resp_1": "resp_1", "/v1/responses/resp_1/cancel": "resp_1", "/responses/resp_1/input_items?x=1": "resp_1",
		"/v1/responses": "", "/v1/responses/": "", "/v1/responses/compact": "", "/v1/responses/input_tokens": "", "/v1/models/responses/x": "",
	} {
		if id, ok := ResponseID(path); id != want || ok != (want != "") {
			t.Errorf("%s: %q %v", path, id, ok)
		}
	}
}
