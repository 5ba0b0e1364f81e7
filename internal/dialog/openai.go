package dialog

import "fmt"

// openAI is the shape of chat completions and of completions.
type openAI struct {
	answers                  []Answer
	chat                     bool
	includeUsage, continuous bool
	head, chunkHead          string // of an answer in one piece, and of each event
	fingerprint              string
	usage                    Usage
}

// Chat is the form of /v1/chat/completions.
func Chat(h Head, r *Request, answers []Answer) Form {
	return newOpenAI(h, r, answers, "chat.completion", "chat.completion.chunk")
}

// Completion is the form of /v1/completions.
func Completion(h Head, r *Request, answers []Answer) Form {
	return newOpenAI(h, r, answers, "text_completion", "text_completion")
}

func newOpenAI(h Head, r *Request, answers []Answer, whole, chunk string) *openAI {
	head := func(object string) string {
		return fmt.Sprintf(`{"id":%s,"object":"%s","created":%d,"model":%s,`, quote(h.ID), object, h.Created, quote(h.Model))
	}
	include := r.StreamOptions.IncludeUsage
	return &openAI{
		answers: answers, chat: whole != chunk, includeUsage: include, continuous: include && r.StreamOptions.Continuous,
		head: head(whole), chunkHead: "data: " + head(chunk), fingerprint: `"system_fingerprint":` + quote(h.Fingerprint),
	}
}

func (f *openAI) Open(buf []byte, u Usage) []byte {
	f.usage = u
	f.usage.Completion = 0
	if !f.chat {
		return buf
	}
	for i := range f.answers {
		buf = append(buf, f.chunkHead...)
		buf = append(buf, f.fingerprint...)
		buf = append(buf, `,"choices":[{`...)
		buf = number(buf, "index", i)
		buf = append(buf, `,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`...)
		buf = f.finishChunk(buf)
	}
	return buf
}

func (f *openAI) Token(buf []byte, choice int, word []byte) []byte {
	buf = append(buf, f.chunkHead...)
	buf = append(buf, `"choices":[{`...)
	buf = number(buf, "index", choice)
	open, end := `,"text":"`, `","logprobs":null,"finish_reason":null}]`
	if f.chat {
		open, end = `,"delta":{"content":"`, `"},"logprobs":null,"finish_reason":null}]`
	}
	buf = append(buf, open...)
	buf = append(buf, word...)
	buf = append(buf, end...)
	f.usage.Completion++
	return f.finishChunk(buf)
}

func (f *openAI) End(buf []byte, choice int) []byte {
	buf = append(buf, f.chunkHead...)
	buf = append(buf, `"choices":[{`...)
	buf = number(buf, "index", choice)
	empty := `,"text":""`
	if f.chat {
		empty = `,"delta":{}`
	}
	buf = append(buf, empty...)
	buf = append(buf, `,"logprobs":null,"finish_reason":"`...)
	buf = append(buf, f.answers[choice].Finish...)
	buf = append(buf, `","stop_reason":null}]`...)
	return f.finishChunk(buf)
}

// finishChunk closes an event, with the usage so far where the client asked for it in every one.
func (f *openAI) finishChunk(buf []byte) []byte {
	if f.continuous {
		buf = append(buf, ',')
		buf = f.usage.append(buf)
	}
	return append(buf, "}\n\n"...)
}

func (f *openAI) Close(buf []byte, u Usage) []byte {
	if f.includeUsage {
		buf = append(buf, f.chunkHead...)
		buf = append(buf, `"choices":[],`...)
		buf = u.append(buf)
		buf = append(buf, ',')
		buf = append(buf, f.fingerprint...)
		buf = append(buf, "}\n\n"...)
	}
	return append(buf, "data: [DONE]\n\n"...)
}

func (f *openAI) Whole(buf []byte, u Usage) []byte {
	buf = append(buf, f.head...)
	buf = append(buf, `"choices":[`...)
	open, end := `,"text":"`, `","logprobs":null,"finish_reason":"`
	if f.chat {
		open, end = `,"message":{"role":"assistant","content":"`, `","refusal":null},"logprobs":null,"finish_reason":"`
	}
	for i, a := range f.answers {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = number(append(buf, '{'), "index", i)
		buf = append(buf, open...)
		buf = append(buf, a.Text()...)
		buf = append(buf, end...)
		buf = append(buf, a.Finish...)
		buf = append(buf, `","stop_reason":null}`...)
	}
	buf = append(buf, `],`...)
	buf = append(buf, f.fingerprint...)
	buf = append(buf, ',')
	return append(u.append(buf), '}')
}
