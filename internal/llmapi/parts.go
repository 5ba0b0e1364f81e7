package llmapi

import "bytes"

// PartsMax bounds the parts of one request, and so the memory that a body of empty messages can claim: what comes
// after them is scanned but left out, which costs a warm prefix and nothing else.
const PartsMax = 1 << 18

// add notes a part. Its bytes have been scanned already, so that an error leaves no part behind that matters.
func (w *walker) add(kind PartKind, start, end int) {
	if len(w.r.scratch) < PartsMax {
		w.r.scratch = append(w.r.scratch, Part{kind, span(start, end)})
	}
}

// mark notes a part without bytes.
func (w *walker) mark(kind PartKind, at int) { w.add(kind, at, at) }

// text notes the contents of the string at val.
func (w *walker) text(val, depth int) int {
	end := w.Value(val, depth)
	if end > val+2 {
		w.add(Text, val+1, end-1)
	}
	return end
}

// raw notes a value as it is. SDKs send back what an engine's reply left empty (refusal null, tool_calls []), other
// clients leave it out: neither is part of the prompt.
func (w *walker) raw(val, depth int) int {
	end := w.Value(val, depth)
	if end < 0 || w.B[val] == 'n' || end == val+2 && (w.B[val] == '[' || w.B[val] == '"') {
		return end
	}
	w.add(Raw, val, end)
	return end
}

// messages walks a list of messages.
func (w *walker) messages(val int, field string) int {
	if w.Peek(val) != '[' {
		return w.refuse(val, 1, field, "an array")
	}
	list := w.Array(val, 1)
	for list.Next() {
		list.I = w.message(list.Val, list.Depth, field)
	}
	return list.I
}

// items walks what Responses has for messages: a string stands for one message of the user.
func (w *walker) items(val int) int {
	if w.Peek(val) == '[' {
		return w.messages(val, "input")
	}
	if w.Peek(val) != '"' {
		return w.refuse(val, 1, "input", "a string or an array")
	}
	end := w.text(val, 1)
	w.mark(MessageEnd, end)
	return end
}

// message walks one message or item: its role comes first whatever the order of its members, and what the model
// generated is marked as a reply.
func (w *walker) message(val, depth int, field string) int {
	if w.Peek(val) != '{' {
		return w.refuse(val, depth, field, "an array of objects")
	}
	r := w.r
	first := len(r.scratch)
	w.mark(Role, val)
	var role, kind Span
	m := w.Object(val, depth)
	for m.Next() {
		switch string(m.Key) {
		case "role":
			if w.Peek(m.Val) != '"' {
				return w.refuse(m.Val, m.Depth, field+".role", "a string")
			}
			m.I = w.Value(m.Val, m.Depth)
			role = span(m.Val+1, m.I-1)
		case "type":
			if m.I = w.Value(m.Val, m.Depth); w.Peek(m.Val) == '"' {
				kind = span(m.Val+1, m.I-1)
			}
		case "content", "output":
			m.I = w.content(m.Val, m.Depth)
		case "id", "status", "index", "cache_control", "annotations":
			m.I = w.Value(m.Val, m.Depth) // bookkeeping that no template renders and that may change from turn to turn
		default:
			m.I = w.raw(m.Val, m.Depth)
		}
	}
	if m.I < 0 {
		return -1
	}
	if role.Len() == 0 {
		role = kind
	}
	if role.Len() > 0 && first < len(r.scratch) {
		r.scratch[first].Span = role
	}
	if generated(role.Of(w.B)) && len(r.scratch) < PartsMax {
		w.mark(Reply, val)
		copy(r.scratch[first+1:], r.scratch[first:])
		r.scratch[first] = Part{Reply, span(val, val)}
	}
	w.mark(MessageEnd, m.I)
	return m.I
}

// generated tells whether a message of that role, or an item of that type, was made by the model.
func generated(role []byte) bool {
	return string(role) == "assistant" || string(role) == "reasoning" ||
		bytes.HasSuffix(role, []byte("_call")) // function_call, web_search_call, ...
}

// content walks a message's content: a string or a list of blocks.
func (w *walker) content(val, depth int) int {
	switch w.Peek(val) {
	case '"':
		return w.text(val, depth)
	case '[':
		list := w.Array(val, depth)
		for list.Next() {
			list.I = w.block(list.Val, list.Depth)
		}
		return list.I
	}
	return w.raw(val, depth)
}

// block walks one content block. Text comes out as if the content were a plain string, because to the engines it is
// the same; cache_control moves from turn to turn and is none of the prompt.
func (w *walker) block(val, depth int) int {
	if w.Peek(val) != '{' {
		return w.content(val, depth)
	}
	m := w.Object(val, depth)
	for m.Next() {
		switch string(m.Key) {
		case "text", "content", "refusal":
			m.I = w.content(m.Val, m.Depth)
		case "type", "cache_control", "citations", "annotations", "logprobs", "index", "status":
			m.I = w.Value(m.Val, m.Depth)
		case "image_url", "video_url", "audio_url", "input_audio", "image", "video", "audio", "source", "file",
			"file_data", "file_id", "file_url", "image_data":
			if m.I = w.Value(m.Val, m.Depth); w.Peek(m.Val) != 'n' {
				w.add(Media, m.Val, m.I)
				w.needs |= mediaNeed(m.Key)
			}
		default:
			m.I = w.raw(m.Val, m.Depth)
		}
	}
	return m.I
}

// inputs walks a prompt: a string, a list of strings, token ids or a list of such lists; it counts the prompts and
// the ids. A run of ids is one Raw part without the brackets, so that a longer prompt begins with the bytes of a
// shorter one.
func (w *walker) inputs(val, depth int, field string) (end, prompts, ids int) {
	switch c := w.Peek(val); {
	case c == '"' || c == '{':
		return w.block(val, depth), 1, 0
	case c != '[':
		if w.r.API != Other {
			return w.refuse(val, depth, field, "a string or an array"), 0, 0
		}
		return w.Value(val, depth), 0, 0
	}
	list := w.Array(val, depth)
	run := absent
	for list.Next() {
		c := w.Peek(list.Val)
		if c >= '0' && c <= '9' {
			list.I = w.Value(list.Val, list.Depth)
			if !run.Found() {
				run.Start = list.Val
				prompts++
			}
			run.End = list.I
			ids++
			continue
		}
		if run.Found() { // llama.cpp lets ids and strings mix
			w.add(Raw, run.Start, run.End)
			run = absent
		}
		inner := 0
		list.I, _, inner = w.inputs(list.Val, list.Depth, field)
		ids += inner
		prompts++
		w.mark(MessageEnd, list.I)
	}
	if run.Found() {
		w.add(Raw, run.Start, run.End)
	}
	return list.I, prompts, ids
}
