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
type tally [tallyCount]reported

const (
	prompt = iota
	input
	completion
	cached
	cacheRead
	cacheCreation
	timedCached
	timedPrompt
	timedCompletion
	tallyCount
)

// reported is a count and whether it came.
type reported struct {
	n  int
	ok bool
}

// usage weighs the fields of one dialect against each other.
func (t *tally) usage(api API) Usage {
	p, h, c := t[prompt], t[cached], t[completion]
	if !p.ok {
		p = t[input]
		if p.ok && api.Dialect() == Anthropic { // its input_tokens leave out what was read from or written to the cache
			p.n += t[cacheRead].n + t[cacheCreation].n
		}
	}
	if !p.ok && t[timedPrompt].ok {
		p = reported{t[timedPrompt].n + t[timedCached].n, true}
	}
	if !h.ok {
		h = t[cacheRead]
	}
	if !h.ok {
		h = t[timedCached]
	}
	if !c.ok {
		c = t[timedCompletion]
	}
	if p.ok && h.n > p.n {
		h = reported{}
	}
	return Usage{
		PromptTokens: p.n, HasPrompt: p.ok, CompletionTokens: c.n, HasCompletion: c.ok,
		CachedTokens: h.n, HasCached: h.ok,
	}
}

// merge adds a later report. Usage only grows within a stream, and some engines send zeros first or last; timings
// stand for what they say, because llama.cpp's first ones can be those of the request before.
func (t *tally) merge(u *tally) {
	for i, r := range u {
		if r.ok && (!t[i].ok || r.n > t[i].n || i >= timedCached) {
			t[i] = r
		}
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
			m.i = t[prompt].read(s, m.val, m.depth)
		case "input_tokens":
			m.i = t[input].read(s, m.val, m.depth)
		case "completion_tokens", "output_tokens":
			m.i = t[completion].read(s, m.val, m.depth)
		case "cache_read_input_tokens":
			m.i = t[cacheRead].read(s, m.val, m.depth)
		case "cache_creation_input_tokens":
			m.i = t[cacheCreation].read(s, m.val, m.depth)
		case "prompt_tokens_details", "input_tokens_details":
			m.i = t[cached].readIn(s, m.val, m.depth, "cached_tokens")
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
			m.i = t[timedCached].read(s, m.val, m.depth)
		case "prompt_n":
			m.i = t[timedPrompt].read(s, m.val, m.depth)
		case "predicted_n":
			m.i = t[timedCompletion].read(s, m.val, m.depth)
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
