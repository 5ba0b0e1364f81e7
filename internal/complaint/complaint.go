// Package complaint is a worker's error reply: read within bounds, kept aside while another worker is tried, and looked at for what it
// complains of.
//
//	body, err := complaint.Read(res.Body, end)       // complaint.ErrStalled when it does not come
//	res.Body = complaint.Again(res.Body, body)       // read after all, from its beginning
//	if complaint.TooLong(body) { ... }               // another model may have a longer context
package complaint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/warmpath/warmpath/internal/header"
	"github.com/warmpath/warmpath/internal/upstream"
)

// BytesMax bounds an error reply that is kept aside; a longer one goes to the client at once.
const BytesMax = 64 << 10

// BodyTime bounds the wait for an error's body: engines send it with its head, and a client is not to wait for one that stalls as long
// as for an answer.
const BodyTime = 2 * time.Second

// ErrStalled says that the body did not come within BodyTime.
var ErrStalled = errors.New("the body of an error stalled")

// Reply is an error reply that is kept, answered after all when no other worker does better.
type Reply struct {
	Status int
	Header header.Fields
	Body   []byte
	Worker string
}

// Read reads the body of an error, BytesMax of it. When it does not come in time, end is called and the error is ErrStalled: the exchange
// with its worker is over then.
func Read(from io.Reader, end func(cause error)) ([]byte, error) {
	stalled := make(chan struct{})
	limit := time.AfterFunc(BodyTime, func() { end(ErrStalled); close(stalled) })
	body, err := io.ReadAll(io.LimitReader(from, BytesMax))
	if !limit.Stop() {
		<-stalled // whatever end ends serves other requests after this one
		if err != nil {
			err = ErrStalled
		}
	}
	return body, err
}

// Again is a body with the bytes before it that were read ahead.
func Again(rest upstream.Body, head []byte) upstream.Body { return &prefixed{rest, head} }

type prefixed struct {
	upstream.Body
	head []byte
}

func (p *prefixed) Next() ([]byte, error) {
	if head := p.head; len(head) > 0 {
		p.head = nil
		return head, nil
	}
	return p.Body.Next()
}

func (p *prefixed) More() bool { return len(p.head) > 0 || p.Body.More() }

func (p *prefixed) Each(f func(piece []byte) error) error {
	if head := p.head; len(head) > 0 {
		p.head = nil
		if err := f(head); err != nil {
			return err
		}
	}
	return p.Body.Each(f)
}

// tooLong are words, in lower case, by which servers say that a prompt, or a prompt and its answer, is longer than the model's context: OpenAI's
// code, vLLM (and llama-cpp-python), SGLang, llama.cpp, Text Generation Inference, TensorRT-LLM, Anthropic, Ollama.
var tooLong = [...]string{
	"context_length_exceeded", "maximum context length", "longer than the model's context length", "exceeds the available context size", "exceed_context_size",
	"`inputs` must have less than", "exceeds maximum sequence length", "should not exceed max_seq_len", "prompt is too long", "exceeds the context length", "exceeds maximum input length",
}

// TooLong says whether an error reply complains that the request is longer than the model's context.
func TooLong(body []byte) bool {
	text := bytes.ToLower(body)
	for _, words := range tooLong {
		if bytes.Contains(text, []byte(words)) {
			return true
		}
	}
	return false
}

// Words are what an error reply says to people, as OpenAI's API, Anthropic's and the engines' own servers put it; "" where that cannot be told.
func Words(body []byte) string {
	var reply struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &reply) != nil {
		return ""
	}
	var inner struct {
		Message string `json:"message"`
	}
	var text, detail string
	if json.Unmarshal(reply.Error, &inner) != nil {
		_ = json.Unmarshal(reply.Error, &text) // some say it without an object
	}
	_ = json.Unmarshal(reply.Detail, &detail)
	return cmp.Or(inner.Message, text, reply.Message, detail)
}
