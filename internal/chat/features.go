package chat

import (
	"slices"

	"github.com/warmpath/warmpath/internal/pyvalue"
)

// Feature is something in a chat request that engines treat in ways of their own, so that it takes a proof of its own: what engines make
// of Tools says nothing about what they make of a message to be continued. Plain messages of system, user and assistant have none.
type Feature uint16

const (
	Tools Feature = 1 << iota
	Calls         // tool Calls in the history
	Results
	Reasoning    // in the history
	OldReasoning // under its older name
	Settings     // chat_template_kwargs
	Effort
	Documents
	Continued
	Unprompted // no generation prompt
	Answered   // the model spoke last
	Parts      // a content that is a list
	Names
	Developer
	Wrapped // special tokens around what the template wrote
	Strange // what no built-in conversation has
)

// words name the features, for messages.
var words = []string{"tools", "tool calls", "tool results", "reasoning", "reasoning_content", "chat_template_kwargs", "reasoning_effort", "documents",
	"continue_final_message", "add_generation_prompt", "a last message of the model's", "contents in parts", "names", "developer messages", "add_special_tokens", "unusual fields"}

func (f Feature) Words() (all []string) {
	for i, word := range words {
		if f&(1<<i) != 0 {
			all = append(all, word)
		}
	}
	return all
}

func get(d *pyvalue.Dict, key string) any { v, _ := d.Get(key); return v }

// oddKwargs are template arguments that engines take for their own.
var oddKwargs = []string{"chat_template", "tokenize", "messages", "conversation", "tools", "continue_final_message", "add_generation_prompt", "documents"}

// featuresOf are those of a chat request.
func featuresOf(d *pyvalue.Dict) (f Feature) {
	add := func(has bool, which Feature) {
		if has {
			f |= which
		}
	}
	add(filled(get(d, "tools")), Tools)
	if own, ok := get(d, "chat_template_kwargs").(*pyvalue.Dict); ok && own.Len() > 0 {
		f |= Settings
		for _, key := range own.Keys() {
			add(slices.Contains(oddKwargs, key), Strange)
		}
	}
	add(get(d, "reasoning_effort") != nil, Effort)
	add(get(d, "documents") != nil, Documents)
	add(pyvalue.Truth(get(d, "continue_final_message")), Continued)
	add(pyvalue.Truth(get(d, "add_special_tokens")), Wrapped)
	if prompt, ok := d.Get("add_generation_prompt"); ok {
		add(!pyvalue.Truth(prompt), Unprompted)
	}
	for _, key := range []string{"chat_template", "truncate_prompt_tokens", "mm_processor_kwargs", "media_io_kwargs", "truncation_side"} {
		add(get(d, key) != nil, Strange)
	}
	if transfer, ok := get(d, "kv_transfer_params").(*pyvalue.Dict); ok {
		add(get(transfer, "prompt_token_ids") != nil, Strange)
	}
	list, _ := get(d, "messages").(*pyvalue.List)
	if list == nil {
		return f | Strange
	}
	for i, item := range list.Items {
		m, ok := item.(*pyvalue.Dict)
		if !ok {
			return f | Strange
		}
		f |= ofMessage(m)
		add(i == len(list.Items)-1 && get(m, "role") == "assistant", Answered)
	}
	return f
}

// inMessages are the members of messages that make features.
var inMessages = []struct {
	key   string
	which Feature
}{{"tool_calls", Calls}, {"tool_call_id", Results}, {"reasoning", Reasoning}, {"reasoning_content", OldReasoning}, {"name", Names}, {"tools", Strange}}

func ofMessage(m *pyvalue.Dict) (f Feature) {
	for _, has := range inMessages {
		if filled(get(m, has.key)) {
			f |= has.which
		}
	}
	switch get(m, "role") {
	case "system", "user", "assistant":
	case "tool":
		f |= Results
	case "developer":
		f |= Developer
	default:
		f |= Strange
	}
	if _, list := get(m, "content").(*pyvalue.List); list {
		f |= Parts
	}
	return f
}

// filled is whether there is anything at all: engines drop empty lists.
func filled(v any) bool {
	if list, ok := v.(*pyvalue.List); ok {
		return len(list.Items) > 0
	}
	return v != nil
}
