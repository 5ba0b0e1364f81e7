// Package tokenask asks engines for the tokens that they make of a request, in each engine's own way, and takes nothing on trust that
// they answer: times and lengths are bounded, and what is no list of token ids is an error.
//
//	for _, f := range tokenask.Forms["vllm"] {
//		ids, err := f.Tokens(ctx, caller, "qwen3", request)
//	}
package tokenask

import (
	"bytes"
	"context"
	"encoding/json/jsontext"
	json "encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/warmpath/warmpath/internal/chat"
)

// Form is how an engine is asked for tokens.
type Form struct {
	Name string
	chat func(ctx context.Context, c *Caller, question []byte) ([]uint32, error)
	text func(ctx context.Context, c *Caller, question []byte, r chat.Request) ([]uint32, error)
	// Blind are the features that its answers do not heed though the engine's prompts do.
	Blind chat.Feature
	// Partial forms answer for a part of the engine's work that need not be the one that serves requests: a served request has to show it.
	Partial bool
	llama   bool // a template that raises is status 500
	// Converts is whether it is known what the engine makes of messages and responses.
	Converts bool
}

// Forms are those of each engine, as telemetry names it, the most telling first. Engines that are not here are left alone.
var Forms = map[string][]Form{
	"vllm": {
		{Name: "POST /v1/chat/completions/render", chat: chatRendered, text: textRendered, Converts: true},
		{Name: "POST /tokenize", chat: chatTokenized, text: textTokenized, Blind: chat.Effort | chat.Documents | chat.OldReasoning, Partial: true, Converts: true},
	},
	"warmpath":  {{Name: "POST /tokenize", chat: chatTokenized, text: textTokenized, Converts: true}},
	"sglang":    {{Name: "POST /tokenize", chat: chatTokenized, text: textTokenized}},
	"llama.cpp": {{Name: "POST /apply-template and /tokenize", chat: chatApplied, text: textLlama, llama: true}},
}

// Tokens asks for a request's tokens; question is its Question. An answer without any token is not nil.
func (f *Form) Tokens(ctx context.Context, c *Caller, question []byte, r chat.Request) ([]uint32, error) {
	if r.Chat == nil {
		return f.text(ctx, c, question, r)
	}
	return f.chat(ctx, c, question)
}

// chatRendered and textRendered ask vLLM's own preprocessing: what they return is what would be served.
func chatRendered(ctx context.Context, c *Caller, question []byte) ([]uint32, error) {
	return c.tokens(ctx, "/v1/chat/completions/render", question, "token_ids")
}

func textRendered(ctx context.Context, c *Caller, question []byte, _ chat.Request) ([]uint32, error) {
	return c.tokens(ctx, "/v1/completions/render", question, "token_ids")
}

// chatTokenized and textTokenized are vLLM's and SGLang's older way.
func chatTokenized(ctx context.Context, c *Caller, question []byte) ([]uint32, error) {
	return c.tokens(ctx, "/tokenize", question, "tokens")
}

func textTokenized(ctx context.Context, c *Caller, question []byte, _ chat.Request) ([]uint32, error) {
	return c.tokens(ctx, "/tokenize", question, "tokens")
}

// chatApplied and textLlama ask llama.cpp, which renders and tokenises in two steps.
func chatApplied(ctx context.Context, c *Caller, question []byte) ([]uint32, error) {
	answer, err := c.Post(ctx, "/apply-template", question)
	if err != nil {
		return nil, err
	}
	var made struct {
		Prompt *string `json:"prompt"`
	}
	if err := json.Unmarshal(answer, &made, ReadOptions); err != nil || made.Prompt == nil {
		return nil, errors.New("/apply-template: the answer has no prompt")
	}
	return textLlama(ctx, c, nil, chat.Request{Text: *made.Prompt})
}

func textLlama(ctx context.Context, c *Caller, _ []byte, r chat.Request) ([]uint32, error) {
	return c.tokens(ctx, "/tokenize", marshal(struct {
		Content string `json:"content"`
		Add     bool   `json:"add_special"`
		Parse   bool   `json:"parse_special"`
	}{r.Text, !r.Bare, true}), "tokens")
}

func marshal(v any) []byte {
	out, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // strings, numbers and booleans always have a JSON form
	}
	return out
}

// ReadOptions accept what Python and C++ write.
var ReadOptions = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// StatusError is an engine that refused a question.
type StatusError struct {
	Path   string
	Status int
}

