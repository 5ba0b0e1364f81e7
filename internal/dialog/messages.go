package dialog

import "fmt"

// messages is the shape of Anthropic's messages. Its input_tokens leave the cached ones out.
type messages struct {
	answer    Answer
	id, model string
}

// Messages is the form of /v1/messages.
func Messages(h Head, a Answer) Form {
	return &messages{answer: a, id: quote(h.ID), model: quote(h.Model)}
}

func (f *messages) stopReason() string {
	if f.answer.Finish == "stop" {
		return "end_turn"
	}
	return "max_tokens"
}

// head is a message up to its content.
func (f *messages) head() string {
	return `{"id":` + f.id + `,"type":"message","role":"assistant","model":` + f.model + `,"content":`
}

func (f *messages) usage(u Usage) string {
	return fmt.Sprintf(`"usage":{"input_tokens":%d,"cache_read_input_tokens":%d,"cache_creation_input_tokens":0,"output_tokens":%d}`,
		u.Prompt-u.Cached, u.Cached, u.Completion)
}

func (f *messages) Open(buf []byte, u Usage) []byte {
	u.Completion = 0
	buf = event(buf, "message_start", `{"type":"message_start","message":`+f.head()+`[],"stop_reason":null,"stop_sequence":null,`+f.usage(u)+`}}`)
	return event(buf, "content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
}

func (f *messages) Token(buf []byte, _ int, word []byte) []byte {
	buf = append(buf, "event: content_block_delta\ndata: "+`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`...)
	buf = append(buf, word...)
	return append(buf, "\"}}\n\n"...)
}

func (f *messages) End(buf []byte, _ int) []byte {
	return event(buf, "content_block_stop", `{"type":"content_block_stop","index":0}`)
}

func (f *messages) Close(buf []byte, u Usage) []byte {
	buf = event(buf, "message_delta", `{"type":"message_delta","delta":{"stop_reason":"`+f.stopReason()+`","stop_sequence":null},`+f.usage(u)+`}`)
	return event(buf, "message_stop", `{"type":"message_stop"}`)
}

func (f *messages) Whole(buf []byte, u Usage) []byte {
	return append(buf, f.head()+`[{"type":"text","text":"`+f.answer.Text()+`"}],"stop_reason":"`+f.stopReason()+
		`","stop_sequence":null,`+f.usage(u)+`}`...)
}
