package llmapi

import (
	"strings"

	"github.com/warmpath/warmpath/internal/jsontext"
)

// Needs is what a request asks of a model beyond reading and writing text: a set, a bit each. Fields that an engine would
// take and act upon count, whatever the model makes of them.
type Needs uint8

// What a request can need.
const (
	NeedTools     Needs = 1 << iota // tools that it may call
	NeedJSON                        // an answer held to a schema, a grammar or to JSON
	NeedVision                      // images, video or documents are read
	NeedAudio                       // sound is read or spoken
	NeedReasoning                   // thinking was asked for, not merely allowed
)

var needNames = [...]string{"tools", "json", "vision", "audio", "reasoning"}

// NeedNames are the names of all needs, in their order.
func NeedNames() []string { return needNames[:] }

// NeedOf is the need of that name; 0 when there is none.
func NeedOf(name string) Needs {
	for i, n := range needNames {
		if n == name {
			return 1 << i
		}
	}
	return 0
}

// String lists the needs, "tools+vision"; "" for none.
func (n Needs) String() string {
	var names []string
	for i, name := range needNames {
		if n>>i&1 == 1 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}

// wishes are the fields that say how the answer must be and are not part of the prompt: OpenAI's, Anthropic's older and newer ones,
// then what holds an answer to a form in vLLM (structured_outputs, before 0.12 guided_*), llama.cpp, SGLang and TGI.
var wishes = [...]string{
	"response_format", "output_format", "text", "output_config", "modalities",
	"structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "json_schema", "regex", "ebnf", "grammar", "structural_tag",
}

// unplaced reads a field that has no place in the prompt.
func (w *walker) unplaced(key []byte, val int) int {
	end := w.Value(val, 1)
	for i, wish := range wishes {
		if len(wish) == len(key) && wish == string(key) && end > 0 {
			w.r.wishes[i] = w.wished(wish, span(val, end)) // the last of duplicates wins
		}
	}
	return end
}

func (w *walker) wished(wish string, value Span) Needs {
	switch wish {
	case "response_format", "output_format":
		return w.formatted(value)
	case "text", "output_config": // as Responses and Anthropic have it
		return w.formatted(w.member(value, "format"))
	case "modalities":
		return w.spoken(value)
	}
	if w.says(value) {
		return NeedJSON
	}
	return 0
}

// formatted is NeedJSON for a format that is not plain text.
func (w *walker) formatted(format Span) Needs {
	switch w.saying(w.member(format, "type")) {
	case "", "text":
		return 0
	}
	return NeedJSON
}

// spoken is NeedAudio for a list of modalities that has sound in it.
func (w *walker) spoken(list Span) Needs {
	if w.Peek(list.Start) != '[' {
		return 0
	}
	need := Needs(0)
	for m := w.Array(list.Start, 1); m.Next(); {
		m.I = w.Value(m.Val, m.Depth)
		if w.saying(span(m.Val, m.I)) == "audio" {
			need = NeedAudio
		}
	}
	return need
}

// saying is what a string says; "" for any other value.
func (w *walker) saying(value Span) string {
	if !value.Found() || w.B[value.Start] != '"' {
		return ""
	}
	return decode(w.Word(value).Of(w.B), "")
}

// member is the value of an object's member; absent when there is none.
func (w *walker) member(object Span, key string) Span {
	found := absent
	if object.Found() {
		w.Pick(object.Start, 1, jsontext.Want(key, &found))
	}
	return found
}

// says tells a value from none at all: null, false, "", [], {}.
func (w *walker) says(value Span) bool {
	if !value.Found() {
		return false
	}
	switch c := w.B[value.Start]; c {
	case 'n', 'f':
		return false
	case '"', '[', '{':
		return w.Space(value.Start+1) < value.End-1
	}
	return true
}

// placed is what a field that has a place in the prompt asks for, its value read and not null.
func (w *walker) placed(key string, value Span) Needs {
	switch key {
	case "tools", "functions":
		if w.says(value) {
			return NeedTools
		}
	case "reasoning_effort":
		return thinks(w.saying(value))
	case "reasoning":
		return thinks(w.saying(w.member(value, "effort")))
	case "thinking":
		return thinks(w.saying(w.member(value, "type")))
	case "chat_template_kwargs":
		for _, name := range [...]string{"enable_thinking", "thinking"} {
			if v := w.member(value, name); v.Found() && w.B[v.Start] == 't' {
				return NeedReasoning
			}
		}
	}
	return 0
}

// thinks reads an effort, or whether thinking is enabled.
func thinks(how string) Needs {
	switch how {
	case "", "none", "disabled":
		return 0
	}
	return NeedReasoning
}

// mediaNeed is what it takes to read the value of a block's member of that name.
func mediaNeed(key []byte) Needs {
	switch string(key) {
	case "audio_url", "input_audio", "audio":
		return NeedAudio
	}
	return NeedVision
}
