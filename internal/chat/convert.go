package chat

import (
	"strings"

	"github.com/warmpath/warmpath/internal/pyvalue"
)

// Engines make chat requests of Anthropic's messages and of OpenAI's responses. Here is what vLLM makes of plain text turns; with anything
// else in them, their tokens are not known.

// billing begins a block that vLLM drops: some clients put a number that changes with each request there.
const billing = "x-anthropic-billing-header"

// fromMessages is the chat of a /v1/messages request.
func fromMessages(d *pyvalue.Dict) (*pyvalue.Dict, error) {
	for _, key := range d.Keys() {
		switch key {
		case "system", "messages", "max_tokens", "stop_sequences", "chat_template_kwargs":
		default:
			if !unheeded[key] && get(d, key) != nil {
				return nil, ErrUnknown // tools, thinking, an effort, ...
			}
		}
	}
	var system []string
	turns := &pyvalue.List{}
	if s := get(d, "system"); pyvalue.Truth(s) {
		texts, err := blocks(s, true)
		if err != nil {
			return nil, err
		}
		system = append(system, texts...)
	}
	list, _ := get(d, "messages").(*pyvalue.List)
	if list == nil {
		return nil, ErrUnknown
	}
	for _, item := range list.Items {
		m, _ := item.(*pyvalue.Dict)
		if m == nil {
			return nil, ErrUnknown
		}
		role, _ := get(m, "role").(string)
		texts, err := blocks(get(m, "content"), role == "system")
		switch {
		case err != nil:
			return nil, err
		case role == "system":
			system = append(system, texts...)
		case role != "user" && role != "assistant" || len(texts) != 1:
			return nil, ErrUnknown
		default:
			turns.Items = append(turns.Items, turn(role, texts[0]))
		}
	}
	if len(system) > 1 {
		return nil, ErrUnknown // engines join them in different ways
	}
	if len(system) == 1 {
		turns.Items = append([]any{turn("system", system[0])}, turns.Items...)
	}
	return chatOf(turns, get(d, "chat_template_kwargs")), nil
}

// blocks are the texts of a content. Empty blocks are dropped.
func blocks(content any, system bool) (texts []string, err error) {
	switch content := content.(type) {
	case string:
		return []string{content}, nil
	case *pyvalue.List:
		for _, item := range content.Items {
			block, _ := item.(*pyvalue.Dict)
			if block == nil || get(block, "type") != "text" {
				return nil, ErrUnknown
			}
			text, ok := get(block, "text").(string)
			switch {
			case !ok:
				return nil, ErrUnknown
			case text == "" || system && strings.HasPrefix(text, billing):
			default:
				texts = append(texts, text)
			}
		}
		return texts, nil
	}
	return nil, ErrUnknown
}

// fromResponses is the chat of a /v1/responses request that begins a conversation, or brings all of it.
func fromResponses(d *pyvalue.Dict) (*pyvalue.Dict, error) {
	for _, key := range d.Keys() {
		switch key {
		case "instructions", "input", "max_output_tokens", "chat_template_kwargs", "background", "truncation", "parallel_tool_calls":
		default:
			if !unheeded[key] && filled(get(d, key)) {
				return nil, ErrUnknown // tools, reasoning, a previous response, ...
			}
		}
	}
	turns := &pyvalue.List{}
	if system, ok := get(d, "instructions").(string); ok && system != "" {
		turns.Items = append(turns.Items, turn("system", system))
	}
	switch input := get(d, "input").(type) {
	case string:
		turns.Items = append(turns.Items, turn("user", input))
	case *pyvalue.List:
		for _, item := range input.Items {
			m, _ := item.(*pyvalue.Dict)
			if m == nil {
				return nil, ErrUnknown
			}
			for _, key := range m.Keys() {
				if key != "role" && key != "content" && (key != "type" || get(m, "type") != "message") {
					return nil, ErrUnknown // an id or a status makes another kind of item of it
				}
			}
			role, _ := get(m, "role").(string)
			text, ok := get(m, "content").(string)
			if !ok || role != "system" && role != "user" && role != "assistant" {
				return nil, ErrUnknown
			}
			turns.Items = append(turns.Items, turn(role, text))
		}
	default:
		return nil, ErrUnknown
	}
	return chatOf(turns, get(d, "chat_template_kwargs")), nil
}

func turn(role, text string) *pyvalue.Dict {
	m := pyvalue.NewDict()
	m.Set("role", role)
	m.Set("content", text)
	return m
}

func chatOf(turns *pyvalue.List, kwargs any) *pyvalue.Dict {
	d := pyvalue.NewDict()
	d.Set("messages", turns)
	if kwargs != nil {
		d.Set("chat_template_kwargs", kwargs)
	}
	return d
}
