package llmapi

// Usage is what an engine reported. A count that is absent, of the wrong type, negative or absurd has its Has flag
// false. PromptTokens includes cached tokens in every dialect.
type Usage struct {
	PromptTokens, CompletionTokens, CachedTokens int
	HasPrompt, HasCompletion, HasCached          bool
}

// Answer is what a whole (not streamed) reply tells.
type Answer struct {
	Usage   Usage
	ID      string
	Status  string // Responses: completed, failed, incomplete, in_progress
	IsError bool   // an error object, whatever the HTTP status said
	Err     string // its type, else code, else message
}

// ScanReply reads what it can of a reply and never fails: a reply that is not JSON is an empty Answer, one that
// breaks off tells what came before.
func ScanReply(api API, body []byte) Answer {
	var e event
	e.read(body)
	return Answer{
		Usage: e.counts.usage(api), IsError: e.isError, Err: e.errorName(body),
		ID: decode(e.id.Of(body), ""), Status: decode(e.status.Of(body), ""),
	}
}

// tally is usage as it stands in a reply, field by field. Anthropic's come in two events of a stream, and llama.cpp's
// timings stand in where there is no usage.
type tally struct {
	prompt, input, completion, cached, cacheRead, cacheCreation, timedCached, timedPrompt, timedCompletion reported
}

// reported is a count and whether it came.
type reported struct {
	n  int
	ok bool
}

// usage weighs the fields of one dialect against each other.
func (t *tally) usage(api API) Usage {
	prompt, cached, completion := t.prompt, t.cached, t.completion
	if !prompt.ok {
		prompt = t.input
		if prompt.ok && api.Dialect() == Anthropic { // its input_tokens leave out what was read from or written to the cache
			prompt.n += t.cacheRead.n + t.cacheCreation.n
		}
	}
	if !cached.ok {
		cached = t.cacheRead
	}
	if !prompt.ok && t.timedPrompt.ok {
		prompt = reported{t.timedPrompt.n + t.timedCached.n, true}
	}
	if !cached.ok {
		cached = t.timedCached
	}
	if !completion.ok {
		completion = t.timedCompletion
	}
	if prompt.ok && cached.n > prompt.n {
		cached = reported{}
	}
	return Usage{
		PromptTokens: prompt.n, HasPrompt: prompt.ok, CompletionTokens: completion.n, HasCompletion: completion.ok,
		CachedTokens: cached.n, HasCached: cached.ok,
	}
}

// merge adds a later report. Counts only grow within a stream, and some engines send zeros first or last.
func (t *tally) merge(u *tally) {
	t.prompt.merge(u.prompt)
	t.input.merge(u.input)
	t.completion.merge(u.completion)
	t.cached.merge(u.cached)
	t.cacheRead.merge(u.cacheRead)
	t.cacheCreation.merge(u.cacheCreation)
	t.timedCached.merge(u.timedCached)
	t.timedPrompt.merge(u.timedPrompt)
	t.timedCompletion.merge(u.timedCompletion)
}

func (r *reported) merge(u reported) {
	if u.ok && (!r.ok || u.n > r.n) {
		*r = u
	}
}

// readUsage reads a usage object; false when it is none.
func (t *tally) readUsage(s *scanner, val, depth int) (end int, object bool) {
	if s.peek(val) != '{' {
		return s.value(val, depth), false
	}
	m := s.object(val, depth)
	for m.next() {
		switch string(m.key) {
		case "prompt_tokens":
			m.i = t.prompt.read(s, m.val, m.depth)
		case "input_tokens":
			m.i = t.input.read(s, m.val, m.depth)
		case "completion_tokens", "output_tokens":
			m.i = t.completion.read(s, m.val, m.depth)
		case "cache_read_input_tokens":
			m.i = t.cacheRead.read(s, m.val, m.depth)
		case "cache_creation_input_tokens":
			m.i = t.cacheCreation.read(s, m.val, m.depth)
		case "prompt_tokens_details", "input_tokens_details":
			m.i = t.cached.readIn(s, m.val, m.depth, "cached_tokens")
		default:
			m.i = s.value(m.val, m.depth)
		}
	}
	return m.i, m.i > 0
}

// readTimings reads llama.cpp's timings: tokens taken from the cache, tokens prefilled, tokens generated.
func (t *tally) readTimings(s *scanner, val, depth int) int {
	if s.peek(val) != '{' {
		return s.value(val, depth)
	}
	m := s.object(val, depth)
	for m.next() {
		switch string(m.key) {
		case "cache_n":
			m.i = t.timedCached.read(s, m.val, m.depth)
		case "prompt_n":
			m.i = t.timedPrompt.read(s, m.val, m.depth)
		case "predicted_n":
			m.i = t.timedCompletion.read(s, m.val, m.depth)
		default:
			m.i = s.value(m.val, m.depth)
		}
	}
	return m.i
}

func (r *reported) read(s *scanner, val, depth int) int {
	end := s.value(val, depth)
	if end > 0 {
		r.n, r.ok = count(s.b[val:end])
	}
	return end
}

func (r *reported) readIn(s *scanner, val, depth int, key string) int {
	if s.peek(val) != '{' {
		return s.value(val, depth)
	}
	m := s.object(val, depth)
	for m.next() {
		if string(m.key) == key {
			m.i = r.read(s, m.val, m.depth)
		} else {
			m.i = s.value(m.val, m.depth)
		}
	}
	return m.i
}
