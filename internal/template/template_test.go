package template

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/jinjalib"
	"github.com/warmpath/warmpath/internal/leash"
)

const dump = `{% for m in messages %}{{ m | tojson }}{% endfor %}{{ tools | tojson }}{{ add_generation_prompt }}{{ x }}{{ bos_token }}`

func loaded(t *testing.T, source string, format Format) *Template {
	t.Helper()
	made, err := Load(Files{Chat: source, Special: map[string]string{"bos_token": "<s>"}}, format)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestMessagesAndToolsReachTheTemplateAsVLLMHandsThemOver(t *testing.T) {
	f := func(format Format, body, want string) {
		t.Helper()
		got, err := loaded(t, dump, format).Render(body, time.Time{})
		if err != nil || got != want {
			t.Errorf("%s\n got %s %v\nwant %s", body, got, err, want)
		}
	}
	f(Text, `{"messages":[{"content":[{"type":"text","text":"a"},{"type":"text","text":""},"b"],"role":"user","extra":1}]}`,
		`{"role": "user", "content": "a\nb"}nullTrue<s>`)
	f(Parts, `{"messages":[{"role":"user","content":"a"},{"role":"tool","content":[{"type":"text","text":"r"}],"tool_call_id":"i"}],"chat_template_kwargs":{"x":5}}`,
		`{"role": "user", "content": [{"type": "text", "text": "a"}]}{"role": "tool", "content": "r", "tool_call_id": "i"}nullTrue5<s>`)
	f(Text, `{"messages":[{"role":"assistant","content":null,"reasoning":"r","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{\"b\":1.50,\"a\":2}"}},{"function":{"arguments":"{"}}]}],"add_generation_prompt":false}`,
		`{"role": "assistant", "content": "", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": {"b": 1.5, "a": 2}}}, {"function": {"arguments": {}}}], "reasoning": "r", "reasoning_content": "r"}nullFalse<s>`)
	f(Text, `{"messages":[{"role":"assistant","content":"a","reasoning_content":"r"}]}`,
		`{"role": "assistant", "content": "a", "reasoning": "r", "reasoning_content": "r"}nullTrue<s>`)
	f(Text, `{"messages":[],"tools":[{"function":{"strict":true,"parameters":{"z":1,"a":2},"name":"f"},"type":"function"}]}`,
		`[{"type": "function", "function": {"name": "f", "description": null, "parameters": {"z": 1, "a": 2}, "strict": true}}]True<s>`)
}

func TestWhatDevelopersSayIsTheSystemsWhereTheTemplateHasNoSuchRole(t *testing.T) {
	const source = `{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}`
	f := func(source, body, want string) {
		t.Helper()
		if got, err := loaded(t, source, Auto).Render(body, time.Time{}); err != nil || got != want {
			t.Errorf("%s: %s %v", body, got, err)
		}
	}
	f(source, `{"messages":[{"role":"developer","content":"a","tools":[{}]},{"role":"user","content":"b"}]}`, "<system>a<user>b")
	f(source, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"b"},{"role":"developer","content":[{"type":"text","text":"a"}]}]}`, "<system>s\n\na<user>b")
	f(source, `{"messages":[{"role":"user","content":"b"},{"role":"system","content":"s"}]}`, "<user>b<system>s")
	f(`{# 'developer' #}`+source, `{"messages":[{"role":"developer","content":"a"},{"role":"user","content":"b"}]}`, "<developer>a<user>b")
}

func TestTheFormatOfContentsIsFoundInTheTemplate(t *testing.T) {
	for source, want := range map[string]bool{
		`{% for m in messages %}{{ m.content }}{% endfor %}`: false,
		`{% set all = messages[1:] %}{% for m in all %}{% if m.content is string %}{% else %}{% for c in m['content'] | list %}{{ c.text }}{% endfor %}{% endif %}{% endfor %}`: true,
		`{% for m in others %}{% for c in m.content %}{% endfor %}{% endfor %}`:                                                                                                 false,
	} {
		if got := loaded(t, source, Auto).Parts(); got != want {
			t.Errorf("%s: %v", source, got)
		}
	}
}

func TestWhatCountsAsWhiteSpaceIsTheEngines(t *testing.T) {
	for ascii, want := range map[bool]string{false: "a|a\u3000b|", true: "\u3000a\u00a0|a\u3000b|"} {
		made, err := Load(Files{Chat: `{% for m in messages %}{{ m.content | trim }}|{% endfor %}`, LlamaCPP: ascii}, Text)
		if err != nil {
			t.Fatal(err)
		}
		body := "{\"messages\":[{\"role\":\"user\",\"content\":\" \u3000a\u00a0\\n\"},{\"role\":\"user\",\"content\":\"\\ta\u3000b \"}]}"
		if got, err := made.Render(body, time.Time{}); got != want || err != nil {
			t.Errorf("ASCII %v: %q %v", ascii, got, err)
		}
	}
}

