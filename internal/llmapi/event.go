package llmapi

import (
	"strings"

	"github.com/warmpath/warmpath/internal/jsontext"
)

// event is what one streamed event, or one whole reply, tells. Spans are raw string contents within its bytes.
type event struct {
	id, kind, status          Span
	errType, errCode, errText Span
	isError                   bool
	content                   int  // deltas with content: a token each, one a choice
	noChoices                 bool // "choices" is there and empty
	hasUsage                  bool
	counts                    tally
	holes                     jsontext.Holes // scalars that change nothing by what they say
}

// common tells whether the event is nothing but one delta with content.
func (e *event) common() bool {
	return e.content == 1 && e.holes.Texts == 1 && !e.isError && e.counts == tally{}
}

// read fills e from data and tells whether data is a JSON object. What came before an error stays read.
func (e *event) read(data []byte) bool {
	*e = event{id: absent, kind: absent, status: absent, errType: absent, errCode: absent, errText: absent}
	s := jsontext.Scanner{B: data, Lenient: true}
	i := s.Space(0)
	if s.Peek(i) != '{' {
		return false
	}
	m := s.Object(i, 0)
	for m.Next() {
		m.I = e.field(&s, m.Key, m.Val)
	}
	return m.I > 0
}

func (e *event) field(s *jsontext.Scanner, key []byte, val int) (end int) {
	c := s.Peek(val)
	switch string(key) {
	case "usage":
		end, e.hasUsage = e.counts.readUsage(s, val, 1)
		return end
	case "timings":
		return e.counts.readTimings(s, val, 1)
	case "choices":
		return e.choices(s, val)
	case "delta", "content": // "content": llama.cpp's own paths
		return e.delta(s, val, 1)
	case "error":
		if c == '{' || c == '"' {
			e.isError = true
			return e.failure(s, val, 1)
		}
	case "response":
		return e.envelope(s, val)
	case "message":
		if c == '{' {
			return e.envelope(s, val)
		}
	}
	if end = s.Value(val, 1); end < 0 {
		return -1
	}
	word := s.Word(span(val, end))
	switch string(key) {
	case "id":
		e.id = word
	case "type":
		e.kind = word
		e.isError = e.isError || string(word.Of(s.B)) == "error"
	case "object": // an old form of vLLM's errors: flat, {"object":"error","message":...,"type":...}
		e.isError = e.isError || string(word.Of(s.B)) == "error"
	case "status":
		e.status = word
	case "code":
		e.errCode = word
	case "message":
		e.errText = word
	default:
		if c == '"' || c >= '0' && c <= '9' {
			e.holes.Add(val, end, false)
		}
	}
	return end
}

// envelope reads the object that Anthropic's message_start and the events of Responses carry.
func (e *event) envelope(s *jsontext.Scanner, val int) int {
	id, status, usage, failure := absent, absent, absent, absent
	end := s.Pick(val, 1, jsontext.Want("id", &id), jsontext.Want("status", &status), jsontext.Want("usage", &usage), jsontext.Want("error", &failure))
	e.id, e.status = s.Word(id), s.Word(status)
	if usage.Found() {
		_, e.hasUsage = e.counts.readUsage(s, usage.Start, 2)
	}
	if failure.Found() {
		e.failure(s, failure.Start, 2)
	}
	return end
}

// failure reads an error object or string.
func (e *event) failure(s *jsontext.Scanner, val, depth int) int {
	kind, code, text := absent, absent, absent
	end := s.Pick(val, depth, jsontext.Want("type", &kind), jsontext.Want("code", &code), jsontext.Want("message", &text))
	if end > 0 && s.B[val] == '"' {
		text = span(val, end)
	}
	e.errType, e.errCode, e.errText = s.Word(kind), s.Word(code), s.Word(text)
	return end
}

// choices counts the choices whose delta or text has content.
func (e *event) choices(s *jsontext.Scanner, val int) int {
	if s.Peek(val) != '[' {
		return s.Value(val, 1)
	}
	n := 0
	list := s.Array(val, 1)
	for ; list.Next(); n++ {
		delta, text := absent, absent
		list.I = s.Pick(list.Val, list.Depth, jsontext.Want("delta", &delta), jsontext.Want("text", &text))
		for _, v := range [...]Span{delta, text} {
			if v.Found() {
				e.delta(s, v.Start, list.Depth+1)
			}
		}
	}
	e.noChoices = n == 0 && list.I > 0
	return list.I
}

// delta counts one delta when there is something in it: a string, or an object with text, reasoning or a tool call.
func (e *event) delta(s *jsontext.Scanner, val, depth int) int {
	if s.Peek(val) != '{' {
		end := s.Value(val, depth)
		if s.Peek(val) == '"' && end > val+2 {
			e.content++
			e.holes.Add(val, end, true)
		}
		return end
	}
	some := false
	m := s.Object(val, depth)
	for m.Next() {
		m.I = s.Value(m.Val, m.Depth)
		switch string(m.Key) {
		case "content", "reasoning_content", "reasoning", "refusal", "text", "thinking", "partial_json", "tool_calls",
			"function_call":
			if c := s.Peek(m.Val); !some && (c == '"' || c == '[' || c == '{') && m.I > m.Val+2 {
				if some = true; c == '"' {
					e.holes.Add(m.Val, m.I, true)
				}
			}
		}
	}
	if some {
		e.content++
	}
	return m.I
}

const errorNameMax = 200 // bytes of an error's name kept

// errorName is the shortest name that an error has: type, else code, else message; "" when there is no error.
func (e *event) errorName(data []byte) string {
	if !e.isError {
		return ""
	}
	for _, span := range []Span{e.errType, e.errCode, e.errText} {
		if span.Len() > 0 {
			name := decode(span.Of(data), "")
			return strings.ToValidUTF8(name[:min(len(name), errorNameMax)], "")
		}
	}
	return "error"
}
