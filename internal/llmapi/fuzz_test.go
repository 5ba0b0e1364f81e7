package llmapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/warmpath/warmpath/internal/jsontext"
	"github.com/warmpath/warmpath/internal/leash"
)

// FuzzScan compares with encoding/json: both must agree on what is JSON, and on the fields where encoding/json sees
// what the engines see. They differ on purpose in depth and in half surrogate pairs, which engines refuse.
func FuzzScan(f *testing.F) {
	for _, body := range []string{
		`{}`, `{"model":"m","messages":[{"role":"user","content":"a"}]}`, `{"prompt":[[1,2],[3]]}`,
		`{"input":[{"type":"function_call","arguments":"{}"}],"stream":true}`, `{"mod\u0065l":"\ud83d\ude00"}`,
		`{"system":[{"text":"s"}],"max_tokens":1e2,"stream_options":{"include_usage":false}}`, `{"a":[1,-0.5e+3,null,true,{}]}`,
		`{"response_format":{"type":"json_schema"},"tools":[{}],"reasoning":{"effort":"low"},"best_of":3,"modalities":["text","audio"]}`,
		`{"text":{"format":{"type":"text"}},"output_config":{"format":{"type":"x"}},"grammar":"g","thinking":{"type":"disabled"}}`,
		"{\"a\":\"\xff\"}", `{"a":"\ud800"}`, `[`, "\xef\xbb\xbf{}", `{"query":"q","documents":["d",{"text":"t"}]}`,
	} {
		f.Add(uint8(Chat), []byte(body))
		f.Add(uint8(Other), []byte(body))
	}
	var r Request
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		defer leash.Hold(t, len(body))()
		api := API(which % (uint8(CountTokens) + 1))
		err := r.Scan(api, body)
		text := bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
		var fields map[string]any
		valid := utf8.Valid(text) && json.Unmarshal(text, &fields) == nil && fields != nil
		var syntax *SyntaxError
		var field *FieldError
		switch {
		case err == nil:
			if !valid {
				t.Fatalf("accepted %q", body)
			}
		case errors.As(err, &syntax):
			if syntax.Offset < 0 || syntax.Offset > len(body) {
				t.Fatalf("offset %d of %d", syntax.Offset, len(body))
			}
			if valid && syntax.What != jsontext.Deep && syntax.What != "half of a surrogate pair" {
				t.Fatalf("refused %q: %v", body, err)
			}
		case !errors.As(err, &field):
			t.Fatalf("%q: %v", body, err)
		}
		if err != nil {
			return
		}
		if model, _ := fields["model"].(string); model != r.Model {
			t.Fatalf("model %q, want %q", r.Model, model)
		}
		if want := needsOf(api, fields); r.Needs&^(NeedVision|NeedAudio) != want {
			t.Fatalf("%q needs %s, want %s", body, r.Needs, want)
		}
		for i, p := range r.Parts {
			if p.Start < 0 || p.End < p.Start || p.End > len(body) {
				t.Fatalf("part %d of %q: %+v", i, body, p)
			}
		}
		if edits := r.InjectUsage(body); edits != nil {
			spliced := Splice(body, edits...)
			if err := r.Scan(api, spliced); err != nil || !r.IncludeUsage {
				t.Fatalf("%q became %q: %v", body, spliced, err)
			}
		}
	})
}

// FuzzStream cuts a stream at will: what is seen and what is forwarded must not depend on the cuts.
func FuzzStream(f *testing.F) {
	for _, stream := range []string{
		"data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: " + usageEvent + "\n\ndata: [DONE]\n\n",
		"data: " + usageEvent + "\r\n\r\ndata: x\r\n\r\n", "data:" + usageEvent + "\r\r: c\r\rdata: [DONE]\r\r",
		"event: error\ndata: {\"type\":\"error\"}\n\n", ": c\n\n: d\n\ndata: {\ndata: \"id\":\"x\"}\n\n", "\xef\xbb\xbfdata: 1\n\n", "data\n\n\n\nid\n",
	} {
		f.Add([]byte(stream), []byte{1, 5, 2}, uint8(Chat), true)
		f.Add([]byte(stream), []byte{3}, uint8(Responses), false)
	}
	f.Fuzz(func(t *testing.T, stream, cuts []byte, which uint8, withhold bool) {
		defer leash.Hold(t, len(stream))()
		api := API(which % (uint8(CountTokens) + 1))
		var whole, cut Stream
		whole.Reset(api, withhold)
		want := feed(&whole, stream, 0)
		cut.Reset(api, withhold)
		var got []byte
		for rest, i := stream, 0; len(rest) > 0; i++ {
			n := len(rest)
			if len(cuts) > 0 {
				n = min(int(cuts[i%len(cuts)]), n)
			}
			if n == 0 {
				n = 1
			}
			piece := bytes.Clone(rest[:n])
			out := cut.Feed(piece)
			if !withhold && !bytes.Equal(out, rest[:n]) {
				t.Fatalf("%q forwarded as %q", rest[:n], out)
			}
			got = append(got, out...)
			for j := range piece {
				piece[j] = '!'
			}
			rest = rest[n:]
		}
		got = append(got, cut.Flush()...)
		if whole.seen() != cut.seen() {
			t.Fatalf("cut by %v:\n got %+v\nwant %+v", cuts, cut.seen(), whole.seen())
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("cut by %v:\n got %q\nwant %q", cuts, got, want)
		}
		if whole.Withheld == 0 && !bytes.Equal(want, stream) {
			t.Fatalf("changed to %q", want)
		}
	})
}

// FuzzScanReply looks for panics and for counts that are not counts.
func FuzzScanReply(f *testing.F) {
	for _, name := range []string{"llamacpp/chat_warm.txt", "llamacpp/messages.txt", "llamacpp/responses.txt", "vllm/chat_2_repeat.txt", "vllm/err_model.txt"} {
		f.Add(uint8(Chat), capture(f, name))
	}
	f.Add(uint8(Messages), []byte(`{"usage":{"input_tokens":1,"cache_read_input_tokens":2e9,"cache_creation_input_tokens":NaN}}`))
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		defer leash.Hold(t, len(body))()
		u := ScanReply(API(which%(uint8(CountTokens)+1)), body).Usage
		for _, n := range []int{u.PromptTokens, u.CompletionTokens, u.CachedTokens} {
			if n < 0 || n > 3*countMax {
				t.Fatalf("%q: %+v", body, u)
			}
		}
		if u.HasPrompt && u.CachedTokens > u.PromptTokens || !u.HasPrompt && u.PromptTokens != 0 {
			t.Fatalf("%q: %+v", body, u)
		}
	})
}
