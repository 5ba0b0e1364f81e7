package dialog

import (
	json "encoding/json/v2"
	"slices"
	"strings"
	"testing"
)

const blockTokens = 16

func read(t *testing.T, body string) *Request {
	t.Helper()
	r, err := Parse([]byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return r
}

func chat(t *testing.T, body string) Prompt {
	t.Helper()
	r := read(t, body)
	return r.ChatPrompt(r.System, r.Messages, blockTokens)
}

func TestOneConversationIsOnePromptInEveryShape(t *testing.T) {
	want := chat(t, `{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hello there"}]}`)
	same := map[string]Prompt{
		"parts":                      chat(t, `{"messages":[{"role":"system","content":[{"type":"text","text":"be brief"}]},{"content":"hello there","role":"user","name":null}]}`),
		"system beside the messages": chat(t, `{"system":"be brief","messages":[{"role":"user","content":[{"type":"text","text":"hello there","cache_control":{}}]}]}`),
		"escaped, last key wins":     chat(t, `{"messages":[],"messages":[{"role":"system","content":"be \u0062rief"},{"role":"user","content":"hello there"}]}`),
	}
	r := read(t, `{"instructions":"be brief","input":"hello there"}`)
	items, err := r.Items()
	if err != nil {
		t.Fatal(err)
	}
	same["responses"] = r.ChatPrompt(Plain(r.Instructions), items, blockTokens)
	for name, p := range same {
		if p.Hash != want.Hash || p.Tokens != want.Tokens {
			t.Errorf("%s: %d tokens and hash %x, want %d and %x", name, p.Tokens, p.Hash, want.Tokens, want.Hash)
		}
	}
}

func TestEverythingTheModelSeesIsPartOfThePrompt(t *testing.T) {
	base := `{"messages":[{"role":"user","content":"hello there"}]}`
	seen := map[uint64]string{chat(t, base).Hash: base}
	for _, body := range []string{
		`{"messages":[{"role":"assistant","content":"hello there"}]}`,
		`{"messages":[{"role":"user","content":"hello therE"}]}`,
		`{"messages":[{"role":"user","content":"hello"},{"role":"user","content":" there"}]}`,
		`{"messages":[{"role":"user","content":"hello there","name":"bob"}]}`,
		`{"messages":[{"role":"user","content":"hello there","tool_calls":[{"id":"1"}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hello there"},{"type":"image_url","image_url":{"url":"data:a"}}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hello there"},{"type":"image_url","image_url":{"url":"data:b"}}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hello there"},{"type":"tool_use","id":"x"}]}]}`,
		`{"messages":[{"role":"user","content":"hello there"}],"tools":[{"type":"function"}]}`,
		`{"messages":[{"role":"user","content":"hello there"}],"chat_template_kwargs":{"thinking":true}}`,
		`{"messages":[{"role":"user","content":"hello there"}],"reasoning_effort":"high"}`,
		`{"messages":[{"role":"user","content":"hello there"}],"cache_salt":"s"}`,
	} {
		p := chat(t, body)
		if other, taken := seen[p.Hash]; taken {
			t.Errorf("%s is the same prompt as %s", body, other)
		}
		seen[p.Hash] = body
	}
	// What only steers sampling or transport is not.
	if p := chat(t, `{"stream":true,"temperature":0.5,"Messages":1,"user":"u",`+base[1:]); seen[p.Hash] != base {
		t.Error("sampling options changed the prompt")
	}
}

func TestPromptsShareTheBlocksOfTheirCommonBeginning(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 8)
	first := chat(t, `{"messages":[{"role":"system","content":"`+long+`"},{"role":"user","content":"a`+long+`"}]}`)
	second := chat(t, `{"messages":[{"role":"system","content":"`+long+`"},{"role":"user","content":"b`+long+`"}]}`)
	if n := len(first.Keys); n != first.Tokens/blockTokens || n < 3 {
		t.Fatalf("%d keys of %d tokens", n, first.Tokens)
	}
	if !slices.Equal(first.Keys[:2], second.Keys[:2]) || first.Keys[2] == second.Keys[2] {
		t.Errorf("keys %x and %x", first.Keys, second.Keys)
	}
	if images := chat(t, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"`+strings.Repeat(long, 100)+`"}}]}]}`); images.Tokens > mediaTokens+20 {
		t.Errorf("an image is %d tokens", images.Tokens)
	}
}

func TestAnAnswerSentBackFallsIntoItsOwnTokens(t *testing.T) {
	p := chat(t, `{"messages":[{"role":"user","content":"hello"}]}`)
	a := NewAnswer(p, 0, Limits{TokensMax: 100, IgnoreEnd: true}, 256, 1)
	keys := a.Through(p).Keys
	next := chat(t, `{"messages":[{"role":"user","content":"hello"},{"role":"assistant","content":"`+a.Text()+`"},{"role":"user","content":"more"}]}`)
	if n := (p.Tokens + 100) / blockTokens; len(keys) != n || !slices.Equal(keys, next.Keys[:n]) {
		t.Errorf("%x while generating, %x afterwards", keys, next.Keys)
	}
}

func TestAnswerLengthsFollowSeedMeanAndLimits(t *testing.T) {
	sum, longest := 0, 0
	const n = 4000
	for i := range n {
		a := NewAnswer(Prompt{Hash: fold(uint64(i))}, 0, Limits{TokensMax: 1 << 20}, 100, 7)
		if a.Finish != "stop" || a.Tokens < 1 {
			t.Fatalf("%+v", a)
		}
		sum, longest = sum+a.Tokens, max(longest, a.Tokens)
	}
	if mean := float64(sum) / n; mean < 95 || mean > 105 || longest > 800 || longest < 500 {
		t.Errorf("mean %g, longest %d", mean, longest)
	}
	p := Prompt{Hash: 42}
	free := NewAnswer(p, 0, Limits{TokensMax: 1 << 20}, 100, 7)
	for _, c := range []struct {
		l      Limits
		tokens int
		finish string
	}{
		{Limits{TokensMax: free.Tokens}, free.Tokens, "stop"},
		{Limits{TokensMax: free.Tokens - 1}, free.Tokens - 1, "length"},
		{Limits{TokensMax: 5000, TokensMin: 3000}, 3000, "stop"},
		{Limits{TokensMax: 5000, IgnoreEnd: true}, 5000, "length"},
	} {
		if a := NewAnswer(p, 0, c.l, 100, 7); a.Tokens != c.tokens || a.Finish != c.finish {
			t.Errorf("%+v: %d tokens, %s", c.l, a.Tokens, a.Finish)
		}
	}
	if NewAnswer(p, 1, Limits{TokensMax: 9}, 100, 7) == NewAnswer(p, 0, Limits{TokensMax: 9}, 100, 7) {
		t.Error("two choices of one prompt are the same")
	}
}

// data returns the JSON of every event in a stream; each must be valid.
func data(t *testing.T, stream []byte) []any {
	t.Helper()
	var list []any
	for line := range strings.Lines(string(stream)) {
		text, ok := strings.CutPrefix(line, "data: ")
		if !ok || text == "[DONE]\n" {
			continue
		}
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Errorf("%v in %s", err, line)
		}
		list = append(list, v)
	}
	return list
}

func TestEveryFormIsValidJSONWhateverTheNames(t *testing.T) {
	r := read(t, `{"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`)
	a := NewAnswer(Prompt{Hash: 3}, 0, Limits{TokensMax: 3, IgnoreEnd: true}, 9, 0)
	h := Head{ID: "id\"\\\n", Model: "m\"\xff", Fingerprint: "\u2028\"", Created: 1}
	u := Usage{Prompt: 30, Cached: 16, Completion: 3}
	for name, f := range map[string]Form{
		"chat":       Chat(h, r, []Answer{a, a}),
		"completion": Completion(h, r, []Answer{a, a}),
		"messages":   Messages(h, a),
		"response":   Response(h, "msg_1", "previous\"", a),
	} {
		var whole any
		if err := json.Unmarshal(f.Whole(nil, u), &whole); err != nil {
			t.Errorf("%s: %v in %s", name, err, f.Whole(nil, u))
		}
		buf := f.Open(nil, u)
		for i := range a.Tokens {
			buf = f.Token(buf, 0, a.Word(nil, i))
		}
		buf = f.Close(f.End(buf, 0), u)
		if events := data(t, buf); len(events) < 5 || !strings.HasSuffix(string(buf), "\n\n") {
			t.Errorf("%s: %s", name, buf)
		}
	}
	out, err := Embeddings(h, read(t, `{"dimensions":3}`), []Prompt{{Hash: 1}}, u)
	var v any
	if err != nil || json.Unmarshal(out, &v) != nil {
		t.Errorf("%v, %s", err, out)
	}
	for _, anthropic := range []bool{false, true} {
		if out := Refuse("p", "what is \"%s\"?", "\xff").Body(anthropic); json.Unmarshal(out, &v) != nil {
			t.Errorf("%s", out)
		}
	}
}

func TestAWrongTypeIsAnErrorThatNamesItsPlace(t *testing.T) {
	for body, want := range map[string]string{
		`{"max_tokens":"many"}`:                      "/max_tokens",
		`{"messages":{}}`:                            "/messages",
		`{"messages":[{"role":"user","content":7}]}`: "content is neither a string nor a list of parts",
		`{"prompt":{"a":1}}`:                         "a prompt is a string, a list of strings, or token ids",
		`{"messages":[`:                              "unexpected EOF",
		`[]`:                                         "JSON array",
		`{"model":"a"} x`:                            "after offset",
	} {
		if _, err := Parse([]byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", body, err)
		}
	}
}
