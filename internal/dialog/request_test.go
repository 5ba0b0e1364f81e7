package dialog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/leash"
)

func FuzzNoRequestBreaksAPrompt(f *testing.F) {
	for _, seed := range []string{
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:,x"}}]}]}`,
		`{"prompt":[[1,2],[3]],"n":2,"seed":-1}`, `{"input":[{"type":"function_call_output","call_id":"c","output":"o"}]}`,
		`{"messages":[{"role":"a","content":null,"tool_calls":[{"id":"1"}]}],"tools":[{}],"max_tokens":null}`, `[]`, `{"messages":7}`, "\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		defer leash.Hold(t, len(raw))()
		b, err := Parse(raw)
		if err != nil {
			return
		}
		p := b.ChatPrompt(b.System, b.Messages, 16)
		if again := b.ChatPrompt(b.System, b.Messages, 16); again.Hash != p.Hash || len(p.Keys) != p.Tokens/16 {
			t.Errorf("%d tokens, %d keys, hashes %x and %x", p.Tokens, len(p.Keys), p.Hash, again.Hash)
		}
		if items, err := b.Items(); err == nil {
			b.ChatPrompt(nil, items, 16)
		}
		a := NewAnswer(p, 0, Limits{TokensMax: 40, TokensMin: 2}, 20, 0)
		if a.Tokens < 1 || a.Tokens > 40 || len(a.Text()) != 4*a.Tokens {
			t.Errorf("%d tokens, text of %d bytes", a.Tokens, len(a.Text()))
		}
		if a != NewAnswer(p, 0, Limits{TokensMax: 40, TokensMin: 2}, 20, 0) {
			t.Error("the same request got two answers")
		}
	})
}

func TestTokenizedIsThePromptThatIsServed(t *testing.T) {
	f := func(body, want string) {
		t.Helper()
		got, err := read(t, body).Tokenized(4096)
		if err != nil {
			got = []byte(err.Error())
		}
		if string(got) != want {
			t.Errorf("%s: %s", body, got)
		}
	}
	f(`{"prompt":[7,4294967295,0]}`, `{"count":3,"max_model_len":4096,"tokens":[7,4294967295,0],"token_strs":null}`)
	f(`{"prompt":"abcd"}`, `{"count":1,"max_model_len":4096,"tokens":[1684234849],"token_strs":null}`)
	f(`{"prompt":["a","b"]}`, "prompt must be one text, got 2.")
	f(`{}`, "prompt is required.")
	f(`{"messages":[{"role":"user","content":"x"}],"continue_final_message":true,"add_generation_prompt":true}`, "Cannot set both `continue_final_message` and `add_generation_prompt` to True.")
	seen := map[string]string{}
	for name, more := range map[string]string{
		"plain": ``, "tools": `,"tools":[{}]`, "settings": `,"chat_template_kwargs":{"a":1}`, "effort": `,"reasoning_effort":"low"`, "documents": `,"documents":[{}]`,
		"no generation prompt": `,"add_generation_prompt":false`, "continued": `,"continue_final_message":true`,
	} {
		body := `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}]` + more + `}`
		got, err := read(t, body).Tokenized(4096)
		r := read(t, body)
		r.KeepIDs = true
		if p := r.ChatPrompt(nil, r.Messages, 16); err != nil || !strings.Contains(string(got), fmt.Sprintf(`"count":%d,`, p.Tokens)) || p.Tokens != len(p.IDs) {
			t.Errorf("%s: %s %v", name, got, err)
		}
		if other, twice := seen[string(got)]; twice {
			t.Errorf("%s and %s are the same prompt", name, other)
		}
		seen[string(got)] = name
	}
}
