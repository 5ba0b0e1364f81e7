package template

import (
	"errors"
	"fmt"
	"strings"

	"github.com/warmpath/warmpath/internal/pyvalue"
)

func (t *Template) messages(req *pyvalue.Dict) (*pyvalue.List, error) {
	list, ok := get(req, "messages").(*pyvalue.List)
	if !ok {
		return nil, errors.New("the request has no messages")
	}
	made := &pyvalue.List{}
	for _, item := range list.Items {
		m, ok := item.(*pyvalue.Dict)
		if !ok {
			return nil, errors.New("a message is no object")
		}
		message, err := t.message(m)
		if err != nil {
			return nil, err
		}
		made.Items = append(made.Items, message)
	}
	return made, nil
}

// message is what vLLM leaves of one, with its keys in the order in which they are put there.
func (t *Template) message(m *pyvalue.Dict) (*pyvalue.Dict, error) {
	role, ok := get(m, "role").(string)
	if !ok {
		return nil, errors.New("a message has no role")
	}
	texts, err := texts(get(m, "content"))
	if err != nil {
		return nil, err
	}
	made := pyvalue.NewDict()
	made.Set("role", role)
	if t.parts && role != "tool" {
		parts := &pyvalue.List{}
		for _, text := range texts {
			part := pyvalue.NewDict()
			part.Set("type", "text")
			part.Set("text", text)
			parts.Items = append(parts.Items, part)
		}
		made.Set("content", parts)
	} else {
		switch {
		case t.llama != nil: // an empty text is none as long as there is no other
			for len(texts) > 0 && texts[0] == "" {
				texts = texts[1:]
			}
		case !t.parts: // an empty text is no text there
			kept := texts[:0]
			for _, text := range texts {
				if text != "" {
					kept = append(kept, text)
				}
			}
			texts = kept
		}
		made.Set("content", strings.Join(texts, "\n"))
	}
	switch role {
	case "assistant":
		if err := assistant(made, m); err != nil {
			return nil, err
		}
	case "tool":
		if id, ok := m.Get("tool_call_id"); ok {
			made.Set("tool_call_id", id)
		}
	}
	if name, ok := get(m, "name").(string); ok {
		made.Set("name", name)
	}
	if role == "developer" {
		made.Set("tools", get(m, "tools"))
	}
	return made, nil
}

// texts are the parts of a content.
func texts(content any) ([]string, error) {
	switch content := content.(type) {
	case nil:
		return nil, nil
	case string:
		return []string{content}, nil
	case *pyvalue.List:
		var all []string
		for _, item := range content.Items {
			if text, ok := item.(string); ok {
				all = append(all, text)
				continue
			}
			part, _ := item.(*pyvalue.Dict)
			if part == nil {
				return nil, errors.New("a part of a message is no object")
			}
			kind, _ := get(part, "type").(string)
			key := map[string]string{"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal", "thinking": "thinking"}[kind]
			if key == "" {
				return nil, fmt.Errorf("%w: type %q", ErrMedia, kind)
			}
			switch text := get(part, key).(type) {
			case nil:
			case string:
				all = append(all, text)
			default:
				return nil, fmt.Errorf("the %s of a part is no string", key)
			}
		}
		return all, nil
	}
	return nil, errors.New("a content is neither a string nor a list")
}

// assistant adds what only the model's own messages have: its calls, with their arguments read, and its reasoning under both names.
func assistant(made, m *pyvalue.Dict) error {
	if calls, ok := get(m, "tool_calls").(*pyvalue.List); ok && len(calls.Items) > 0 {
		for _, item := range calls.Items {
			call, _ := item.(*pyvalue.Dict)
			if call == nil {
				return errors.New("a tool call is no object")
			}
			function, ok := get(call, "function").(*pyvalue.Dict)
			if !ok {
				return errors.New("a tool call has no function")
			}
			function.Set("arguments", argumentsOf(get(function, "arguments")))
		}
		made.Set("tool_calls", calls)
	}
	reasoning := get(m, "reasoning")
	if reasoning == nil {
		reasoning = get(m, "reasoning_content") // as clients of older engines call it
	}
	if reasoning != nil {
		made.Set("reasoning", reasoning)
		made.Set("reasoning_content", reasoning)
	}
	return nil
}

