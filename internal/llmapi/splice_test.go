package llmapi

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestJSN01AnAliasLeavesEveryOtherByteAlone(t *testing.T) {
	rest := `,"seed":9007199254740993,"x":1e400,"y":1.0,"z":-0,"big":12345678901234567890,"t":"<>&` + "\u2028" + `\ud83d\ude00"}`
	body := []byte(`{ "model" : "gpt-4"` + rest)
	r := scan(t, Chat, string(body))
	got := string(Splice(body, Edit{r.ModelSpan, []byte(`"qwen"`)}))
	if want := `{ "model" : "qwen"` + rest; got != want {
		t.Fatalf("got %s\nwant %s", got, want)
	}
}

func TestSTR08UsageIsInjectedOnlyWhereTheClientDidNotAsk(t *testing.T) {
	cases := []struct{ name, body, want string }{
		{"absent", `{"stream":true,"a":1}`, `{"stream_options":{"include_usage":true},"stream":true,"a":1}`},
		{"after a mark and space", "\xef\xbb\xbf { \"stream\":true}", "\xef\xbb\xbf {\"stream_options\":{\"include_usage\":true}, \"stream\":true}"},
		{"null", `{"stream_options":null,"stream":true}`, `{"stream_options":{"include_usage":true},"stream":true}`},
		{"empty", `{"stream_options":{ },"stream":true}`, `{"stream_options":{"include_usage":true},"stream":true}`},
		{"false", `{"stream_options":{"include_usage": false ,"x":1},"stream":true}`, `{"stream_options":{"include_usage": true ,"x":1},"stream":true}`},
		{"other members", `{"stream_options":{"x":1},"stream":true}`, `{"stream_options":{"include_usage":true,"x":1},"stream":true}`},
		{"the last of two", `{"stream_options":{"include_usage":true},"stream_options":{"include_usage":null},"stream":true}`,
			`{"stream_options":{"include_usage":true},"stream_options":{"include_usage":true},"stream":true}`},
		{"asked already", `{"stream_options":{"include_usage":true},"stream":true}`, ""},
		{"not streamed", `{"stream":false}`, ""},
		{"wrong type is the engine's to judge", `{"stream_options":5,"stream":true}`, ""},
		{"every event would carry it", `{"stream_options":{"continuous_usage_stats":true},"stream":true}`, ""},
	}
	for _, c := range cases {
		for _, api := range []API{Chat, Completions, Responses, Messages, Embeddings, Other} {
			r := scan(t, api, c.body)
			edits := r.InjectUsage([]byte(c.body))
			if c.want == "" || api != Chat && api != Completions {
				if edits != nil {
					t.Errorf("%s, %s: edits %v", c.name, api, edits)
				}
				continue
			}
			got := string(Splice([]byte(c.body), edits...))
			if got != c.want || !json.Valid([]byte(strings.TrimPrefix(got, "\xef\xbb\xbf"))) {
				t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
			}
		}
	}
}

func TestSeveralEditsInOneSplice(t *testing.T) {
	got := string(Splice([]byte("0123456789"), Edit{span(10, 10), []byte(">")}, Edit{span(0, 0), []byte("<")}, Edit{span(2, 5), nil}))
	if got != "<0156789>" {
		t.Fatal(got)
	}
}
