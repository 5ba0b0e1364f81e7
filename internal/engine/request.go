package engine

import (
	"encoding/json/jsontext"
	json "encoding/json/v2"
	"fmt"
	"strings"
)

// body is a request of any of the served shapes. Keys are case-exact, the last of duplicates wins and unknown ones are
// ignored, as in the engines' own JSON.
type body struct {
	Model  string `json:"model"`
	Stream bool   `json:"stream"`

	Messages     []message      `json:"messages"`
	System       content        `json:"system"`
	Prompt       texts          `json:"prompt"`
	Input        jsontext.Value `json:"input"`
	Instructions string         `json:"instructions"`
	Tools        jsontext.Value `json:"tools"`
	TemplateArgs jsontext.Value `json:"chat_template_kwargs"`
	Effort       string         `json:"reasoning_effort"`
	CacheSalt    string         `json:"cache_salt"`

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
}

// message is one turn, or an item of /v1/responses' input. Members that a chat template does not print are ignored, so
// that an answer sent back with all its decoration (ids, status, nulls) is still the answer that was generated.
type message struct {
	Role       string         `json:"role"`
	Content    content        `json:"content"`
	Name       string         `json:"name"`
	ToolCalls  jsontext.Value `json:"tool_calls"`
	ToolCallID string         `json:"tool_call_id"`
	CallID     string         `json:"call_id"`
	Arguments  string         `json:"arguments"`
	Output     jsontext.Value `json:"output"`
}

// content is text, or a list of parts.
type content []piece

type piece struct {
	text string
	raw  jsontext.Value // instead of text: a structured part
}

// readOptions accept what the engines' parsers accept.
var readOptions = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

func parse(raw []byte) (*body, error) {
	b := new(body)
	if err := json.Unmarshal(raw, b, readOptions); err != nil {
		return nil, fmt.Errorf("cannot read the request body: %w", err)
	}
	return b, nil
}

// UnmarshalJSONFrom reads a string, a list of parts or null.
func (c *content) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	switch d.PeekKind() {
	case '"':
		var s string
		err := json.UnmarshalDecode(d, &s)
		*c = content{{text: s}}
		return err
	case '[':
		var parts []jsontext.Value
		if err := json.UnmarshalDecode(d, &parts); err != nil {
			return err
		}
		*c = make(content, len(parts))
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
func (c content) write(p *prompt) {
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

func (m message) write(p *prompt) {
	p.open(m.Role)
	m.Content.write(p)
	calls, output := string(m.ToolCalls), string(m.Output)
	for _, extra := range []string{m.Name, m.ToolCallID, m.CallID, m.Arguments, calls, output} {
		if extra != "" && extra != "null" && extra != "[]" {
			p.mark(tokenRaw)
			p.text(extra)
		}
	}
	p.end()
}

// text is one prompt of /v1/completions or one input of /v1/embeddings: words or token ids.
type text struct {
	words string
	ids   []uint32
}

func (t text) write(p *prompt) {
	p.text(t.words)
	for _, id := range t.ids {
		p.add(uint64(id) | 1<<40)
	}
}

// texts is a string, a list of strings, a list of token ids, or a list of such lists.
type texts []text

// UnmarshalJSONFrom reads any of the four.
func (t *texts) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	v, err := d.ReadValue()
	if err != nil || v.Kind() == 'n' {
		return err
	}
	v = v.Clone()
	var one string
	if v.Kind() == '"' {
		err := json.Unmarshal(v, &one, readOptions)
		*t = texts{{words: one}}
		return err
	}
	var ids []uint32
	if json.Unmarshal(v, &ids) == nil {
		if len(ids) > 0 {
			*t = texts{{ids: ids}}
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

// preamble writes what stands before the messages.
func (b *body) preamble(p *prompt) {
	if len(b.Tools) > 0 && string(b.Tools) != "null" && string(b.Tools) != "[]" {
		p.mark(tokenTools)
		p.text(string(b.Tools))
	}
	if len(b.TemplateArgs) > 0 || b.Effort != "" {
		p.mark(tokenSettings)
		p.text(string(b.TemplateArgs))
		p.text(b.Effort)
	}
}

// chatPrompt renders messages, ready for the assistant's turn. system may be empty.
func (b *body) chatPrompt(system content, messages []message, blockTokens int) prompt {
	p := newPrompt(blockTokens, b.CacheSalt)
	b.preamble(&p)
	if len(system) > 0 {
		message{Role: "system", Content: system}.write(&p)
	}
	for _, m := range messages {
		m.write(&p)
	}
	p.open("assistant")
	return p
}
