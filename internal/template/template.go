// Package template writes the prompt that an engine makes of a chat request: the model's own chat template, with the values that vLLM
// gives it.
//
//	files, err := template.ReadConfig(tokenizerConfig)     // tokenizer_config.json
//	t, err := template.Load(files, template.Auto)
//	prompt, err := t.Render(body, now)                     // a string, the body of POST /v1/chat/completions
//
// What cannot be known for sure is an error, and never a guess: a prompt that is off by one character names blocks that no engine has.
package template

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/warmpath/warmpath/internal/jinja"
	"github.com/warmpath/warmpath/internal/pyvalue"
)

// ErrMedia is what Render's error wraps for a request with images, audio or parts that are not known here.
var ErrMedia = errors.New("the request has a part that is not text")

// Format is how a template gets the content of messages.
type Format uint8

// Auto is as the engine finds it: Parts for a template with a loop over a message's content, else Text.
const (
	Auto Format = iota
	Text
	Parts
)

// Files are what a model's files say about its template.
type Files struct {
	Chat    string            // the template
	ToolUse string            // another one for requests with tools; "" for none
	Special map[string]string // special tokens by their names: bos_token, eos_token, ...

	LlamaCPP bool // render as llama.cpp does, not as vLLM
}

// specialNames are the tokens that templates are given by name.
var specialNames = []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}

// ReadConfig reads a tokenizer_config.json. Chat is "" where it has no template: that of chat_template.jinja beside it counts then, and
// counts first where there are both.
func ReadConfig(config []byte) (Files, error) {
	v, err := pyvalue.ReadJSON(string(config))
	if err != nil {
		return Files{}, fmt.Errorf("tokenizer_config.json: %w", err)
	}
	d, ok := v.(*pyvalue.Dict)
	if !ok {
		return Files{}, errors.New("tokenizer_config.json holds no object")
	}
	f := Files{Special: map[string]string{}}
	for _, name := range specialNames {
		token, _ := d.Get(name)
		if added, ok := token.(*pyvalue.Dict); ok {
			token, _ = added.Get("content")
		}
		if text, ok := token.(string); ok {
			f.Special[name] = text
		}
	}
	chat, _ := d.Get("chat_template")
	switch chat := chat.(type) {
	case string:
		f.Chat = chat
	case *pyvalue.List: // several, by name
		for _, item := range chat.Items {
			one, _ := item.(*pyvalue.Dict)
			if one == nil {
				continue
			}
			name, text := get(one, "name"), get(one, "template")
			switch name {
			case "default":
				f.Chat, _ = text.(string)
			case "tool_use":
				f.ToolUse, _ = text.(string)
			}
		}
	}
	return f, nil
}

func get(d *pyvalue.Dict, key string) any { v, _ := d.Get(key); return v }

// Template is a model's. Any number of goroutines may use it at once.
type Template struct {
	chat, toolUse *jinja.Template
	special       map[string]string
	parts         bool
	llama         *llamaCPP // nil: as vLLM does
	// developers and toolDevelopers are whether the templates have a role for developers.
	developers, toolDevelopers bool
}

// Load parses the templates. Its error names what is not known here.
func Load(f Files, format Format) (*Template, error) {
	if f.Chat == "" {
		return nil, errors.New("the model has no chat template")
	}
	chat, err := jinja.Parse(f.Chat)
	if err != nil {
		return nil, err
	}
	t := &Template{chat: chat, toolUse: chat, special: f.Special, parts: format == Parts || format == Auto && chat.WalksContent()}
	t.developers = knowsDevelopers(f.Chat)
	t.toolDevelopers = t.developers
	if f.ToolUse != "" {
		t.toolDevelopers = knowsDevelopers(f.ToolUse)
		if t.toolUse, err = jinja.Parse(f.ToolUse); err != nil {
			return nil, fmt.Errorf("template for tools: %w", err)
		}
	}
	if f.LlamaCPP {
		t.asLlamaCPP(f.Chat)
	}
	return t, nil
}

// Dated is whether prompts may depend on the date. The date is the engine's, in its time zone.
func (t *Template) Dated() bool { return t.chat.Dated() || t.toolUse.Dated() }

// Parts is whether the template gets contents as lists of parts.
func (t *Template) Parts() bool { return t.parts }

// continueTag stands behind the last message where that is to be continued, so that its end is found in the prompt.
const continueTag = "CONTINUE_FINAL_MESSAGE_TAG "

// Render is the prompt of a chat request's body. The error wraps ErrMedia, jinjalib.ErrLimit or jinjalib.ErrRaised, or says what else the
// engine would not take.
func (t *Template) Render(body string, now time.Time) (string, error) {
	req, err := ReadRequest(body)
	if err != nil {
		return "", err
	}
	return t.RenderRequest(req, len(body), now)
}

// ReadRequest reads a request's body.
func ReadRequest(body string) (*pyvalue.Dict, error) {
	v, err := pyvalue.ReadJSON(body)
	if err != nil {
		return nil, err
	}
	req, ok := v.(*pyvalue.Dict)
	if !ok {
		return nil, errors.New("the request is no object")
	}
	return req, nil
}

// RenderRequest is Render for a body that is read already, of about so many bytes. It may change req.
func (t *Template) RenderRequest(req *pyvalue.Dict, bytes int, now time.Time) (string, error) {
	if t.llama != nil {
		if err := t.llama.request(req); err != nil {
			return "", err
		}
	}
	messages, err := t.messages(req)
	if err != nil {
		return "", err
	}
	values := t.values(req)
	tools, err := dumped(req)
	if err != nil {
		return "", err
	}
	if t.llama == nil && (tools == nil && !t.developers || tools != nil && !t.toolDevelopers) {
		messages = withoutDevelopers(messages)
	}
	values["messages"] = messages
	values["tools"] = tools
	if t.llama != nil {
		t.llama.values(values, req)
	}
	proceed := pyvalue.Truth(get(req, "continue_final_message"))
	if proceed {
		if err := tag(messages); err != nil {
			return "", err
		}
	}
	which := t.chat
	if tools != nil {
		which = t.toolUse
	}
	text, err := which.Render(values, jinja.Options{Now: now, ASCIISpace: t.llama != nil, Expect: bytes + bytes/16})
	if err != nil || !proceed {
		return text, err
	}
	at := strings.LastIndex(text, strings.TrimSpace(continueTag))
	if at < 0 {
		return "", errors.New("the template does not write the last message as it is, so that it cannot be continued")
	}
	if strings.HasPrefix(text[at:], continueTag) {
		return text[:at], nil
	}
	return strings.TrimRightFunc(text[:at], unicode.IsSpace), nil
}

// values are all but messages and tools: special tokens, the request's own for the template, and what the engine sets on top of those.
func (t *Template) values(req *pyvalue.Dict) map[string]any {
	values := map[string]any{}
	for name, token := range t.special {
		values[name] = token
	}
	if own, ok := get(req, "chat_template_kwargs").(*pyvalue.Dict); ok {
		for _, name := range own.Keys() {
			values[name] = get(own, name)
		}
	}
	values["add_generation_prompt"] = true
	values["documents"] = get(req, "documents")
	if add, ok := req.Get("add_generation_prompt"); ok {
		values["add_generation_prompt"] = pyvalue.Truth(add)
	}
	if effort := get(req, "reasoning_effort"); effort != nil {
		values["reasoning_effort"] = effort
		if _, said := values["enable_thinking"]; !said { // so that an effort has an effect where thinking has to be asked for
			values["enable_thinking"] = effort != "none"
		}
	}
	return values
}
