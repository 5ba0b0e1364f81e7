package llmapi

import "github.com/warmpath/warmpath/internal/jsontext"

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
	prompt, input, completion, cached, cacheRead, cacheCreation = 0, 1, 2, 3, 4, 5
	timedCached, timedPrompt, timedCompletion, tallyCount       = 6, 7, 8, 9
)

// reported is a count and whether it came.
type reported struct {
	n  int
	ok bool
}

func (r reported) or(instead reported) reported {
	if r.ok {
		return r
	}
	return instead
}

// usage weighs the fields of one dialect against each other.
func (t *tally) usage(api API) Usage {
	in := t[input]
	if in.ok && api.Dialect() == Anthropic { // its input_tokens leave out what was read from or written to the cache
		in.n = min(in.n+t[cacheRead].n+t[cacheCreation].n, countMax)
	}
	timed := reported{min(t[timedPrompt].n+t[timedCached].n, countMax), t[timedPrompt].ok}
	p := t[prompt].or(in).or(timed)
	h := t[cached].or(t[cacheRead]).or(t[timedCached])
	c := t[completion].or(t[timedCompletion])
	if !p.ok { // what was cached of an unknown prompt says nothing
		p, h = reported{}, reported{}
	}
	if h.n > p.n {
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
	t.mergeParts(u)
	for i, r := range u {
		if i == input && t[input].ok {
			continue
		}
		if r.ok && (!t[i].ok || r.n > t[i].n || i >= timedCached) {
			t[i] = r
		}
	}
}

// mergeParts takes a later report of the input of which an earlier one is known. Its parts are one statement: vLLM first tells the whole of an
// Anthropic prompt as input, and at the end how much of it was none, but read from the cache or written to it.
func (t *tally) mergeParts(u *tally) {
	if !t[input].ok || !u[input].ok {
		return
	}
	before, after := t.parts(), u.parts()
	if after > before || after == before && (u[cacheRead].ok || u[cacheCreation].ok) {
		t[input] = u[input]
	}
}

func (t *tally) parts() int { return t[input].n + t[cacheRead].n + t[cacheCreation].n }

// readUsage reads a usage object; false when it is none.
func (t *tally) readUsage(s *jsontext.Scanner, val, depth int) (end int, object bool) {
	v := [...]Span{absent, absent, absent, absent, absent, absent, absent, absent}
	end = s.Pick(val, depth,
		jsontext.Want("prompt_tokens", &v[0]), jsontext.Want("input_tokens", &v[1]), jsontext.Want("completion_tokens", &v[2]), jsontext.Want("output_tokens", &v[3]),
		jsontext.Want("cache_read_input_tokens", &v[4]), jsontext.Want("cache_creation_input_tokens", &v[5]),
		jsontext.Want("prompt_tokens_details", &v[6]), jsontext.Want("input_tokens_details", &v[7]))
	for i, slot := range [...]int{prompt, input, completion, completion, cacheRead, cacheCreation} {
		t.read(s, slot, v[i])
	}
	for _, details := range v[6:] {
		if details.Found() {
			found := absent
			s.Pick(details.Start, depth+1, jsontext.Want("cached_tokens", &found))
			t.read(s, cached, found)
		}
	}
	return end, end > 0 && s.B[val] == '{'
}

// readTimings reads llama.cpp's timings: tokens taken from the cache, tokens prefilled, tokens generated.
func (t *tally) readTimings(s *jsontext.Scanner, val, depth int) int {
	v := [...]Span{absent, absent, absent}
	end := s.Pick(val, depth, jsontext.Want("cache_n", &v[0]), jsontext.Want("prompt_n", &v[1]), jsontext.Want("predicted_n", &v[2]))
	for i, slot := range [...]int{timedCached, timedPrompt, timedCompletion} {
		t.read(s, slot, v[i])
	}
	return end
}

// read takes a count that was reported; a negative or absurd one is none.
func (t *tally) read(s *jsontext.Scanner, slot int, value Span) {
	if f, ok := jsontext.Whole(value.Of(s.B)); ok && f >= 0 && f <= countMax {
		t[slot] = reported{int(f), true}
	}
}
