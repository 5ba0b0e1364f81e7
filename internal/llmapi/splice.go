package llmapi

import (
	"bytes"
	"slices"
	"strconv"
)

// Edit replaces the bytes of Span by Text; an empty span inserts.
type Edit struct {
	Span
	Text []byte
}

// Splice returns a copy of body with the edits made. They must not overlap; they are sorted in place. Every other byte
// is as it was, which keeps numbers, key order and unknown fields intact.
func Splice(body []byte, edits ...Edit) []byte {
	slices.SortStableFunc(edits, func(a, b Edit) int { return a.Start - b.Start })
	size := len(body)
	for _, e := range edits {
		size += len(e.Text) - e.Len()
	}
	out := make([]byte, 0, size)
	at := 0
	for _, e := range edits {
		out = append(out, body[at:e.Start]...)
		out = append(out, e.Text...)
		at = e.End
	}
	return append(out, body[at:]...)
}

// SetModel returns the edit that has a body, which was scanned, ask for that model.
func (r *Request) SetModel(body []byte, model string) Edit {
	return set(body, r.ModelSpan, "model", quote(model))
}

// Events says whether the answer is to be a stream of events, in a form that is known.
func (r *Request) Events() bool {
	return r.Stream && r.API != Other && r.API != Embeddings && r.API != CountTokens
}

// HasPriority says whether the API has a field for a priority, in vLLM and SGLang.
func (r *Request) HasPriority() bool {
	return r.API == Chat || r.API == Completions || r.API == Embeddings || r.API == Responses
}

// SetPriority returns the edit that has a body, which was scanned, say that priority.
func (r *Request) SetPriority(body []byte, priority int) Edit {
	return set(body, r.PrioritySpan, "priority", strconv.Itoa(priority))
}

// Salt is what keeps the request's prompt apart in caches; "" nothing.
func (r *Request) Salt() string {
	if r.TenantSalt != "" {
		return r.TenantSalt
	}
	return r.CacheSalt
}

// SetSalt returns the edit that has a body, which was scanned, say its Salt.
func (r *Request) SetSalt(body []byte) Edit {
	at := absent
	if own := r.names[nameSalt]; own.Start > 0 { // within its quotes
		at = span(own.Start-1, own.End+1)
	}
	return set(body, at, "cache_salt", quote(r.Salt()))
}

// set gives a field its value. Where there is none the field goes to the end: the last of duplicate keys wins, with the engines too.
func set(body []byte, at Span, field, value string) Edit {
	if at.Found() {
		return Edit{at, []byte(value)}
	}
	end := bytes.LastIndexByte(body, '}')
	text := quote(field) + ":" + value
	if before := bytes.TrimRight(body[:end], " \t\r\n"); before[len(before)-1] != '{' {
		text = "," + text
	}
	return Edit{span(end, end), []byte(text)}
}

// streamOptions is where usage can be asked for.
type streamOptions struct {
	open       int  // the body's opening brace
	kind       byte // first byte of the value: '{' has members, 'n' is null or an object without members
	include    Span // the value of the last include_usage
	continuous bool // continuous_usage_stats is set: with usage on, every event would carry it
}

var (
	optionField  = []byte(`"stream_options":{"include_usage":true},`)
	optionWhole  = []byte(`{"include_usage":true}`)
	optionMember = []byte(`"include_usage":true,`)
)

// InjectUsage returns the edits that make an engine report usage in the stream, nil when there is nothing to do: the
// client asked itself, the request does not stream, its API reports usage anyway, or stream_options is not something
// an engine would accept. The edits are valid until the next Scan.
func (r *Request) InjectUsage(body []byte) []Edit {
	o := r.options
	if !r.Stream || r.IncludeUsage || r.API != Chat && r.API != Completions {
		return nil
	}
	e := &r.edit[0]
	switch {
	case !r.StreamOptions.Found():
		*e = Edit{span(o.open+1, o.open+1), optionField}
	case o.kind == 'n':
		*e = Edit{r.StreamOptions, optionWhole}
	case o.kind != '{' || o.continuous:
		return nil
	case o.include.Found():
		*e = Edit{o.include, []byte("true")}
	default:
		at := r.StreamOptions.Start + 1
		*e = Edit{span(at, at), optionMember}
	}
	return r.edit[:]
}
