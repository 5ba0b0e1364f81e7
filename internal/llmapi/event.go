package llmapi

import "strings"

// event is what one streamed event, or one whole reply, tells. Spans are raw string contents within its bytes.
type event struct {
	id, kind, status          Span
	errType, errCode, errText Span
	isError                   bool
	content                   int  // deltas with content: a token each, one a choice
	noChoices                 bool // "choices" is there and empty
	hasUsage                  bool
	counts                    tally
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
	switch string(key) {
	case "id":
		return contents(s, val, 1, &e.id)
	case "type":
		end = contents(s, val, 1, &e.kind)
		e.isError = e.isError || string(e.kind.Of(s.b)) == "error"
		return end
	case "object": // an old form of vLLM's errors: flat, {"object":"error","message":...,"type":...}
		if end = s.value(val, 1); end > 0 && string(s.b[val:end]) == `"error"` {
			e.isError = true
		}
		return end
	case "status":
		return contents(s, val, 1, &e.status)
	case "usage":
		end, object := e.counts.readUsage(s, val, 1)
		e.hasUsage = object
		return end
	case "timings":
		return e.counts.readTimings(s, val, 1)
	case "choices":
		return e.choices(s, val)
	case "delta":
		return e.delta(s, val, 1)
	case "error":
		if c := s.peek(val); c == '{' || c == '"' {
			e.isError = true
		}
		return e.failure(s, val, 1)
	case "code":
		return contents(s, val, 1, &e.errCode)
	case "message":
		if s.peek(val) == '"' {
			return contents(s, val, 1, &e.errText)
		}
		return e.envelope(s, val)
	case "response":
		return e.envelope(s, val)
	}
	return s.value(val, 1)
}

// contents notes the contents of a string, the digits of a number, and nothing of any other value.
func contents(s *scanner, val, depth int, into *Span) int {
	end := s.value(val, depth)
	if end > 0 {
		switch c := s.b[val]; {
		case c == '"':
			*into = Span{val + 1, end - 1}
		case c >= '0' && c <= '9':
			*into = Span{val, end}
		}
	}
	return end
}

// envelope reads the object that Anthropic's message_start and the events of Responses carry.
func (e *event) envelope(s *scanner, val int) int {
	if s.peek(val) != '{' {
		return s.value(val, 1)
	}
	m := s.object(val, 1)
	for m.next() {
		switch string(m.key) {
		case "id":
			m.i = contents(s, m.val, m.depth, &e.id)
		case "status":
			m.i = contents(s, m.val, m.depth, &e.status)
		case "usage":
			m.i, e.hasUsage = e.counts.readUsage(s, m.val, m.depth)
		case "error":
			m.i = e.failure(s, m.val, m.depth)
		default:
			m.i = s.value(m.val, m.depth)
		}
	}
	return m.i
}

// failure reads an error object or string.
func (e *event) failure(s *scanner, val, depth int) int {
	if s.peek(val) != '{' {
		return contents(s, val, depth, &e.errText)
	}
	m := s.object(val, depth)
	for m.next() {
		switch string(m.key) {
		case "type":
			m.i = contents(s, m.val, m.depth, &e.errType)
		case "code":
			m.i = contents(s, m.val, m.depth, &e.errCode)
		case "message":
			m.i = contents(s, m.val, m.depth, &e.errText)
		default:
			m.i = s.value(m.val, m.depth)
		}
	}
	return m.i
}

// choices counts the choices whose delta or text has content.
func (e *event) choices(s *scanner, val int) int {
	if s.peek(val) != '[' {
		return s.value(val, 1)
	}
	e.noChoices = true
	list := s.array(val, 1)
	for list.next() {
		e.noChoices = false
		if s.peek(list.val) != '{' {
			list.i = s.value(list.val, list.depth)
			continue
		}
		m := s.object(list.val, list.depth)
		for m.next() {
			switch string(m.key) {
			case "delta", "text":
				m.i = e.delta(s, m.val, m.depth)
			default:
				m.i = s.value(m.val, m.depth)
			}
		}
		list.i = m.i
	}
	if list.i < 0 {
		e.noChoices = false
	}
	return list.i
}

// delta counts one delta when there is something in it: a string, or an object with text, reasoning or a tool call.
func (e *event) delta(s *scanner, val, depth int) int {
	if s.peek(val) != '{' {
		end := s.value(val, depth)
		if s.peek(val) == '"' && end > val+2 {
			e.content++
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
			if c := s.peek(m.val); c == '"' || c == '[' || c == '{' {
				some = some || m.i > m.val+2
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
