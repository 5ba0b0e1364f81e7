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

func TestAPriorityIsWrittenOnceAndNothingElseChanges(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{`{"model":"m","messages":[]}`, `{"model":"m","messages":[],"priority":-1}`},
		{`{"priority": 7 ,"messages":[],"n":1.0}`, `{"priority": -1 ,"messages":[],"n":1.0}`},
		{`{"priority":1,"messages":[],"priority":"low"}`, `{"priority":1,"messages":[],"priority":-1}`},
		{`{"priority":null,"messages":[]}`, `{"priority":null,"messages":[],"priority":-1}`},
		{"{\n}\n", "{\n\"priority\":-1}\n"},
	} {
		var r Request
		if err := r.Scan(Chat, []byte(c.body)); err != nil {
			t.Fatal(err)
		}
		if got := string(Splice([]byte(c.body), r.SetPriority([]byte(c.body), -1))); got != c.want {
			t.Errorf("%s: %s, want %s", c.body, got, c.want)
		}
	}
}

func TestAPriorityIsANumberOrAName(t *testing.T) {
	for body, want := range map[string]Request{
		`{"priority":-2}`: {Priority: -2}, `{"priority":3.0}`: {Priority: 3}, `{"priority":"batch"}`: {PriorityName: "batch"}, `{"priority":99999999999}`: {Priority: countMax},
		`{"priority":"b\u0061tch"}`: {PriorityName: "batch"}, `{"priority":[1]}`: {}, `{"priority":1,"priority":"x"}`: {PriorityName: "x"}, `{"priority":"x","priority":1}`: {Priority: 1},
	} {
		var r Request
		if err := r.Scan(Chat, []byte(body)); err != nil || r.Priority != want.Priority || r.PriorityName != want.PriorityName || !r.PrioritySpan.Found() {
			t.Errorf("%s: %v, %d, %q, %v", body, err, r.Priority, r.PriorityName, r.PrioritySpan)
		}
	}
	var r Request
	for _, body := range []string{`{}`, `{"priority":null}`, `{"priority":1,"priority":null}`} {
		if err := r.Scan(Chat, []byte(body)); err != nil || r.PrioritySpan.Found() || r.PriorityName != "" {
			t.Errorf("%s: %v, %+v", body, err, r.PrioritySpan)
		}
	}
}
