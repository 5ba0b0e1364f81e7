package engine

import (
	"net/http"
	"strconv"
)

// messages is POST /v1/messages, Anthropic's interface.
func (s *Server) messages(w http.ResponseWriter, r *http.Request, b *body) error {
	p, err := s.messagesPrompt(b)
	if err != nil {
		return err
	}
	if b.MaxTokens == nil {
		return failf(http.StatusBadRequest, "invalid_request_error", "max_tokens", "max_tokens: Field required")
	}
	l, err := s.limits(b, p.tokens, 0)
	if err != nil {
		return err
	}
	f := &messagesForm{id: randomID("msg_"), model: s.options.Model, job: s.newJob([]prompt{p}, 1, l, b.Stream)}
	return s.run(w, r, f.job, f)
}

// countTokens is POST /v1/messages/count_tokens. It costs no engine time.
func (s *Server) countTokens(w http.ResponseWriter, _ *http.Request, b *body) error {
	p, err := s.messagesPrompt(b)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, map[string]int{"input_tokens": p.tokens})
	return nil
}

func (s *Server) messagesPrompt(b *body) (prompt, error) {
	if len(b.Messages) == 0 {
		return prompt{}, failf(http.StatusBadRequest, "invalid_request_error", "messages", "messages: at least one message is required")
	}
	return b.chatPrompt(b.System, b.Messages, s.options.Profile.BlockTokens), nil
}

// messagesForm is the shape of Anthropic's messages. Its input_tokens leave the cached ones out.
type messagesForm struct {
	job       *job
	id, model string
}

func (f *messagesForm) stopReason() string {
	if f.job.choices[0].answer.finish == "stop" {
		return "end_turn"
	}
	return "max_tokens"
}

// head is a message up to its content.
func (f *messagesForm) head() string {
	return `{"id":"` + f.id + `","type":"message","role":"assistant","model":` + quote(f.model) + `,"content":`
}

func (f *messagesForm) usage(output int) string {
	u := f.job.usage(1)
	return `"usage":{"input_tokens":` + strconv.Itoa(u.prompt-u.cached) + `,"cache_read_input_tokens":` + strconv.Itoa(u.cached) +
		`,"cache_creation_input_tokens":0,"output_tokens":` + strconv.Itoa(output) + `}`
}

func (f *messagesForm) open(buf []byte) []byte {
	buf = event(buf, "message_start", `{"type":"message_start","message":`+f.head()+`[],"stop_reason":null,"stop_sequence":null,`+f.usage(0)+`}}`)
	return event(buf, "content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
}

func (f *messagesForm) token(buf []byte, _ int, word []byte) []byte {
	buf = append(buf, "event: content_block_delta\ndata: "+`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`...)
	buf = append(buf, word...)
	return append(buf, "\"}}\n\n"...)
}

func (f *messagesForm) end(buf []byte, _ int) []byte {
	return event(buf, "content_block_stop", `{"type":"content_block_stop","index":0}`)
}

func (f *messagesForm) close(buf []byte) []byte {
	buf = event(buf, "message_delta", `{"type":"message_delta","delta":{"stop_reason":"`+f.stopReason()+`","stop_sequence":null},`+
		f.usage(f.job.choices[0].answer.tokens)+`}`)
	return event(buf, "message_stop", `{"type":"message_stop"}`)
}

func (f *messagesForm) whole(buf []byte) []byte {
	c := f.job.choices[0]
	return append(buf, f.head()+`[{"type":"text","text":"`+c.answer.text()+`"}],"stop_reason":"`+f.stopReason()+
		`","stop_sequence":null,`+f.usage(c.answer.tokens)+`}`...)
}
