package render

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/template"
	"github.com/warmpath/warmpath/internal/tokenizer"
)

// TOK-01: what tokens depend on.
func TestTOK01EverythingThatAPromptDependsOnIsInItsTokens(t *testing.T) {
	const tool = `"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"z":{},"a":{}}}}}]`
	variants := map[string]string{
		"plain":                      `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`,
		"tools":                      `{"model":"m","messages":[{"role":"user","content":"Hi"}],` + tool + `}`,
		"chat_template_kwargs":       `{"model":"m","messages":[{"role":"user","content":"Hi"}],"chat_template_kwargs":{"enable_thinking":false}}`,
		"reasoning_content":          `{"model":"m","messages":[{"role":"user","content":"Hi"},{"role":"assistant","reasoning_content":"hm","content":"Ho"},{"role":"user","content":"Hi"}]}`,
		"add_generation_prompt":      `{"model":"m","messages":[{"role":"user","content":"Hi"}],"add_generation_prompt":false}`,
		"continue_final_message":     `{"model":"m","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Well,"}],"add_generation_prompt":false,"continue_final_message":true}`,
		"a system prompt":            `{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}]}`,
		"a system prompt in parts":   `{"model":"m","messages":[{"role":"system","content":[{"type":"text","text":"Be"},{"type":"text","text":"brief."}]},{"role":"user","content":"Hi"}]}`,
		"reasoning_effort":           `{"model":"m","messages":[{"role":"user","content":"Hi"}],"reasoning_effort":"high"}`,
		"documents":                  `{"model":"m","messages":[{"role":"user","content":"Hi"}],"documents":[{"title":"t","text":"x"}]}`,
		"tool calls and their order": `{"model":"m","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"z\":1,\"a\":2}"}}]},{"role":"tool","tool_call_id":"1","content":"r"}],` + tool + `}`,
	}
	dir := house(t, chatML)
	e := newTeller(t, dir)
	for _, mode := range []Mode{Exact, EngineSide} {
		s := start(t, func(o *Options) {
			if mode == Exact {
				o.Files = map[string]string{"m": dir}
			}
		})
		s.Follow(e.target("a", "warmpath"))
		s.mode(mode)
		seen := map[string]string{}
		for name, body := range variants {
			ids, ok := s.ask(llmapi.Chat, body)
			if !ok || !slices.Equal(ids, truth(t, dir, body)) {
				t.Errorf("%s, %s: %v %v", mode, name, ids, ok)
			}
			if other, twice := seen[fmt.Sprint(ids)]; twice {
				t.Errorf("%s: %s and %s have the same tokens", mode, name, other)
			}
			seen[fmt.Sprint(ids)] = name
		}
	}
}