// knowsDevelopers is vLLM's rule for whether a template has a role for developers.
func knowsDevelopers(source string) bool {
	return strings.Contains(source, `"developer"`) || strings.Contains(source, `'developer'`)
}

// withoutDevelopers are the messages for a template that has no such role: what developers say is the system's, and where the system then
// speaks later than first, all that it says is one message before the others.
func withoutDevelopers(messages *pyvalue.List) *pyvalue.List {
	found, late := false, false
	var said []string
	others := &pyvalue.List{}
	for i, item := range messages.Items {
		m := item.(*pyvalue.Dict)
		if get(m, "role") == "developer" {
			found = true
			made := pyvalue.NewDict()
			for _, key := range m.Keys() {
				if key != "tools" {
					made.Set(key, get(m, key))
				}
			}
			made.Set("role", "system")
			m, messages.Items[i] = made, made
		}
		if get(m, "role") != "system" {
			others.Items = append(others.Items, m)
			continue
		}
		late = late || i > 0
		if text := textOf(get(m, "content")); text != "" {
			said = append(said, text)
		}
	}
	if !found || !late {
		return messages
	}
	first := pyvalue.NewDict()
	first.Set("role", "system")
	first.Set("content", strings.Join(said, "\n\n"))
	others.Items = append([]any{first}, others.Items...)
	return others
}

// textOf is a content that was made for a template, as one text.
func textOf(content any) string {
	list, ok := content.(*pyvalue.List)
	if !ok {
		text, _ := content.(string)
		return text
	}
	var texts []string
	for _, part := range list.Items {
		text, _ := get(part.(*pyvalue.Dict), "text").(string)
		texts = append(texts, text)
	}
	return strings.Join(texts, "\n")
}

func argumentsOf(v any) any {
	switch v := v.(type) {
	case *pyvalue.Dict, *pyvalue.List:
		return v
	case string:
		if read, err := pyvalue.ReadJSON(v); err == nil {
			return read
		}
	}
	return pyvalue.NewDict()
}

// dumped are the tools as the engine's own types write them: type and function, of which name, description and parameters come first and
// are there always, and then whatever else was sent.
func dumped(req *pyvalue.Dict) (any, error) {
	list, ok := get(req, "tools").(*pyvalue.List)
	if !ok {
		return nil, nil
	}
	made := &pyvalue.List{}
	for _, item := range list.Items {
		tool, _ := item.(*pyvalue.Dict)
		if tool == nil {
			return nil, errors.New("a tool is no object")
		}
		function, _ := get(tool, "function").(*pyvalue.Dict)
		if function == nil {
			return nil, errors.New("a tool has no function")
		}
		f := ordered(function, "name", "description", "parameters")
		whole := pyvalue.NewDict()
		whole.Set("type", "function")
		whole.Set("function", f)
		for _, key := range tool.Keys() {
			if key != "function" {
				whole.Set(key, get(tool, key))
			}
		}
		made.Items = append(made.Items, whole)
	}
	return made, nil
}

func ordered(d *pyvalue.Dict, first ...string) *pyvalue.Dict {
	made := pyvalue.NewDict()
	for _, key := range first {
		made.Set(key, get(d, key))
	}
	for _, key := range d.Keys() {
		made.Set(key, get(d, key))
	}
	return made
}

// tag marks the end of the last message.
func tag(messages *pyvalue.List) error {
	if len(messages.Items) == 0 {
		return errors.New("there is no message to continue")
	}
	last := messages.Items[len(messages.Items)-1].(*pyvalue.Dict)
	switch content := get(last, "content").(type) {
	case string:
		last.Set("content", content+continueTag)
		return nil
	case *pyvalue.List:
		if n := len(content.Items); n > 0 {
			part := content.Items[n-1].(*pyvalue.Dict)
			text, _ := get(part, "text").(string)
			part.Set("text", text+continueTag)
			return nil
		}
	}
	return errors.New("the last message has no text to continue")
}
