package engine

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// chat is POST /v1/chat/completions.
func (s *Server) chat(w http.ResponseWriter, r *http.Request, b *body) error {
	if len(b.Messages) == 0 {
		return failf(http.StatusBadRequest, "BadRequestError", "messages", "messages must be a list with at least one message.")
	}
	p := b.chatPrompt(nil, b.Messages, s.options.Profile.BlockTokens)
	return s.complete(w, r, b, []prompt{p}, 0, newOpenAIForm(s, newID(r, "chatcmpl-"), true))
}

// completionTokensMax is the default of max_tokens in /v1/completions, as the interface has it.
const completionTokensMax = 16

// completions is POST /v1/completions.
func (s *Server) completions(w http.ResponseWriter, r *http.Request, b *body) error {
	prompts, err := s.plainPrompts(b, b.Prompt, "prompt")
	if err != nil {
		return err
	}
	return s.complete(w, r, b, prompts, completionTokensMax, newOpenAIForm(s, newID(r, "cmpl-"), false))
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request, b *body, prompts []prompt, unsaid int, f *openAIForm) error {
	longest := 0
	for _, p := range prompts {
		longest = max(longest, p.tokens)
	}
	l, err := s.limits(b, longest, unsaid)
	if err != nil {
		return err
	}
	n, err := b.choices(len(prompts))
	if err != nil {
		return err
	}
	f.job, f.n = s.newJob(prompts, n, l, b.Stream), n
	f.includeUsage = b.StreamOptions.IncludeUsage
	f.continuous = f.includeUsage && b.StreamOptions.Continuous
	return s.run(w, r, f.job, f)
}

// plainPrompts renders prompts that no chat template touches.
func (s *Server) plainPrompts(b *body, list texts, param string) ([]prompt, error) {
	var out []prompt
	for _, t := range list {
		p := newPrompt(s.options.Profile.BlockTokens, b.CacheSalt)
		t.write(&p)
		if p.tokens == 0 {
			return nil, failf(http.StatusBadRequest, "BadRequestError", param, "%s must not be empty.", param)
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, failf(http.StatusBadRequest, "BadRequestError", param, "%s is required.", param)
	}
	return out, nil
}

// openAIForm is the shape of chat completions and of completions.
type openAIForm struct {
	job                      *job
	n                        int
	chat                     bool
	includeUsage, continuous bool
	head                     string // of an answer that is not streamed, chunkHead of each event
	chunkHead                string
	fingerprint              string
	sent                     int
}

func newOpenAIForm(s *Server, id string, chat bool) *openAIForm {
	whole, chunk := "text_completion", "text_completion"
	if chat {
		whole, chunk = "chat.completion", "chat.completion.chunk"
	}
	head := func(object string) string {
		return fmt.Sprintf(`{"id":"%s","object":"%s","created":%d,"model":%s,`, id, object, time.Now().Unix(), quote(s.options.Model))
	}
	return &openAIForm{
		chat: chat, head: head(whole), chunkHead: "data: " + head(chunk),
		fingerprint: `"system_fingerprint":` + quote(s.fingerprint),
	}
}

func (f *openAIForm) open(buf []byte) []byte {
	if !f.chat {
		return buf
	}
	for i := range f.job.choices {
		buf = append(buf, f.chunkHead...)
		buf = append(buf, f.fingerprint...)
		buf = append(buf, `,"choices":[{`...)
		buf = number(buf, "index", i)
		buf = append(buf, `,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`...)
		buf = f.finishChunk(buf)
	}
	return buf
}

func (f *openAIForm) token(buf []byte, choice int, word []byte) []byte {
	buf = append(buf, f.chunkHead...)
	buf = append(buf, `"choices":[{`...)
	buf = number(buf, "index", choice)
	if f.chat {
		buf = append(buf, `,"delta":{"content":"`...)
		buf = append(buf, word...)
		buf = append(buf, `"},"logprobs":null,"finish_reason":null}]`...)
	} else {
		buf = append(buf, `,"text":"`...)
		buf = append(buf, word...)
		buf = append(buf, `","logprobs":null,"finish_reason":null}]`...)
	}
	f.sent++
	return f.finishChunk(buf)
}

func (f *openAIForm) end(buf []byte, choice int) []byte {
	buf = append(buf, f.chunkHead...)
	buf = append(buf, `"choices":[{`...)
	buf = number(buf, "index", choice)
	if f.chat {
		buf = append(buf, `,"delta":{},"logprobs":null,"finish_reason":"`...)
	} else {
		buf = append(buf, `,"text":"","logprobs":null,"finish_reason":"`...)
	}
	buf = append(buf, f.job.choices[choice].answer.finish...)
	buf = append(buf, `","stop_reason":null}]`...)
	return f.finishChunk(buf)
}

// finishChunk closes an event, with the usage so far where the client asked for it in every one.
func (f *openAIForm) finishChunk(buf []byte) []byte {
	if f.continuous {
		u := f.job.usage(f.n)
		u.completion = f.sent
		buf = append(buf, ',')
		buf = u.append(buf)
	}
	return append(buf, "}\n\n"...)
}

func (f *openAIForm) close(buf []byte) []byte {
	if f.includeUsage {
		buf = append(buf, f.chunkHead...)
		buf = append(buf, `"choices":[],`...)
		buf = f.job.usage(f.n).append(buf)
		buf = append(buf, ',')
		buf = append(buf, f.fingerprint...)
		buf = append(buf, "}\n\n"...)
	}
	return append(buf, "data: [DONE]\n\n"...)
}

func (f *openAIForm) whole(buf []byte) []byte {
	buf = append(buf, f.head...)
	buf = append(buf, `"choices":[`...)
	for i, c := range f.job.choices {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = append(buf, '{')
		buf = number(buf, "index", i)
		if f.chat {
			buf = append(buf, `,"message":{"role":"assistant","content":"`...)
			buf = append(buf, c.answer.text()...)
			buf = append(buf, `","refusal":null},"logprobs":null,"finish_reason":"`...)
		} else {
			buf = append(buf, `,"text":"`...)
			buf = append(buf, c.answer.text()...)
			buf = append(buf, `","logprobs":null,"finish_reason":"`...)
		}
		buf = append(buf, c.answer.finish...)
		buf = append(buf, `","stop_reason":null}`...)
	}
	buf = append(buf, `],`...)
	buf = append(buf, f.fingerprint...)
	buf = append(buf, ',')
	buf = f.job.usage(f.n).append(buf)
	return append(buf, '}')
}

// append writes "usage":{...} in OpenAI's shape.
func (u usage) append(buf []byte) []byte {
	buf = append(buf, `"usage":{`...)
	buf = number(buf, "prompt_tokens", u.prompt)
	buf = append(buf, ',')
	buf = number(buf, "total_tokens", u.prompt+u.completion)
	buf = append(buf, ',')
	buf = number(buf, "completion_tokens", u.completion)
	buf = append(buf, `,"prompt_tokens_details":{"cached_tokens":`...)
	buf = strconv.AppendInt(buf, int64(u.cached), 10)
	return append(buf, `}}`...)
}
