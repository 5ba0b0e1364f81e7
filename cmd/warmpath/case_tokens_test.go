package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/kvevent"
	"github.com/warmpath/warmpath/internal/modelfile"
	"github.com/warmpath/warmpath/internal/render"
	"github.com/warmpath/warmpath/internal/template"
	"github.com/warmpath/warmpath/internal/tokenizer"
)

// begins is how an answer begins, in as many words as fill blocks of their own.
const begins = "and now the assistant, who has read all that was said above and knows of nothing else, begins to answer in its own words: "

// heeding is a chat template in whose prompts all shows that a request may hold.
const heeding = `{% if tools %}tools: {{ tools | tojson }}
{% endif %}{% if tone %}tone: {{ tone }}
{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
` + begins + `{% endif %}`

// written is what a template of the teller's own, much like it, makes of a request's body.
func written(body []byte) string {
	var in struct {
		Prompt   string
		Messages []struct {
			Role      string
			Content   json.RawMessage
			Reasoning string          `json:"reasoning_content"`
			Calls     json.RawMessage `json:"tool_calls"`
		}
		Tools    json.RawMessage
		Template json.RawMessage `json:"chat_template_kwargs"`
		Begin    *bool           `json:"add_generation_prompt"`
		GoOn     bool            `json:"continue_final_message"`
	}
	_ = json.Unmarshal(body, &in) // what cannot be read has no prompt
	plain := func(raw json.RawMessage) string {
		var out bytes.Buffer
		_ = json.Compact(&out, raw)
		return out.String()
	}
	text := in.Prompt + plain(in.Tools) + plain(in.Template)
	for i, m := range in.Messages {
		var content string
		var parts []struct{ Text string }
		if json.Unmarshal(m.Content, &content) != nil && json.Unmarshal(m.Content, &parts) == nil {
			for _, p := range parts {
				content += "[" + p.Text + "]"
			}
		}
		text += turn(m.Role, m.Reasoning+content+plain(m.Calls))
		if !in.GoOn || i < len(in.Messages)-1 {
			text += "<end>"
		}
	}
	if in.Messages != nil && (in.Begin == nil || *in.Begin) {
		text += begins
	}
	return text
}

