package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// api is one of the request forms that the suite sends.
type api int

const (
	chat api = iota
	completions
	messages
	embeddings
)

var paths = [...]string{"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/embeddings"}

// apiOf is the API of a path, -1 where it is none.
func apiOf(path string) api {
	for a, p := range paths {
		if p == path {
			return api(a)
		}
	}
	return -1
}

// ask is what a request wants of a worker. It travels in the prompt, so that a worker and the checker make the same answer of it.
type ask struct {
	id     int
	words  int
	first  int // microseconds until the answer begins
	gap    int // microseconds between two words
	pad    int // bytes that each word is lengthened by
	prompt int // tokens of the prompt, as the worker is to report them
}

func (a ask) String() string {
	return fmt.Sprintf("[chaos %d %d %d %d %d %d]", a.id, a.words, a.first, a.gap, a.pad, a.prompt)
}

var askForm = regexp.MustCompile(`\[chaos (\d+) (\d+) (\d+) (\d+) (\d+) (\d+)\]`)

// readAsk finds the ask in a request's body.
func readAsk(body []byte) (a ask, ok bool) {
	m := askForm.FindSubmatch(body)
	if m == nil {
		return a, false
	}
	for i, into := range []*int{&a.id, &a.words, &a.first, &a.gap, &a.pad, &a.prompt} {
		*into, _ = strconv.Atoi(string(m[i+1]))
	}
	return a, true
}

// mix is a number made of two, the same in every process (splitmix64).
func mix(a, b int) uint64 {
	z := uint64(a)*0x9e3779b97f4a7c15 + uint64(b)*0xbf58476d1ce4e5b9 + 0x94d049bb133111eb
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// word is one token of an answer. It names the attempt and its place, so that one that is lost, doubled, moved or somebody else's shows.
func (a ask) word(tag string, k int) string {
	return fmt.Sprintf("%s.%d.%08x%s ", tag, k, uint32(mix(a.id, k)), strings.Repeat("x", a.pad))
}

// piece is one event of a stream, or the whole of another answer.
type piece struct {
	text  string
	usage bool // tells the usage of a stream: only who asked for it gets it
}

// want is how an answer is to be shaped.
type want struct {
	api    api
	stream bool
	usage  bool   // of a stream: asked for
	model  string // the one that was asked for
	prompt int    // tokens, as the answer tells
	cached int    // of these
}

// answer is all that a worker says to an ask. tag names the attempt.
func (a ask) answer(w want, tag string) []piece {
	switch {
	case !w.stream:
		return []piece{{text: a.whole(w, tag)}}
	case w.api == messages:
		return a.messageEvents(w, tag)
	}
	return a.chunks(w, tag)
}

func (a ask) whole(w want, tag string) string {
	var text strings.Builder
	for k := range a.words {
		text.WriteString(a.word(tag, k))
	}
	usage := fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`, w.prompt, a.words, w.prompt+a.words, w.cached)
	switch w.api {
	case completions:
		return fmt.Sprintf(`{"id":"cmpl-%s","object":"text_completion","model":%q,"choices":[{"index":0,"text":%q,"finish_reason":"stop"}],%s}`, tag, w.model, text.String(), usage)
	case messages:
		return fmt.Sprintf(`{"id":"msg_%s","type":"message","role":"assistant","model":%q,"content":[{"type":"text","text":%q}],"stop_reason":"end_turn","usage":{"input_tokens":%d,"output_tokens":%d}}`,
			tag, w.model, text.String(), w.prompt, a.words)
	case embeddings:
		return fmt.Sprintf(`{"object":"list","model":%q,"data":[{"object":"embedding","index":0,"embedding":[%d]}],"note":%q,"usage":{"prompt_tokens":%d,"total_tokens":%d}}`, w.model, a.id, text.String(), w.prompt, w.prompt)
	}
	return fmt.Sprintf(`{"id":"chatcmpl-%s","object":"chat.completion","model":%q,"choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],%s}`, tag, w.model, text.String(), usage)
}

// chunks are the events of OpenAI's streams.
func (a ask) chunks(w want, tag string) []piece {
	id, object, content := "chatcmpl-"+tag, "chat.completion.chunk", `"delta":{"content":%q}`
	if w.api == completions {
		id, object, content = "cmpl-"+tag, "text_completion", `"text":%q`
	}
	event := func(choices, rest string) piece {
		return piece{text: fmt.Sprintf(`data: {"id":%q,"object":%q,"created":1,"model":%q,"choices":[%s]%s}`, id, object, w.model, choices, rest) + "\n\n"}
	}
	out := make([]piece, 0, a.words+3)
	for k := range a.words {
		out = append(out, event(`{"index":0,`+fmt.Sprintf(content, a.word(tag, k))+`,"finish_reason":null}`, ""))
	}
	out = append(out, event(`{"index":0,`+fmt.Sprintf(content, "")+`,"finish_reason":"stop"}`, ""))
	if w.usage {
		u := event("", fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`, w.prompt, a.words, w.prompt+a.words, w.cached))
		u.usage = true
		out = append(out, u)
	}
	return append(out, piece{text: "data: [DONE]\n\n"})
}

// messageEvents are those of Anthropic's streams.
func (a ask) messageEvents(w want, tag string) []piece {
	event := func(name, rest string) piece {
		return piece{text: fmt.Sprintf("event: %s\ndata: {\"type\":%q%s}\n\n", name, name, rest)}
	}
	out := []piece{
		event("message_start", fmt.Sprintf(`,"message":{"id":"msg_%s","type":"message","role":"assistant","model":%q,"content":[],"usage":{"input_tokens":%d,"output_tokens":1}}`, tag, w.model, w.prompt)),
		event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`),
	}
	for k := range a.words {
		out = append(out, event("content_block_delta", fmt.Sprintf(`,"index":0,"delta":{"type":"text_delta","text":%q}`, a.word(tag, k))))
	}
	return append(out, event("content_block_stop", `,"index":0`),
		event("message_delta", fmt.Sprintf(`,"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":%d}`, a.words)), event("message_stop", ""))
}
