package dialog

import "testing"

func FuzzNoRequestBreaksAPrompt(f *testing.F) {
	for _, seed := range []string{
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:,x"}}]}]}`,
		`{"prompt":[[1,2],[3]],"n":2,"seed":-1}`, `{"input":[{"type":"function_call_output","call_id":"c","output":"o"}]}`,
		`{"messages":[{"role":"a","content":null,"tool_calls":[{"id":"1"}]}],"tools":[{}],"max_tokens":null}`, `[]`, `{"messages":7}`, "\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
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