// TOK-03: bodies of every shape.
func TestTOK03NoShapeOfARequestStopsTheNextOne(t *testing.T) {
	dir := house(t, chatML)
	e := newTeller(t, dir)
	s := start(t, func(o *Options) { o.Files = map[string]string{"m": dir} })
	s.Follow(e.target("a", "warmpath"))
	s.mode(Exact)
	for _, c := range []struct {
		api  llmapi.API
		body string
		want string // its tokens' number, no or some
	}{
		{llmapi.Embeddings, `{"model":"m","input":"x"}`, "no"},
		{llmapi.Embeddings, `{"model":"m","input":[[1,2],[3]]}`, "no"},
		{llmapi.Other, `{"model":"m","query":"q","documents":["a","b"]}`, "no"},
		{llmapi.Completions, `{"model":"m","prompt":[1,2,3]}`, "3"},
		{llmapi.Completions, `{"model":"m","prompt":[[7,4294967295]]}`, "2"},
		{llmapi.Completions, `{"model":"m","prompt":[[1,2],[3]]}`, "no"},
		{llmapi.Completions, `{"model":"m","prompt":[1.5,2]}`, "no"},
		{llmapi.Completions, `{"model":"m","prompt":[1,99999999999]}`, "no"},
		{llmapi.Completions, `{"model":"m","prompt":["a","b"]}`, "no"},
		{llmapi.Completions, `{"model":"m","prompt":["ab"]}`, "1"},
		{llmapi.Completions, `{"model":"m","prompt":"ab","truncate_prompt_tokens":1}`, "no"},
		{llmapi.Completions, `{"model":"m","prompt":"ab","suffix":"x"}`, "no"},
		{llmapi.Completions, `{"model":"m"}`, "no"},
		{llmapi.Completions, `{"model":"m","prompt":null}`, "no"},
		{llmapi.Chat, `{"model":"m","messages":[]}`, "some"},
		{llmapi.Chat, `{"model":"m"}`, "no"},
		{llmapi.Chat, `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,x"}}]}]}`, "no"},
		{llmapi.Chat, `{"model":"m","messages":[{"role":"user","content":[{"type":"hologram"}]}]}`, "no"},
		{llmapi.Chat, `{"model":"m","messages":[{"role":"critic","content":"x"}]}`, "no"},
		{llmapi.Chat, `{"model":"m","messages":[{"role":"user","content":"x"}],"chat_template":"{{ 1 }}"}`, "no"},
		{llmapi.Chat, `{"model":"m","messages":[{"role":"user","content":"x"}],"continue_final_message":true}`, "no"},
		{llmapi.Responses, `{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"x"}]}]}`, "no"},
		{llmapi.Responses, `{"model":"m","input":"x","previous_response_id":"r"}`, "no"},
		{llmapi.Messages, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}`, "no"},
		{llmapi.Messages, `{"model":"m","messages":[{"role":"user","content":"a"}],"tools":[{"name":"f"}]}`, "no"},
	} {
		ids, ok := s.ask(c.api, c.body)
		if got := fmt.Sprint(len(ids)); ok != (c.want != "no") || ok && c.want != "some" && got != c.want {
			t.Errorf("%s: %v, %s tokens, not %s", c.body, ok, got, c.want)
		}
		if _, ok := s.ask(llmapi.Chat, hello); !ok {
			t.Fatalf("%s: the next chat has no tokens", c.body)
		}
	}
}

func TestMessagesAndResponsesOfPlainTextAreTheChatThatVLLMMakesOfThem(t *testing.T) {
	dir := house(t, chatML)
	e := newTeller(t, dir)
	s := start(t, func(o *Options) { o.Files = map[string]string{"m": dir} })
	s.Follow(e.target("a", "warmpath"))
	s.mode(Exact)
	f := func(api llmapi.API, body, chat string) {
		t.Helper()
		if ids, ok := s.ask(api, body); !ok || !slices.Equal(ids, truth(t, dir, chat)) {
			t.Errorf("%s: %v %v", body, ids, ok)
		}
	}
	const chat = `{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"},{"role":"assistant","content":"Ho"},{"role":"user","content":"Well?"}]}`
	f(llmapi.Messages, `{"model":"m","max_tokens":9,"system":"Be brief.","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"text","text":"Ho"}]},{"role":"user","content":[{"type":"text","text":"Well?"},{"type":"text","text":""}]}]}`, chat)
	f(llmapi.Messages, `{"model":"m","system":[{"type":"text","text":"x-anthropic-billing-header: 7"},{"type":"text","text":"Be brief.","cache_control":{}}],"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Ho"},{"role":"user","content":"Well?"}]}`, chat)
	f(llmapi.Responses, `{"model":"m","instructions":"Be brief.","input":[{"role":"user","content":"Hi"},{"type":"message","role":"assistant","content":"Ho"},{"role":"user","content":"Well?"}],"tools":[]}`, chat)
	f(llmapi.Responses, `{"model":"m","input":"Hi"}`, `{"messages":[{"role":"user","content":"Hi"}]}`)
}

// SEC-06: nesting. The process must survive, and serve the next request.
func TestSEC06DeepRequestsAreRefusedAndNothingElse(t *testing.T) {
	dir := house(t, chatML)
	e := newTeller(t, dir)
	s := start(t, func(o *Options) { o.Files = map[string]string{"m": dir} })
	s.Follow(e.target("a", "warmpath"))
	s.mode(Exact)
	deep := func(n int, open, end string) string { return strings.Repeat(open, n) + strings.Repeat(end, n) }
	many := &strings.Builder{}
	for i := range 100_000 {
		fmt.Fprintf(many, `"k%d":1,`, i)
	}
	for what, part := range map[string]string{
		"lists in a field that is ignored": `"x":` + deep(1_000_000, "[", "]"),
		"objects in a tool":                `"tools":[{"type":"function","function":{"name":"f","parameters":` + strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000) + `}}]`,
		"template arguments":               `"chat_template_kwargs":{"x":` + deep(5_000, "[", "]") + `}`,
		"lists that are never closed":      `"x":` + strings.Repeat("[", 1_000_000),
	} {
		body := []byte(`{"model":"m","messages":[{"role":"user","content":"x"}],` + part + `}`)
		var req llmapi.Request // not scanned: nothing here leans on a scan before
		if _, ok := s.Tokens(t.Context(), Ask{Model: "m", API: llmapi.Chat, Req: &req, Body: body}, nil); ok {
			t.Errorf("%s: it has tokens", what)
		}
	}
	if _, ok := s.ask(llmapi.Chat, `{"model":"m",`+many.String()+`"messages":[{"role":"user","content":"x"}]}`); !ok {
		t.Error("many fields that mean nothing change nothing")
	}
	if _, ok := s.ask(llmapi.Chat, hello); !ok {
		t.Error("the next request has no tokens")
	}
}

func TestADatedTemplateIsExactOnlyWhileTheEnginesDateIsKnown(t *testing.T) {
	dir := house(t, `{{ strftime_now("%d %b %Y") }}`+chatML)
	noon := time.Date(2026, 3, 4, 12, 30, 0, 0, time.UTC)
	clock := noon
	e := newTeller(t, dir)
	zone := time.FixedZone("", 9*3600)
	e.now = func() time.Time { return clock.In(zone) }
	s := start(t, func(o *Options) {
		o.Files, o.SampleEvery = map[string]string{"m": dir}, time.Hour
		o.Now = func() time.Time { e.mu.Lock(); defer e.mu.Unlock(); return clock }
	})
	at := func(now time.Time) { e.with(func() { clock = now }) }
	s.Follow(e.target("a", "warmpath"))
	s.mode(Exact)
	want := func() []uint32 {
		body, err := template.ReadRequest(hello)
		if err != nil {
			t.Fatal(err)
		}
		text, err := e.model.Template.RenderRequest(body, 0, clock.In(zone))
		if err != nil {
			t.Fatal(err)
		}
		return e.model.Tokenizer.Encode(nil, text, tokenizer.Options{})
	}
	f := func(now time.Time, known bool) {
		t.Helper()
		at(now)
		ids, ok := s.ask(llmapi.Chat, hello)
		if ok != known || ok && !slices.Equal(ids, want()) {
			t.Errorf("%v: known %v", now, ok)
		}
	}
	f(noon, true)                   // 21:30 there
	f(noon.Add(4*time.Hour), false) // 01:30 there, but for all that is known it may be the day before
	s.until("the date to be asked for", func(State) bool { _, ok := s.ask(llmapi.Chat, hello); return ok })
	f(noon.Add(5*time.Hour), true)
	f(noon.Add(26*time.Hour+29*time.Minute+55*time.Second), false) // midnight there is near
}
