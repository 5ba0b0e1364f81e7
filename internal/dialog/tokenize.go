package dialog

import "fmt"

// Tokenized is the answer of POST /tokenize, in vLLM's form: the tokens of the prompt that the engine would make of a chat or of a text,
// as its cache events number them. What comes beside messages or prompt counts as it does in a request to be served.
func (b *Request) Tokenized(contextMax int) ([]byte, error) {
	b.KeepIDs = true
	p := NewPrompt(1, "")
	switch {
	case b.Continue && b.Generation != nil && *b.Generation:
		return nil, Refuse("", "Cannot set both `continue_final_message` and `add_generation_prompt` to True.")
	case len(b.Messages) > 0:
		p = b.ChatPrompt(b.System, b.Messages, 1)
	default:
		all, err := b.PlainPrompts(b.Prompt, "prompt", 1)
		if err != nil {
			return nil, err
		}
		if len(all) != 1 {
			return nil, Refuse("prompt", "prompt must be one text, got %d.", len(all))
		}
		p = all[0]
	}
	out := number([]byte{'{'}, "count", p.Tokens)
	out = number(append(out, ','), "max_model_len", contextMax)
	out = append(out, `,"tokens":[`...)
	for i, id := range p.IDs {
		if i > 0 {
			out = append(out, ',')
		}
		out = fmt.Append(out, id)
	}
	return append(out, `],"token_strs":null}`...), nil
}