func (e *StatusError) Error() string {
	if e.Keyless() {
		return fmt.Sprintf("POST %s: status %d: the engine wants a key; set the worker's key", e.Path, e.Status)
	}
	return fmt.Sprintf("POST %s: status %d", e.Path, e.Status)
}

// Absent is whether the engine has no such endpoint, or keeps it shut: vLLM answers 403 for those that --enable-scale-out opens, and has
// others that it answers.
func (e *StatusError) Absent() bool {
	return e.Status == http.StatusNotFound || e.Status == http.StatusForbidden || e.Status == http.StatusMethodNotAllowed || e.Status == http.StatusNotImplemented || e.Status/100 == 3
}

func (e *StatusError) Keyless() bool {
	return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
}

// Refused is whether the engine found fault with what it was asked, and not with itself. llama.cpp says 500 where a template raises.
func (e *StatusError) Refused(f *Form) bool {
	return e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity || e.Status == http.StatusInternalServerError && f.llama
}

// Caller asks one engine.
type Caller struct {
	base, key string
	client    *http.Client
}

// NewCaller asks the engine at a URL, with a bearer key unless that is "".
func NewCaller(url, key string, client *http.Client) *Caller {
	return &Caller{base: strings.TrimSuffix(strings.TrimRight(url, "/"), "/v1"), key: key, client: client}
}

// Bounds of an answer: what a settled answer takes beside its tokens, and bytes for each byte of the question, which no tokenizer makes
// more than one token of.
const (
	answerBytes       = 1 << 20
	answerBytesPer    = 16
	answerBytesMax    = 256 << 20
	refusedBytesTaken = 4 << 10 // of a refusal, so that its connection serves again
)

// Post asks for a path; ctx bounds the time. Errors do not quote the answer, in which a prompt may be.
func (c *Caller) Post(ctx context.Context, path string, question []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(question))
	if err != nil {
		return nil, errors.New("the worker's URL cannot be asked")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "warmpath")
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("POST %s: no answer: %w", path, bare(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		_, _ = io.CopyN(io.Discard, resp.Body, refusedBytesTaken)
		return nil, &StatusError{Path: path, Status: resp.StatusCode}
	}
	most := min(answerBytes+answerBytesPer*len(question), answerBytesMax)
	answer, err := io.ReadAll(io.LimitReader(resp.Body, int64(most)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("POST %s: no whole answer: %w", path, err)
	case len(answer) > most:
		return nil, fmt.Errorf("POST %s: the answer is longer than %d bytes", path, most)
	}
	return answer, nil
}

// bare is a client's error without the URL, which may hold a credential.
func bare(err error) error {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		if err = inner; !strings.Contains(inner.Error(), "://") {
			break
		}
	}
	return err
}

// tokens asks and reads the ids of the member of that name, of the answer or of the one answer in a list.
func (c *Caller) tokens(ctx context.Context, path string, question []byte, name string) ([]uint32, error) {
	answer, err := c.Post(ctx, path, question)
	if err != nil {
		return nil, err
	}
	ids, err := ReadTokens(answer, name)
	if err != nil {
		return nil, fmt.Errorf("POST %s: %w", path, err)
	}
	return ids, nil
}

// ReadTokens reads the ids in an answer. A count beside them must be theirs.
func ReadTokens(answer []byte, name string) ([]uint32, error) {
	answer = bytes.TrimSpace(answer)
	if bytes.HasPrefix(answer, []byte("[")) {
		var list []jsontext.Value
		if err := json.Unmarshal(answer, &list, ReadOptions); err != nil || len(list) != 1 {
			return nil, errors.New("the answer is not one prompt")
		}
		answer = list[0]
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(answer, &members, ReadOptions); err != nil {
		return nil, errors.New("the answer is no JSON object")
	}
	list := members[name]
	if list.Kind() != '[' {
		return nil, fmt.Errorf("the answer has no list of %s", name)
	}
	if bytes.IndexByte(list[1:], '[') >= 0 {
		return nil, fmt.Errorf("the answer's %s are not numbers", name)
	}
	ids, err := chat.AppendIDs(make([]uint32, 0, len(list)/5), list)
	if err != nil {
		return nil, err
	}
	var count int
	if v := members["count"]; v.Kind() == '0' && (json.Unmarshal(v, &count) != nil || count != len(ids)) {
		return nil, fmt.Errorf("the answer counts other than its %d tokens", len(ids))
	}
	return ids, nil
}
