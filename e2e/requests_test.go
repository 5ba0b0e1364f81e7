//go:build e2e

package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// told shows what a template is given, in front of a usual prompt.
const told = `{{ add_generation_prompt is defined }} {{ documents is defined }} {{ reasoning_effort is defined }} {{ x }}
{% if tools %}{{ tools | tojson }}
{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.content is string %}{{ m.content | trim }}{% endif %}{% for c in m.tool_calls %}<tool_call>{{ c.function.name }} {{ c.function.arguments | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// bytesModel has a token for each byte, and this template.
func bytesModel(t *testing.T, template string) string {
	tokens := []string{"<|im_start|>"}
	for _, s := range byteSpelling() {
		tokens = append(tokens, s)
	}
	return writeModel(t, len(tokens), func(m *metadata) {
		m.set("tokenizer.ggml.model", "gpt2")
		m.set("tokenizer.ggml.pre", "gpt-2")
		m.set("tokenizer.ggml.tokens", tokens)
		m.set("tokenizer.ggml.merges", []string{})
		m.set("tokenizer.ggml.bos_token_id", 0)
		m.set("tokenizer.ggml.eos_token_id", 0)
		m.set("tokenizer.chat_template", template)
	})
}

func TestChatRequestsBecomeThePromptsThatLlamaServerMakes(t *testing.T) {
	const (
		tools = `[{"type":"function","function":{"name":"get_weather","description":"Get <b>&'\"é","strict":true,"parameters":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"number","default":0.50}},"required":["z"]}}},{"type":"function","function":{"name":"bare","parameters":{}}}]`
		call  = `{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"abc123def","type":"function","function":{"name":"get_weather","arguments":"{\"z\": \"Paris\", \"a\": 1.50}"}}]}`
	)
	bodies := []string{
		`{"messages":[{"role":"user","content":"x"}]}`,
		`{"messages":[{"role":"system","content":"  be brief "},{"role":"user","content":"\u3000x\u00a0\n"}]}`,
		`{"messages":[{"role":"developer","content":"dev"},{"role":"user","content":"x"}]}`,
		`{"messages":[{"role":"user","content":""}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"one"},{"type":"text","text":""},{"type":"text","text":"two"}]}]}`,
		`{"messages":[{"role":"user","name":"bob","content":"x","extra":1}],"reasoning_effort":"high"}`,
		`{"messages":[{"role":"user","content":"x"}],"add_generation_prompt":false}`,
		`{"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"x":5,"documents":[]}}`,
		`{"messages":[{"role":"user","content":"x"}],"tools":` + tools + `}`,
		`{"messages":[` + call + `,{"role":"tool","tool_call_id":"abc123def","content":"sunny"},{"role":"user","content":"and?"}],"tools":` + tools + `}`,
		`{"messages":[` + call + `,{"role":"tool","tool_call_id":"abc123def","content":[{"type":"text","text":"r"}]},{"role":"user","content":"and?"}]}`,
		`{"messages":[{"role":"user","content":"2+2"},{"role":"assistant","content":"4","reasoning_content":"hm"},{"role":"user","content":"3+3"}]}`,
		`{"messages":[{"role":"user","content":"2+2"},{"role":"assistant","content":"<think>\nhm\n</think>\n\n4"},{"role":"user","content":"3+3"}]}`,
	}
	refused := []string{ // by us: what the server makes of these is its own
		`{"messages":[{"role":"user","content":"2+2"},{"role":"assistant","content":"4"}]}`,
		`{"messages":[{"role":"user","content":"2+2"},{"role":"assistant","content":"4"}],"continue_final_message":true,"add_generation_prompt":false}`,
	}
	for name, path := range map[string]string{"all that is given": bytesModel(t, told), "smollm2": model} {
		t.Run(name, func(t *testing.T) {
			s := startTokens(t, path)
			for n, body := range append(bodies, refused...) {
				var answer struct{ Prompt string }
				s.post(t, "/apply-template", json.RawMessage(body), &answer)
				rendered, err := s.ours.Template.Render(body, time.Time{})
				if n >= len(bodies) {
					if err == nil || !strings.Contains(err.Error(), "llama.cpp") {
						t.Errorf("%s: %q, %v, want it refused", body, rendered, err)
					}
					continue
				}
				if got, _ := s.ours.Prompt(rendered); err != nil || got != answer.Prompt {
					t.Errorf("%s: %v\nours   %q\nserver %q", body, err, got, answer.Prompt)
				}
			}
		})
	}
}
