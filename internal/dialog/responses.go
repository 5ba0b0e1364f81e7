package dialog

import (
	"fmt"
	"strconv"
)

// responses is the shape of OpenAI's responses.
type responses struct {
	Head
	answer    Answer
	messageID string
	previous  string // in JSON
	sequence  int
}

// Response is the form of /v1/responses. messageID names the message in it, previous the response it continues, if any.
func Response(h Head, messageID, previous string, a Answer) Form {
	f := &responses{Head: h, answer: a, messageID: messageID, previous: "null"}
	if previous != "" {
		f.previous = quote(previous)
	}
	return f
}

// event appends one event: every one carries its type and its place in the stream.
func (f *responses) event(buf []byte, kind, rest string) []byte {
	data := `{"type":"` + kind + `","sequence_number":` + strconv.Itoa(f.sequence) + rest + `}`
	f.sequence++
	return event(buf, kind, data)
}

// object is the response as it stands: status, output items and usage, the last two in JSON.
func (f *responses) object(status, output, usage string) string {
	details := "null"
	if status == "incomplete" {
		details = `{"reason":"max_output_tokens"}`
	}
	return fmt.Sprintf(`{"id":%s,"object":"response","created_at":%d,"status":"%s","model":%s,"previous_response_id":%s,`+
		`"incomplete_details":%s,"error":null,"system_fingerprint":%s,"parallel_tool_calls":true,"tool_choice":"auto","tools":[],`+
		`"metadata":{},"output":[%s],"usage":%s}`,
		quote(f.ID), f.Created, status, quote(f.Model), f.previous, details, quote(f.Fingerprint), output, usage)
}

func (f *responses) part(text string) string {
	return `{"type":"output_text","annotations":[],"logprobs":[],"text":"` + text + `"}`
}

func (f *responses) item(status, parts string) string {
	return `{"type":"message","id":"` + f.messageID + `","role":"assistant","status":"` + status + `","content":[` + parts + `]}`
}

// place says which part of which item an event is about.
func (f *responses) place() string {
	return `,"item_id":"` + f.messageID + `","output_index":0,"content_index":0`
}

func (f *responses) status() string {
	if f.answer.Finish == "length" {
		return "incomplete"
	}
	return "completed"
}

func (f *responses) Open(buf []byte, _ Usage) []byte {
	started := `,"response":` + f.object("in_progress", "", "null")
	buf = f.event(buf, "response.created", started)
	buf = f.event(buf, "response.in_progress", started)
	buf = f.event(buf, "response.output_item.added", `,"output_index":0,"item":`+f.item("in_progress", ""))
	return f.event(buf, "response.content_part.added", f.place()+`,"part":`+f.part(""))
}

func (f *responses) Token(buf []byte, _ int, word []byte) []byte {
	return f.event(buf, "response.output_text.delta", f.place()+`,"logprobs":[],"delta":"`+string(word)+`"`)
}

func (f *responses) End(buf []byte, _ int) []byte {
	text := f.answer.Text()
	buf = f.event(buf, "response.output_text.done", f.place()+`,"logprobs":[],"text":"`+text+`"`)
	buf = f.event(buf, "response.content_part.done", f.place()+`,"part":`+f.part(text))
	return f.event(buf, "response.output_item.done", `,"output_index":0,"item":`+f.item(f.status(), f.part(text)))
}

func (f *responses) Close(buf []byte, u Usage) []byte {
	return f.event(buf, "response."+f.status(), `,"response":`+string(f.Whole(nil, u)))
}

func (f *responses) Whole(buf []byte, u Usage) []byte {
	usage := fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":%d}`,
		u.Prompt, u.Cached, u.Completion, u.Prompt+u.Completion)
	return append(buf, f.object(f.status(), f.item(f.status(), f.part(f.answer.Text())), usage)...)
}
