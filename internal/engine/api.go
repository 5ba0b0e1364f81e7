package engine

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/internal/dialog"
)

// chat is POST /v1/chat/completions.
func (s *Server) chat(w http.ResponseWriter, r *http.Request, b *dialog.Request) error {
	if len(b.Messages) == 0 {
		return dialog.Refuse("messages", "messages must be a list with at least one message.")
	}
	p := b.ChatPrompt(nil, b.Messages, s.options.Profile.BlockTokens)
	return s.complete(w, r, b, []dialog.Prompt{p}, 0, "chatcmpl-", dialog.Chat)
}

// completionTokensMax is the default of max_tokens in /v1/completions, as the interface has it.
const completionTokensMax = 16

// completions is POST /v1/completions.
func (s *Server) completions(w http.ResponseWriter, r *http.Request, b *dialog.Request) error {
	prompts, err := b.PlainPrompts(b.Prompt, "prompt", s.options.Profile.BlockTokens)
	if err != nil {
		return err
	}
	return s.complete(w, r, b, prompts, completionTokensMax, "cmpl-", dialog.Completion)
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request, b *dialog.Request, prompts []dialog.Prompt, unsaid int,
	idPrefix string, form func(dialog.Head, *dialog.Request, []dialog.Answer) dialog.Form,
) error {
	longest := 0
	for _, p := range prompts {
		longest = max(longest, p.Tokens)
	}
	l, err := b.Limits(s.options.ContextMax, longest, unsaid)
	if err != nil {
		return err
	}
	n, err := b.Choices(len(prompts))
	if err != nil {
		return err
	}
	j := s.newJob(prompts, n, l, b.Stream)
	return s.run(w, r, j, form(s.head(requestID(r, idPrefix)), b, j.answers()))
}

// embeddings is POST /v1/embeddings: prompts that are only prefilled.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request, b *dialog.Request) error {
	inputs, err := b.Inputs()
	if err != nil {
		return err
	}
	prompts, err := b.PlainPrompts(inputs, "input", s.options.Profile.BlockTokens)
	if err != nil {
		return err
	}
	if _, err := b.Choices(len(prompts)); err != nil {
		return err
	}
	for _, p := range prompts {
		if err := dialog.CheckContext(s.options.ContextMax, p.Tokens, 0); err != nil {
			return err
		}
	}
	j := s.newJob(prompts, 1, dialog.Limits{}, false)
	if err := s.finish(r.Context(), j); err != nil {
		return err
	}
	out, err := dialog.Embeddings(s.head(requestID(r, "embd-")), b, prompts, j.usage())
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

// tokenize is POST /tokenize. It costs no engine time.
func (s *Server) tokenize(w http.ResponseWriter, _ *http.Request, b *dialog.Request) error {
	out, err := b.Tokenized(s.options.ContextMax)
	if err == nil {
		writeJSON(w, http.StatusOK, out)
	}
	return err
}

// messages is POST /v1/messages, Anthropic's interface.
func (s *Server) messages(w http.ResponseWriter, r *http.Request, b *dialog.Request) error {
	p, err := s.messagesPrompt(b)
	if err != nil {
		return err
	}
	if b.MaxTokens == nil {
		return dialog.Refuse("max_tokens", "max_tokens: Field required")
	}
	l, err := b.Limits(s.options.ContextMax, p.Tokens, 0)
	if err != nil {
		return err
	}
	j := s.newJob([]dialog.Prompt{p}, 1, l, b.Stream)
	return s.run(w, r, j, dialog.Messages(s.head(randomID("msg_")), j.choices[0].answer))
}

// countTokens is POST /v1/messages/count_tokens. It costs no engine time.
func (s *Server) countTokens(w http.ResponseWriter, _ *http.Request, b *dialog.Request) error {
	p, err := s.messagesPrompt(b)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, fmt.Appendf(nil, `{"input_tokens":%d}`, p.Tokens))
	return nil
}

func (s *Server) messagesPrompt(b *dialog.Request) (dialog.Prompt, error) {
	if len(b.Messages) == 0 {
		return dialog.Prompt{}, dialog.Refuse("messages", "messages: at least one message is required")
	}
	return b.ChatPrompt(b.System, b.Messages, s.options.Profile.BlockTokens), nil
}

// respond is POST /v1/responses. Answers are kept (unless store is false), so that a later request can continue one.
func (s *Server) respond(w http.ResponseWriter, r *http.Request, b *dialog.Request) error {
	turns, err := b.Items()
	if err != nil {
		return err
	}
	if b.PreviousResponse != "" {
		previous, ok := s.responses.Get(b.PreviousResponse)
		if !ok {
			return noResponse(b.PreviousResponse)
		}
		turns = append(previous.Turns[:len(previous.Turns):len(previous.Turns)], turns...)
	}
	p := b.ChatPrompt(dialog.Plain(b.Instructions), turns, s.options.Profile.BlockTokens)
	l, err := b.Limits(s.options.ContextMax, p.Tokens, 0)
	if err != nil {
		return err
	}
	j := s.newJob([]dialog.Prompt{p}, 1, l, b.Stream)
	head, answer := s.head(randomID("resp_")), j.choices[0].answer
	form := dialog.Response(head, randomID("msg_"), b.PreviousResponse, answer)
	if b.Store == nil || *b.Store {
		j.keep = func() {
			turns = append(turns[:len(turns):len(turns)], dialog.Message{Role: "assistant", Content: dialog.Plain(answer.Text())})
			s.responses.Put(head.ID, dialog.Conversation{Turns: turns, Whole: form.Whole(nil, j.usage())})
		}
	}
	return s.run(w, r, j, form)
}

func (s *Server) head(id string) dialog.Head {
	return dialog.Head{ID: id, Model: s.options.Model, Fingerprint: s.fingerprint, Created: time.Now().Unix()}
}

// requestIDMax bounds what of a client's X-Request-Id goes into an answer, in bytes.
const requestIDMax = 128

// requestID makes an answer's id; a client's X-Request-Id becomes part of it, as in vLLM.
func requestID(r *http.Request, prefix string) string {
	if own := r.Header.Get("X-Request-Id"); own != "" && len(own) <= requestIDMax {
		return prefix + own
	}
	return randomID(prefix)
}

// randomID makes an id that no other engine makes: answers that are kept are found by it.
func randomID(prefix string) string { return fmt.Sprintf("%s%016x", prefix, rand.Uint64()) }
