package llmapi

import (
	"bytes"
	"cmp"

	"github.com/warmpath/warmpath/internal/jsontext"
)

// PartKind says what a Part's bytes are.
type PartKind uint8

const (
	Role       PartKind = iota // a role, or the type of an item that has none (function_call, reasoning); no quotes
	Text                       // the raw contents of a JSON string, escapes and all, without its quotes
	Raw                        // any other JSON that the engine renders: tools, template arguments, calls and their arguments, token ids
	Media                      // an image, audio, video or file: the whole JSON value
	Reply                      // marks the start of something the model generated earlier; its span is empty; the Role follows
	MessageEnd                 // marks the end of a message, of the tools or of the system prompt; its span is empty
)

// Part is one piece of the conversation.
type Part struct {
	Kind PartKind
	Span
}

// Request is what routing needs to know of a body. Spans point into the body that was scanned. It is reusable: Scan
// resets it and keeps its memory, so that a pooled Request scans without allocating, save for strings that change.
type Request struct {
	API     API
	Dialect Dialect

	Model     string // decoded
	ModelSpan Span   // the whole value, quotes included: what an alias replaces
	HasModel  bool   // false when absent, null or ""

	Stream    bool
	MaxTokens int // most tokens to generate; 0 when the client did not say
	N         int // completions asked for, at least 1
	Answers   int // completions generated: best_of where that is more than N

	// Priority is a whole number, PriorityName a text in its place; PrioritySpan is the whole value, absent where there is none or null.
	Priority     int
	PriorityName string
	PrioritySpan Span

	// Parts is the conversation in the order in which the engine's prompt has it, whatever the body's order: tools,
	// system prompt, template arguments, then messages, prompt or input.
	Parts      []Part
	TextBytes  int  // bytes of the Text and Raw parts
	MediaParts int  // number of Media parts
	Prompts    int  // independent prompts or inputs in the body: 1, or the length of the list
	TokenIDs   bool // the prompt is given as token ids (as Raw parts, brackets excluded)
	TokenCount int  // how many token ids
	Needs      Needs

	// Scored says that every token of the prompt is to be given a probability, for which engines compute all of it and take none of it from
	// their caches: prompt_logprobs, or an echo with logprobs.
	Scored bool

	CacheSalt        string // the client's own
	TenantSalt       string // in its place, "" none: it is set by whoever keeps tenants apart, and gone with the next Scan
	Session          string // first found of prompt_cache_key, conversation, metadata.user_id, user
	User             string // metadata.user_id or user
	Conversation     string // Responses: the conversation's id
	PreviousResponse string

	StreamOptions Span // whole value; absent when there is none
	IncludeUsage  bool // the client asked for usage in the stream
	Tools         Span // whole value

	scratch  []Part // sections in the body's order
	sections [len(places)]section
	names    [nameCount]Span // raw contents of the strings above
	limits   [4]int          // max_completion_tokens, max_output_tokens, max_tokens, n_predict: the newer before the older
	bestOf   int
	scores   bool // prompt_logprobs
	logprobs bool
	echo     bool
	wishes   [len(wishes)]Needs
	options  streamOptions
	edit     [1]Edit
}

// section is a run of scratch parts: one top-level field's share of the conversation. Keeping them apart puts them
// into the prompt's order and lets the last of duplicate keys win.
type section struct {
	from, to int32 // indexes into scratch; empty when absent
	prompts  int32
	tokens   int32 // token ids
	needs    Needs
}

const nameSalt, nameCacheKey, nameConversation, nameMetadataUser, nameUser, namePrevious, namePriority, nameCount = 0, 1, 2, 3, 4, 5, 6, 7

// Scan reads body as a request of that API and fills r. Errors are *SyntaxError (not JSON, not an object, nested
// deeper than jsontext.DepthMax, not UTF-8) and *FieldError (a field that routing needs has the wrong type). A byte order mark
// is skipped, as the engines do. The last of duplicate keys wins; keys are case-exact.
func (r *Request) Scan(api API, body []byte) error {
	old := r.reset(api)
	w := walker{Scanner: jsontext.Scanner{B: body}, r: r}
	start := 0
	if bytes.HasPrefix(body, []byte("\xef\xbb\xbf")) {
		start = 3
	}
	start = w.Space(start)
	end := start
	switch {
	case w.Peek(start) == '{':
		end = w.top(start)
	case start == len(body):
		end = w.Fail(start, "the body is empty")
	default:
		end = w.Fail(start, "the body is not a JSON object")
	}
	if end >= 0 {
		if end = w.Space(end); end < len(body) {
			end = w.Fail(end, "data after the JSON object")
		} else {
			end = w.UTF8()
		}
	}
	if end < 0 {
		r.reset(api)
		if w.wrong != nil {
			return w.wrong
		}
		return &SyntaxError{Offset: w.At, What: w.What}
	}
	r.finish(body, start, old)
	return nil
}

// remembered holds the strings of the scan before, to be used again when they are the same.
type remembered struct{ model, salt, session, user, conversation, previous, priority string }

func (r *Request) reset(api API) remembered {
	old := remembered{r.Model, r.CacheSalt, r.Session, r.User, r.Conversation, r.PreviousResponse, r.PriorityName}
	parts, scratch := r.Parts[:0], r.scratch[:0]
	*r = Request{} // zeroed in place: a literal with fields would be built elsewhere and copied
	r.API, r.Dialect, r.N, r.Prompts = api, api.Dialect(), 1, 1
	r.Parts, r.scratch = parts, scratch
	r.ModelSpan, r.PrioritySpan, r.StreamOptions, r.Tools = absent, absent, absent, absent
	return old
}

// finish decodes the strings, weighs alternatives and puts the sections into the prompt's order.
func (r *Request) finish(body []byte, start int, old remembered) {
	if r.ModelSpan.Found() {
		r.Model = decode(body[r.ModelSpan.Start+1:r.ModelSpan.End-1], old.model)
		r.HasModel = r.Model != ""
	}
	name := func(which int, old string) string { return decode(r.names[which].Of(body), old) }
	r.CacheSalt = name(nameSalt, old.salt)
	r.Conversation = name(nameConversation, old.conversation)
	r.PreviousResponse = name(namePrevious, old.previous)
	r.PriorityName = name(namePriority, old.priority)
	r.User = cmp.Or(name(nameMetadataUser, old.user), name(nameUser, old.user))
	r.Session = cmp.Or(name(nameCacheKey, old.session), r.Conversation, r.User)
	r.MaxTokens = max(0, cmp.Or(r.limits[:]...))
	r.Scored = r.scores || r.echo && r.logprobs && r.API == Completions
	r.options.open = start
	for i := range r.sections {
		sec := &r.sections[i]
		r.Parts = append(r.Parts, r.scratch[sec.from:sec.to]...)
		r.TokenCount += int(sec.tokens)
		r.Prompts = max(r.Prompts, int(sec.prompts))
		r.Needs |= sec.needs
	}
	for _, need := range r.wishes {
		r.Needs |= need
	}
	r.Answers = max(r.N, r.bestOf)
	r.TokenIDs = r.TokenCount > 0
	for _, p := range r.Parts {
		switch p.Kind {
		case Text, Raw:
			r.TextBytes += p.Len()
		case Media:
			r.MediaParts++
		}
	}
}
