package dialog

import (
	"encoding/json/jsontext"
	"fmt"
	"strconv"
)

// Form is the shape of one API's answer. Its methods append to buf what goes on the wire next and keep nothing of it. A
// form belongs to one request and is used by one goroutine. A stream is Open, then Token for every token and End for every
// choice, then Close; an answer that is not streamed is Whole alone.
type Form interface {
	// Open is what comes before the first token. The usage has the prompt's part.
	Open(buf []byte, u Usage) []byte
	// Token is one token of a choice, as an event of its own.
	Token(buf []byte, choice int, word []byte) []byte
	// End closes one choice.
	End(buf []byte, choice int) []byte
	// Close is what comes after the last choice.
	Close(buf []byte, u Usage) []byte
	// Whole is the answer in one piece.
	Whole(buf []byte, u Usage) []byte
}

// Head is what an answer says about itself.
type Head struct {
	ID, Model string
	// Fingerprint is the system_fingerprint.
	Fingerprint string
	// Created is in seconds since 1970.
	Created int64
}

// Usage is what a request cost, in tokens. A prompt counts once, however many choices share it.
type Usage struct {
	Prompt, Cached, Completion int
}

// append writes "usage":{...} in OpenAI's shape.
func (u Usage) append(buf []byte) []byte {
	return fmt.Appendf(buf, `"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`,
		u.Prompt, u.Prompt+u.Completion, u.Completion, u.Cached)
}

// event appends one server-sent event with a name.
func event(buf []byte, name, data string) []byte {
	buf = append(buf, "event: "...)
	buf = append(buf, name...)
	buf = append(buf, "\ndata: "...)
	buf = append(buf, data...)
	return append(buf, "\n\n"...)
}

// number appends a key and an integer of a JSON object.
func number(buf []byte, key string, n int) []byte {
	buf = append(buf, '"')
	buf = append(buf, key...)
	buf = append(buf, `":`...)
	return strconv.AppendInt(buf, int64(n), 10)
}

// replaceInvalid writes what is not UTF-8 as the replacement character.
var replaceInvalid = jsontext.AllowInvalidUTF8(true)

// quote makes a JSON string.
func quote(s string) string {
	out, err := jsontext.AppendQuote(nil, []byte(s))
	if err != nil && len(out) == 0 {
		return `""`
	}
	return string(out)
}
