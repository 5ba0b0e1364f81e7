// Package chat finds the prompt in a request of any API: a chat as a template is given it, a text, or tokens. What is not known of it for
// sure is an error, and never a guess.
//
//	r, err := chat.Read(llmapi.Messages, &scanned, body)
//	question, err := r.Question("qwen3") // to an engine that tells tokens
//
// Conversations are the built-in ones by which it is shown that an engine makes the same tokens of chats and texts as somebody else.
package chat

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/pyvalue"
	"github.com/warmpath/warmpath/internal/template"
)

// Request is one as far as its prompt goes: a chat, tokens where IDs is not nil, else a text.
type Request struct {
	Chat     *pyvalue.Dict // messages, and what else a template is given
	Features Feature       // of Chat
	Text     string
	Bare     bool // Text is without the special tokens that the model wants around one
	IDs      []uint32
	Bytes    int // of the body, about
}

// ErrUnknown is why a request's tokens are not looked for: nobody has shown what engines make of such a one.
var ErrUnknown = errors.New("what engines make of this request is not known")

// Read finds the prompt in a request of any API.
func Read(api llmapi.API, scanned *llmapi.Request, body []byte) (Request, error) {
	r := Request{Bytes: len(body)}
	if scanned.MediaParts > 0 || scanned.Prompts > 1 {
		return r, ErrUnknown
	}
	switch api {
	case llmapi.Chat, llmapi.Completions, llmapi.Messages, llmapi.Responses:
	default:
		return r, ErrUnknown
	}
	if scanned.TokenIDs {
		if api != llmapi.Completions {
			return r, ErrUnknown
		}
		return r, r.readIDs(scanned, body)
	}
	d, err := template.ReadRequest(string(body))
	if err != nil {
		return r, err
	}
	switch api {
	case llmapi.Completions:
		return r, r.readText(d)
	case llmapi.Messages:
		r.Chat, err = fromMessages(d)
	case llmapi.Responses:
		r.Chat, err = fromResponses(d)
	default:
		r.Chat = d
	}
	if err != nil {
		return r, err
	}
	r.Features = featuresOf(r.Chat)
	if r.Features&Continued != 0 && r.Features&Unprompted == 0 {
		return r, errors.New("a message cannot be continued and followed by a generation prompt: engines refuse it")
	}
	return r, nil
}

// readText reads the body of /v1/completions. A list of one text is that text.
func (r *Request) readText(d *pyvalue.Dict) error {
	for _, key := range []string{"truncate_prompt_tokens", "truncation_side", "suffix", "prompt_embeds", "kv_transfer_params"} {
		if get(d, key) != nil {
			return ErrUnknown
		}
	}
	prompt := get(d, "prompt")
	if list, ok := prompt.(*pyvalue.List); ok && len(list.Items) == 1 {
		prompt = list.Items[0]
	}
	text, ok := prompt.(string)
	if !ok {
		return ErrUnknown
	}
	r.Text = text
	if add, ok := d.Get("add_special_tokens"); ok {
		r.Bare = !pyvalue.Truth(add)
	}
	return nil
}

// readIDs reads a prompt that is given as token ids.
func (r *Request) readIDs(scanned *llmapi.Request, body []byte) error {
	r.IDs = make([]uint32, 0, scanned.TokenCount)
	for _, p := range scanned.Parts {
		if p.Kind != llmapi.Raw {
			continue
		}
		ids, err := AppendIDs(r.IDs, p.Of(body))
		if err != nil {
			return err
		}
		r.IDs = ids
	}
	if len(r.IDs) != scanned.TokenCount {
		return fmt.Errorf("%d token ids were counted, %d read", scanned.TokenCount, len(r.IDs))
	}
	return nil
}

// AppendIDs reads numbers between commas, white space and brackets. A number that is no id is an error: below 0, above 2^32-1, with a
// fraction or an exponent.
func AppendIDs(into []uint32, list []byte) ([]uint32, error) {
	for len(list) > 0 {
		if strings.IndexByte(", \n\r\t[]", list[0]) >= 0 {
			list = list[1:]
			continue
		}
		end := bytes.IndexAny(list, ", \n\r\t]")
		if end < 0 {
			end = len(list)
		}
		id, err := strconv.ParseUint(string(list[:end]), 10, 32)
		if err != nil {
			return into, errors.New("what should be a token id is none")
		}
		into, list = append(into, uint32(id)), list[end:]
	}
	return into, nil
}

// unheeded are the fields of requests that no prompt depends on. Questions leave them out, so that requests which differ in nothing else
// are one question.
var unheeded = map[string]bool{
	"model": true, "stream": true, "stream_options": true, "max_tokens": true, "max_completion_tokens": true, "min_tokens": true, "temperature": true,
	"top_p": true, "top_k": true, "min_p": true, "n": true, "best_of": true, "seed": true, "stop": true, "stop_token_ids": true, "user": true,
	"metadata": true, "logprobs": true, "top_logprobs": true, "prompt_logprobs": true, "logit_bias": true, "presence_penalty": true,
	"frequency_penalty": true, "repetition_penalty": true, "ignore_eos": true, "cache_salt": true, "priority": true, "request_id": true,
	"session_id": true, "safety_identifier": true, "prompt_cache_key": true, "store": true, "service_tier": true, "kv_transfer_params": true,
	"return_token_ids": true, "id_slot": true, "cache_prompt": true, "timings_per_token": true, "return_progress": true,
}

// TextQuestion is the question about a text.
func TextQuestion(model, text string, bare bool) ([]byte, error) {
	q := pyvalue.NewDict()
	q.Set("model", model)
	q.Set("prompt", text)
	q.Set("add_special_tokens", !bare)
	return pyvalue.AppendJSON(nil, q, pyvalue.JSONOptions{})
}

// Question is the request as engines are asked about it: the model's name, and all that its prompt may depend on.
func (r Request) Question(model string) ([]byte, error) {
	if r.Chat == nil {
		return TextQuestion(model, r.Text, r.Bare)
	}
	q := pyvalue.NewDict()
	q.Set("model", model)
	for _, key := range r.Chat.Keys() {
		if !unheeded[key] {
			q.Set(key, get(r.Chat, key))
		}
	}
	return pyvalue.AppendJSON(make([]byte, 0, r.Bytes+r.Bytes/16), q, pyvalue.JSONOptions{})
}
