package llmapi

// PartKind says what a Part's bytes are.
type PartKind uint8

const (
	Role       PartKind = iota // a role, or the type of an item that has none (function_call, reasoning); no quotes
	Text                       // the raw contents of a JSON string, escapes and all, without its quotes
	Raw                        // any other JSON that the engine renders: tools, template arguments, calls and their arguments, token ids
	Media                      // an image, audio, video or file: the whole JSON value
	Reply                      // marks the start of something the model generated earlier; its span is empty; the Role follows
	MessageEnd                 // marks the end of a message, of the system prompt or of the tools before it; its span is empty
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
	Priority  int

	// Parts is the conversation in the order in which the engine's prompt has it, whatever the body's order: tools,
	// system prompt, template arguments, then messages, prompt or input.
	Parts      []Part
	TextBytes  int  // bytes of the Text and Raw parts
	MediaParts int  // number of Media parts
	Prompts    int  // independent prompts or inputs in the body: 1, or the length of the list
	TokenIDs   bool // the prompt is given as token ids (as Raw parts, brackets excluded)
	TokenCount int  // how many token ids

	CacheSalt        string
	Session          string // first found of prompt_cache_key, conversation, metadata.user_id, user
	User             string // metadata.user_id or user
	Conversation     string // Responses: the conversation's id
	PreviousResponse string

	StreamOptions Span // whole value; absent when there is none
	IncludeUsage  bool // the client asked for usage in the stream
	Tools         Span // whole value
}

// Scan reads body as a request of that API and fills r. Errors are *SyntaxError (not JSON, not an object, nested
// deeper than DepthMax) and *FieldError (a field that routing needs has the wrong type).
func (r *Request) Scan(api API, body []byte) error {
	*r = Request{API: api, Dialect: api.Dialect(), Parts: r.Parts[:0], ModelSpan: absent, StreamOptions: absent, Tools: absent, N: 1}
	return nil
}