func TestLlamaCPPGivesTemplatesLessAndDoesMoreItself(t *testing.T) {
	const (
		chat   = `{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}{{ tools | tojson }} {{ documents is defined }} {{ add_generation_prompt is defined }} {{ reasoning_effort is defined }}`
		user   = `{"role":"user","content":"u"}`
		lists  = `{% for m in messages %}{% for c in m.content %}[{{ c.text }}]{% endfor %}{% endfor %}`
		either = `{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for c in m.content %}[{{ c.text }}]{% endfor %}{% endif %}{% endfor %}`
		users  = `{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}`
		thinks = `{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking %}think{% endif %}`
	)
	for _, c := range []struct{ source, body, want, err string }{
		{chat, `{"messages":[{"role":"developer","content":"d"},` + user + `]}`, "system:d;user:u;null False True False", ""},
		{chat + "{# <|channel|> developer #}", `{"messages":[{"role":"developer","content":"d"},` + user + `]}`, "developer:d;user:u;null False True False", ""},
		{chat, `{"messages":[` + user + `],"add_generation_prompt":false,"reasoning_effort":"low","documents":[]}`, "user:u;null False False False", ""},
		{chat, `{"messages":[` + user + `],"chat_template_kwargs":{"documents":[],"reasoning_effort":"low"}}`, "user:u;null True True True", ""},
		{chat, `{"messages":[` + user + `],"tools":[{"type":"function","function":{"name":"f","strict":true}}]}`,
			`user:u;[{"type": "function", "function": {"name": "f", "description": "", "parameters": {}}}] False True False`, ""},
		{chat, `{"messages":[` + user + `,{"role":"assistant","content":"a"}]}`, "", "last message of the assistant"},
		{chat, `{"messages":[` + user + `],"continue_final_message":true}`, "", "continue_final_message"},
		{lists, `{"messages":[` + user + `]}`, "[u]", ""},
		{either, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}`, "a\nb", ""},
		{users, `{"messages":[{"role":"system","content":"s"},` + user + `]}`, "", "system message"},
		{users, `{"messages":[` + user + `]}`, "u", ""},
		{thinks, `{"messages":[` + user + `]}`, "", "enable_thinking"},
		{thinks, `{"messages":[` + user + `],"chat_template_kwargs":{"enable_thinking":true}}`, "uthink", ""},
		{chat, `{"messages":[]}`, "", "no messages"},
	} {
		made, err := Load(Files{Chat: c.source, LlamaCPP: true}, Auto)
		if err != nil {
			t.Fatal(err)
		}
		got, err := made.Render(c.body, time.Time{})
		if got != c.want || (c.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s\n%s: %q %v, want %q %s", c.source, c.body, got, err, c.want, c.err)
		}
	}
}

func TestALastMessageIsContinuedWhereItEnds(t *testing.T) {
	source := `{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</>{% endfor %}`
	got, err := loaded(t, source, Auto).Render(`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"so "}],"continue_final_message":true,"add_generation_prompt":false}`, time.Time{})
	if err != nil || got != "<user>a</><assistant>so" {
		t.Error(got, err)
	}
}

func TestWhatCannotBeKnownIsAnErrorAndNoGuess(t *testing.T) {
	f := func(body string, want error) {
		t.Helper()
		if got, err := loaded(t, `{% if not messages %}{{ raise_exception("empty") }}{% endif %}`, Auto).Render(body, time.Time{}); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %q %v", body, got, err)
		}
	}
	f(`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`, ErrMedia)
	f(`{"messages":[]}`, jinjalib.ErrRaised)
	f(`{"messages":[{"content":"a"}]}`, nil)
	f(`{"messages":[{"role":"assistant","tool_calls":[1]}]}`, nil)
	f(`[]`, nil)
	f(`{"messages":"x"}`, nil)
}

func TestTheConfigMayHaveSeveralTemplatesAndTokensInEitherForm(t *testing.T) {
	f, err := ReadConfig([]byte(`{"bos_token":{"content":"<b>","lstrip":false},"eos_token":"<e>","chat_template":[{"name":"default","template":"d{{ bos_token }}"},{"name":"tool_use","template":"t{{ eos_token }}"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	made, err := Load(f, Auto)
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{`{"messages":[]}`: "d<b>", `{"messages":[],"tools":[]}`: "t<e>"} {
		if got, err := made.Render(body, time.Time{}); got != want || err != nil {
			t.Error(body, got, err)
		}
	}
}

// Whatever a client sends is rendered or refused, with and without parts.
func FuzzRender(f *testing.F) {
	for _, body := range []string{
		`{"messages":[{"role":"assistant","content":[{"type":"text","text":"a"}],"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}],"tools":[{"function":{}}],"continue_final_message":true}`,
		`{"messages":[{"role":"tool","content":null,"tool_call_id":1}],"chat_template_kwargs":{"messages":1}}`,
	} {
		f.Add(body)
	}
	var all []*Template
	for _, format := range []Format{Text, Parts} {
		t, err := Load(Files{Chat: dump + `{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments.items() | list }}{% endfor %}{{ m['get']('x') }}{% endfor %}`}, format)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, t)
	}
	f.Fuzz(func(t *testing.T, body string) {
		defer leash.Hold(t, len(body))()
		for _, made := range all {
			if text, err := made.Render(body, time.Time{}); err != nil && text != "" {
				t.Errorf("%q beside %v", text, err)
			}
		}
	})
}
