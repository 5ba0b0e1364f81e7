package llmapi

import (
	"strings"
	"testing"
)

func TestWhatARequestNeedsOfAModel(t *testing.T) {
	cases := []struct {
		api  API
		body string
		want string
	}{
		{Chat, `{"messages":[{"role":"user","content":"a"}],"temperature":1}`, ""},
		{Chat, `{"tools":[{"type":"function"}]}`, "tools"},
		{Chat, `{"functions":[{"name":"f"}]}`, "tools"},
		{Chat, `{"tools":[],"tool_choice":"none"}`, ""},
		{Chat, `{"tools":[{}],"tools":null}`, ""},
		{Chat, `{"response_format":{"type":"text"}}`, ""},
		{Chat, `{"response_format":null}`, ""},
		{Chat, `{"response_format":{"type":"json_object"}}`, "json"},
		{Chat, `{"response_format":{"json_schema":{"type":"x"},"type":"json_schema"}}`, "json"},
		{Chat, `{"response_format":{"type":"json_object"},"response_format":{"type":"te\u0078t"}}`, ""},
		{Chat, `{"structured_outputs":{"choice":["a"]}}`, "json"},
		{Chat, `{"structured_outputs":{ }}`, ""},
		{Completions, `{"guided_regex":"a+","guided_json":null,"best_of":2}`, "json"},
		{Chat, `{"tools":[ ]}`, ""},
		{Completions, `{"prompt":"p","grammar":"root ::= \"a\""}`, "json"},
		{Completions, `{"prompt":"p","grammar":""}`, ""},
		{Other, `{"prompt":"p","json_schema":{"type":"object"}}`, "json"},
		{Responses, `{"input":"a","text":{"format":{"type":"json_schema"}}}`, "json"},
		{Responses, `{"input":"a","text":{"format":{"type":"text"},"verbosity":"low"}}`, ""},
		{Responses, `{"input":"a","reasoning":{"effort":"low"}}`, "reasoning"},
		{Responses, `{"input":"a","reasoning":{"effort":"none"}}`, ""},
		{Responses, `{"input":"a","reasoning":{"summary":"auto"}}`, ""},
		{Chat, `{"reasoning_effort":"high"}`, "reasoning"},
		{Chat, `{"reasoning_effort":"none"}`, ""},
		{Chat, `{"chat_template_kwargs":{"enable_thinking":true}}`, "reasoning"},
		{Chat, `{"chat_template_kwargs":{"enable_thinking":false}}`, ""},
		{Messages, `{"thinking":{"type":"enabled","budget_tokens":1024},"messages":[]}`, "reasoning"},
		{Messages, `{"thinking":{"type":"disabled"},"messages":[]}`, ""},
		{Messages, `{"output_config":{"effort":"low","format":{"type":"json_schema"}}}`, "json"},
		{Messages, `{"output_format":{"type":"json_schema","schema":{}},"tools":[{"name":"t"}]}`, "tools+json"},
		{Messages, `{"messages":[{"role":"user","content":[{"type":"image","source":{"data":"d"}}]}]}`, "vision"},
		{Chat, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}},{"type":"text","text":"t"}]}]}`, "vision"},
		{Chat, `{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"d"}}]}]}`, "audio"},
		{Chat, `{"messages":[{"role":"user","content":[{"type":"video_url","video_url":{"url":"u"}},{"type":"audio_url","audio_url":{}}]}]}`, "vision+audio"},
		{Chat, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]}],"messages":[]}`, ""},
		{Chat, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":null}]}]}`, ""},
		{Chat, `{"modalities":["text","audio"],"audio":{"voice":"v"}}`, "audio"},
		{Chat, `{"modalities":["text"],"metadata":{"tools":[1],"thinking":{"type":"enabled"}}}`, ""},
		{Responses, `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"u"}]}],"tools":[{"type":"web_search"}],"reasoning":{"effort":"high"}}`, "tools+vision+reasoning"},
	}
	for _, c := range cases {
		if got := scan(t, c.api, c.body).Needs.String(); got != c.want {
			t.Errorf("%s %s: needs %q, want %q", c.api, c.body, got, c.want)
		}
	}
}

func TestNeedsAreNamed(t *testing.T) {
	for _, name := range NeedNames() {
		if got := NeedOf(name).String(); got != name {
			t.Errorf("%s is %q", name, got)
		}
	}
	if all := Needs(0xff); len(strings.Split(all.String(), "+")) != len(NeedNames()) || NeedOf("sight") != 0 {
		t.Errorf("all are %q", all)
	}
}

func TestTheAnswersGeneratedAreTheMostOfNAndBestOf(t *testing.T) {
	f := func(body string, want int) {
		t.Helper()
		if got := scan(t, Completions, body).Answers; got != want {
			t.Errorf("%s: %d answers, want %d", body, got, want)
		}
	}
	f(`{"prompt":"p"}`, 1)
	f(`{"n":3}`, 3)
	f(`{"n":2,"best_of":5}`, 5)
	f(`{"n":4,"best_of":1}`, 4)
	f(`{"n":0,"best_of":null}`, 1)
}

// needsOf works out, from fields as encoding/json reads them, what Scan should find besides media.
func needsOf(api API, fields map[string]any) (n Needs) {
	kind := func(v any, key string) string {
		object, _ := v.(map[string]any)
		text, _ := object[key].(string)
		return text
	}
	said := func(key string) bool {
		switch v := fields[key].(type) {
		case string:
			return v != ""
		case []any:
			return len(v) > 0
		case map[string]any:
			return len(v) > 0
		default:
			return v != nil && v != false
		}
	}
	format := func(v any) {
		if k := kind(v, "type"); k != "" && k != "text" {
			n |= NeedJSON
		}
	}
	within := func(v any) any {
		object, _ := v.(map[string]any)
		return object["format"]
	}
	if said("tools") || said("functions") {
		n |= NeedTools
	}
	format(fields["response_format"])
	format(fields["output_format"])
	format(within(fields["output_config"]))
	if api != Other {
		format(within(fields["text"]))
	}
	for _, key := range wishes[5:] {
		if said(key) {
			n |= NeedJSON
		}
	}
	effort, _ := fields["reasoning_effort"].(string)
	n |= thinks(effort) | thinks(kind(fields["reasoning"], "effort")) | thinks(kind(fields["thinking"], "type"))
	if object, _ := fields["chat_template_kwargs"].(map[string]any); object["enable_thinking"] == true || object["thinking"] == true {
		n |= NeedReasoning
	}
	return n
}
