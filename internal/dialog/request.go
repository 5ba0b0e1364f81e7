package dialog

import (
	"cmp"
	"encoding/json/jsontext"
	json "encoding/json/v2"
	"fmt"
	"strings"
)

// Request is a request of any of the served shapes. Keys are case-exact, the last of duplicates wins and unknown ones are
// ignored, as in the engines' own JSON.
type Request struct {
	Model  string `json:"model"`
	Stream bool   `json:"stream"`

	Messages     []Message      `json:"messages"`
	System       Content        `json:"system"`
	Prompt       Texts          `json:"prompt"`
	Input        jsontext.Value `json:"input"`
	Instructions string         `json:"instructions"`
	Tools        jsontext.Value `json:"tools"`
	TemplateArgs jsontext.Value `json:"chat_template_kwargs"`
	Effort       string         `json:"reasoning_effort"`
	Documents    jsontext.Value `json:"documents"`
	CacheSalt    string         `json:"cache_salt"`
	Generation   *bool          `json:"add_generation_prompt"`
	Continue     bool           `json:"continue_final_message"`

	MaxTokens           *int  `json:"max_tokens"`
	MaxCompletionTokens *int  `json:"max_completion_tokens"`
	MaxOutputTokens     *int  `json:"max_output_tokens"`
	MinTokens           int   `json:"min_tokens"`
	IgnoreEOS           bool  `json:"ignore_eos"`
	N                   *int  `json:"n"`
	Seed                int64 `json:"seed"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
		Continuous   bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`

	PreviousResponse string `json:"previous_response_id"`
	Store            *bool  `json:"store"`
	EncodingFormat   string `json:"encoding_format"`
	Dimensions       int    `json:"dimensions"`

	KeepIDs bool `json:"-"` // prompts keep their tokens' numbers
}

// Message is one turn, or an item of /v1/responses' input. Members that a chat template does not print are ignored, so
// that an answer sent back with all its decoration (ids, status, nulls) is still the answer that was generated.
type Message struct {
	Role       string         `json:"role"`
	Content    Content        `json:"content"`
	Name       string         `json:"name"`
	Reasoning  string         `json:"reasoning"`
	Thinking   string         `json:"reasoning_content"`
	ToolCalls  jsontext.Value `json:"tool_calls"`
	ToolCallID string         `json:"tool_call_id"`
	CallID     string         `json:"call_id"`
	Arguments  string         `json:"arguments"`
	Output     jsontext.Value `json:"output"`
}

// Content is text, or a list of parts.
type Content []piece

// Plain is content of one text; none when it is empty.
func Plain(s string) Content {
	if s == "" {
		return nil
	}
	return Content{{text: s}}
}

type piece struct {
	text string
	raw  jsontext.Value // instead of text: a structured part
}

// readOptions accept what the engines' parsers accept.
var readOptions = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// Parse reads a request body; the error says what is wrong and where.
func Parse(raw []byte) (*Request, error) {
	b := new(Request)
	if err := json.Unmarshal(raw, b, readOptions); err != nil {
		return nil, fmt.Errorf("cannot read the request body: %w", err)
	}
	return b, nil
}

// UnmarshalJSONFrom reads a string, a list of parts or null.
func (c *Content) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	switch d.PeekKind() {
	case '"':
		var s string
		err := json.UnmarshalDecode(d, &s)
		*c = Content{{text: s}}
		return err
	case '[':
		var parts []jsontext.Value
		if err := json.UnmarshalDecode(d, &parts); err != nil {
			return err
		}
		*c = make(Content, len(parts))
		for i, p := range parts {
			(*c)[i] = readPiece(p)
		}
		return nil
	case 'n':
		return d.SkipValue()
	}
	return fmt.Errorf("content is neither a string nor a list of parts")
}