// newHeeding is a teller with prompts of its own, which it tells in the way of newer engines: asked for a whole request, as it would be served.
func newHeeding(t *testing.T, ids func(body []byte) []uint32) *teller {
	e := newTeller(t, true)
	e.worker.on(func(c *call) {
		switch c.r.URL.Path {
		case "/v1/chat/completions/render", "/v1/completions/render":
			list, _ := json.Marshal(ids(c.body))
			c.json(http.StatusOK, fmt.Sprintf(`{"token_ids":%s}`, list))
		case "/tokenize":
			http.NotFound(c.w, c.r)
		case "/v1/chat/completions":
			n := len(ids(c.body))
			c.json(http.StatusOK, fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":1,"total_tokens":%d}}`, n, n+1))
		default:
			e.script(c)
		}
	})
	return e
}

// ofModel are the tokens that a model's files make of a request.
func ofModel(t *testing.T, dir string) func(body []byte) []uint32 {
	model, err := modelfile.Load(dir, "m")
	if err != nil {
		t.Fatal(err)
	}
	return func(body []byte) []uint32 {
		var text struct{ Prompt *string }
		if json.Unmarshal(body, &text) == nil && text.Prompt != nil {
			return model.Tokenizer.Encode(nil, *text.Prompt, tokenizer.Options{Wrap: true})
		}
		request, err := template.ReadRequest(string(body))
		if err != nil {
			t.Error(err)
			return nil
		}
		made, err := model.Template.RenderRequest(request, len(body), time.Now())
		if err != nil {
			t.Errorf("%s: %v", body, err)
		}
		return model.Tokenizer.Encode(nil, made, tokenizer.Options{})
	}
}

// heeded are pairs of requests that differ in one thing alone, which must show in their tokens. %q is the place of a long text.
var heeded = map[string][2]string{
	"tools":              {`{"model":"m","messages":[{"role":"user","content":%q}],"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"z":{},"a":{}}}}}]}`, `{"model":"m","messages":[{"role":"user","content":%q}]}`},
	"template arguments": {`{"model":"m","messages":[{"role":"user","content":%q}],"chat_template_kwargs":{"tone":"as short as can be, and never rude"}}`, `{"model":"m","messages":[{"role":"user","content":%q}]}`},
	"reasoning of before": {`{"model":"m","messages":[{"role":"user","content":"Hi"},{"role":"assistant","reasoning_content":"it is a greeting, and so is the answer","content":"Ho"},{"role":"user","content":%q}]}`,
		`{"model":"m","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Ho"},{"role":"user","content":%q}]}`},
	"the beginning of an answer": {`{"model":"m","messages":[{"role":"user","content":%q}]}`, `{"model":"m","messages":[{"role":"user","content":%q}],"add_generation_prompt":false}`},
	"an answer that goes on": {`{"model":"m","messages":[{"role":"user","content":"go on"},{"role":"assistant","content":%q}]}`,
		`{"model":"m","messages":[{"role":"user","content":"go on"},{"role":"assistant","content":%q}],"add_generation_prompt":false,"continue_final_message":true}`},
	"a system prompt in parts": {`{"model":"m","messages":[{"role":"system","content":[{"type":"text","text":"Be brief, whatever"},{"type":"text","text":"it is that you are asked."}]},{"role":"user","content":%q}]}`,
		`{"model":"m","messages":[{"role":"system","content":"Be brief, whatever it is that you are asked."},{"role":"user","content":%q}]}`},
	"tool calls": {`{"model":"m","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"z\":1,\"a\":2}"}}]},{"role":"tool","tool_call_id":"1","content":%q}]}`,
		`{"model":"m","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":""},{"role":"tool","tool_call_id":"1","content":%q}]}`},
}

// heldBlocks are how many leading blocks of a prompt are among those of prompts that were computed. Of a prompt's last token no cache is of use.
func heldBlocks(prompt []uint32, computed [][]uint32) (most int) {
	for _, other := range computed {
		n := 0
		for n < len(prompt)-1 && n < len(other) && prompt[n] == other[n] {
			n++
		}
		most = max(most, n/tellerBlock)
	}
	return most
}

func TestTOK_01_WhateverAPromptDependsOnItsBlocksAreFoundWhereTheyWereComputed(t *testing.T) {
	dir := modelFiles(t, heeding)
	for _, way := range []struct {
		mode  render.Mode
		files []config.ModelFiles
		ids   func(body []byte) []uint32
	}{
		{render.EngineSide, nil, func(body []byte) []uint32 { return tokensOf(written(body)) }},
		{render.Exact, []config.ModelFiles{{Model: "m", Path: dir}}, ofModel(t, dir)},
	} {
		t.Run(string(way.mode), func(t *testing.T) {
			w1, w2 := newHeeding(t, way.ids), newHeeding(t, way.ids)
			rt := start(t, func(c *config.Config) {
				c.Policy, c.ExplainHeaders, c.Exact.TokensTimeout, c.Exact.Tokenizers = "affinity-filter", true, 30*time.Second, way.files
			}, w1.worker, w2.worker)
			w1.awaitSubscriber()
			w2.awaitSubscriber()
			eventually(t, "tokens to be known", func() bool {
				states := rt.exact.render.States()
				return len(states) == 1 && states[0].Mode == way.mode
			})
			var of1, of2 [][]uint32
			for _, name := range slices.Sorted(maps.Keys(heeded)) {
				with, without := fmt.Sprintf(heeded[name][0], long(name)), fmt.Sprintf(heeded[name][1], long(name))
				ids1, ids2 := way.ids([]byte(with)), way.ids([]byte(without))
				of1, of2 = append(of1, ids1), append(of2, ids2)
				w1.say(computed(ids1, kvevent.Event{})...)
				w2.say(computed(ids2, kvevent.Event{})...)
				rt.heard("w1", w1, kvevent.Exact)
				rt.heard("w2", w2, kvevent.Exact)
				truth := func(ids []uint32) map[string]int {
					return map[string]int{"w1": heldBlocks(ids, of1), "w2": heldBlocks(ids, of2)}
				}
				if all := truth(ids1); all["w1"] != (len(ids1)-1)/tellerBlock || all["w1"] <= all["w2"] {
					t.Fatalf("%s: the test shows nothing: %v", name, all)
				}
				rt.wantCredit(name, with, truth(ids1))
				rt.wantCredit("without "+name, without, truth(ids2))
			}
		})
	}
}
