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
	s := scanner{b: data, lenient: true}
	i := s.space(0)
	if s.peek(i) != '{' {
		return false
	}
	m := s.object(i, 0)
	for m.next() {
		m.i = e.field(&s, m.key, m.val)
	}
	return m.i > 0
}

func (e *event) field(s *scanner, key []byte, val int) (end int) {
	c := s.peek(val)
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
	if end = s.value(val, 1); end < 0 {
		return -1
	}
	word := s.word(Span{val, end})
	switch string(key) {
	case "id":
		e.id = word
	case "type":
		e.kind = word
		e.isError = e.isError || string(word.Of(s.b)) == "error"
	case "object": // an old form of vLLM's errors: flat, {"object":"error","message":...,"type":...}
		e.isError = e.isError || string(word.Of(s.b)) == "error"
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
func (e *event) envelope(s *scanner, val int) int {
	id, status, usage, failure := absent, absent, absent, absent
	end := s.pick(val, 1, wanted{"id", &id}, wanted{"status", &status}, wanted{"usage", &usage}, wanted{"error", &failure})
	e.id, e.status = s.word(id), s.word(status)
	if usage.Found() {
		_, e.hasUsage = e.counts.readUsage(s, usage.Start, 2)
	}
	if failure.Found() {
		e.failure(s, failure.Start, 2)
	}
	return end
}

// failure reads an error object or string.
func (e *event) failure(s *scanner, val, depth int) int {
	kind, code, text := absent, absent, absent
	end := s.pick(val, depth, wanted{"type", &kind}, wanted{"code", &code}, wanted{"message", &text})
	if end > 0 && s.b[val] == '"' {
		text = Span{val, end}
	}
	e.errType, e.errCode, e.errText = s.word(kind), s.word(code), s.word(text)
	return end
}

// choices counts the choices whose delta or text has content.
func (e *event) choices(s *scanner, val int) int {
	if s.peek(val) != '[' {
		return s.value(val, 1)
	}
	n := 0
	list := s.array(val, 1)
	for ; list.next(); n++ {
		delta, text := absent, absent
		list.i = s.pick(list.val, list.depth, wanted{"delta", &delta}, wanted{"text", &text})
		for _, v := range [...]Span{delta, text} {
			if v.Found() {
				e.delta(s, v.Start, list.depth+1)
			}
		}
	}
	e.noChoices = n == 0 && list.i > 0
	return list.i
}

// delta counts one delta when there is something in it: a string, or an object with text, reasoning or a tool call.
func (e *event) delta(s *scanner, val, depth int) int {
	if s.peek(val) != '{' {
		end := s.value(val, depth)
		if s.peek(val) == '"' && end > val+2 {
			e.content++
			e.holes.Add(val, end, true)
		}
		return end
	}
	some := false
	m := s.object(val, depth)
	for m.next() {
		m.i = s.value(m.val, m.depth)
		switch string(m.key) {
		case "content", "reasoning_content", "reasoning", "refusal", "text", "thinking", "partial_json", "tool_calls",
			"function_call":
			if c := s.peek(m.val); !some && (c == '"' || c == '[' || c == '{') && m.i > m.val+2 {
				if some = true; c == '"' {
					e.holes.Add(m.val, m.i, true)
				}
			}
		}
	}
	if some {
		e.content++
	}
	return m.i
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