func readPiece(p jsontext.Value) piece {
	var text struct {
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(p, &text, readOptions); err != nil || text.Text == nil {
		return piece{raw: p}
	}
	return piece{text: *text.Text}
}

// write puts the content into a prompt.
func (c Content) write(p *Prompt) {
	for _, part := range c {
		switch {
		case part.raw == nil:
			p.text(part.text)
		case isMedia(part.raw):
			p.media(part.raw)
		default:
			p.mark(tokenRaw)
			p.text(string(part.raw))
		}
	}
}

func isMedia(raw jsontext.Value) bool {
	var part struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(raw, &part, readOptions) != nil {
		return false
	}
	for _, kind := range []string{"image", "audio", "video", "file", "document"} {
		if strings.Contains(part.Type, kind) {
			return true
		}
	}
	return false
}

// write puts the message into a prompt, and leaves it open where it is to be continued.
func (m Message) write(p *Prompt, open bool) {
	p.open(m.Role)
	if thought := cmp.Or(m.Reasoning, m.Thinking); thought != "" {
		p.mark(tokenRaw)
		p.text(thought)
	}
	m.Content.write(p)
	calls, output := string(m.ToolCalls), string(m.Output)
	for _, extra := range []string{m.Name, m.ToolCallID, m.CallID, m.Arguments, calls, output} {
		if extra != "" && extra != "null" && extra != "[]" {
			p.mark(tokenRaw)
			p.text(extra)
		}
	}
	if !open {
		p.end()
	}
}

// text is one prompt of /v1/completions or one input of /v1/embeddings: words or token ids.
type text struct {
	words string
	ids   []uint32
}

func (t text) write(p *Prompt) {
	p.text(t.words)
	for _, id := range t.ids {
		p.given(id)
	}
}

// Texts is a string, a list of strings, a list of token ids, or a list of such lists.
type Texts []text

// UnmarshalJSONFrom reads any of the four.
func (t *Texts) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	v, err := d.ReadValue()
	if err != nil || v.Kind() == 'n' {
		return err
	}
	v = v.Clone()
	var one string
	if v.Kind() == '"' {
		err := json.Unmarshal(v, &one, readOptions)
		*t = Texts{{words: one}}
		return err
	}
	var ids []uint32
	if json.Unmarshal(v, &ids) == nil {
		if len(ids) > 0 {
			*t = Texts{{ids: ids}}
		}
		return nil
	}
	var many []string
	if json.Unmarshal(v, &many, readOptions) == nil {
		for _, s := range many {
			*t = append(*t, text{words: s})
		}
		return nil
	}
	var lists [][]uint32
	if json.Unmarshal(v, &lists) != nil {
		return fmt.Errorf("a prompt is a string, a list of strings, or token ids")
	}
	for _, l := range lists {
		*t = append(*t, text{ids: l})
	}
	return nil
}

// PlainPrompts renders prompts that no chat template touches: of /v1/completions, and the inputs of /v1/embeddings. param
// names them in errors.
func (b *Request) PlainPrompts(list Texts, param string, blockTokens int) ([]Prompt, error) {
	var out []Prompt
	for _, t := range list {
		p := NewPrompt(blockTokens, b.CacheSalt)
		p.keepIDs = b.KeepIDs
		t.write(&p)
		if p.Tokens == 0 {
			return nil, Refuse(param, "%s must not be empty.", param)
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, Refuse(param, "%s is required.", param)
	}
	return out, nil
}

// Inputs reads the input of /v1/embeddings.
func (b *Request) Inputs() (Texts, error) {
	var list Texts
	if len(b.Input) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(b.Input, &list, readOptions); err != nil {
		return nil, Refuse("input", "%v", err)
	}
	return list, nil
}

// Items reads the input of /v1/responses: a text or a list of items.
func (b *Request) Items() ([]Message, error) {
	var items []Message
	var err error
	switch b.Input.Kind() {
	case '"':
		var c Content
		err = json.Unmarshal(b.Input, &c, readOptions)
		items = []Message{{Role: "user", Content: c}}
	case '[':
		err = json.Unmarshal(b.Input, &items, readOptions)
	}
	if err != nil || len(items) == 0 {
		return nil, Refuse("input", "input must be a text or a list with at least one item.")
	}
	return items, nil
}

// preamble writes what stands before the messages.
func (b *Request) preamble(p *Prompt) {
	if len(b.Tools) > 0 && string(b.Tools) != "null" && string(b.Tools) != "[]" {
		p.mark(tokenTools)
		p.text(string(b.Tools))
	}
	if len(b.TemplateArgs) > 0 || b.Effort != "" || len(b.Documents) > 0 {
		p.mark(tokenSettings)
		p.text(string(b.TemplateArgs))
		p.text(b.Effort)
		p.text(string(b.Documents))
	}
}

// ChatPrompt renders messages, ready for the assistant's turn unless the request says otherwise. system may be empty.
func (b *Request) ChatPrompt(system Content, messages []Message, blockTokens int) Prompt {
	p := NewPrompt(blockTokens, b.CacheSalt)
	p.keepIDs = b.KeepIDs
	b.preamble(&p)
	if len(system) > 0 {
		Message{Role: "system", Content: system}.write(&p, false)
	}
	for i, m := range messages {
		m.write(&p, b.Continue && i == len(messages)-1)
	}
	if !b.Continue && (b.Generation == nil || *b.Generation) {
		p.open("assistant")
	}
	return p
}
