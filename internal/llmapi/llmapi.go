// Package llmapi knows the APIs that inference engines speak. It scans a request for what routing needs, watches a
// reply or a stream of events go by, and shapes an error the way the caller's SDK expects it. It never re-encodes:
// a body is forwarded as it came, and the rare rewrite is a splice of bytes. It decides nothing and touches no
// socket, clock or goroutine.
//
//	api, dialect := llmapi.Route("POST", "/v1/chat/completions")
//	var req llmapi.Request // reusable, keep it in a pool
//	if err := req.Scan(api, body); err != nil {
//		w.Write(llmapi.ErrorBody(dialect, 400, llmapi.KindInvalid, err.Error(), ""))
//		return
//	}
//	for _, p := range req.Parts { // the conversation in the order of the engine's prompt
//		hash(p.Kind, body[p.Start:p.End])
//	}
//	var stream llmapi.Stream
//	stream.Reset(api, false)
//	client.Write(stream.Feed(chunk))
//	fmt.Println(stream.Tokens, stream.Usage.CachedTokens)
package llmapi

import (
	"bytes"
	"math"
	"strings"

	"github.com/warmpath/warmpath/internal/jsontext"
)

// Dialect is the family of SDKs on the other side: it decides how errors look.
type Dialect uint8

const (
	OpenAI Dialect = iota
	Anthropic
)

// API is one request shape.
type API uint8

const (
	Other API = iota // any path we have no shape for: model, stream and obvious text are read on a best effort
	Chat
	Completions
	Embeddings
	Responses
	Messages
	CountTokens
)

var apiNames = [...]string{"other", "chat", "completions", "embeddings", "responses", "messages", "count_tokens"}

// String is the API's name in logs and metrics: chat, completions, embeddings, responses, messages, count_tokens, other.
func (a API) String() string {
	if int(a) < len(apiNames) {
		return apiNames[a]
	}
	return "other"
}

// Dialect tells how the SDKs of this API want their errors.
func (a API) Dialect() Dialect {
	if a == Messages || a == CountTokens {
		return Anthropic
	}
	return OpenAI
}

var routes = map[string]API{
	"/chat/completions": Chat, "/completions": Completions, "/embeddings": Embeddings, "/responses": Responses,
	"/messages": Messages, "/messages/count_tokens": CountTokens,
}

// Route names the API behind a URL path. The /v1 prefix is optional, as it is in the engines; a query string and one
// trailing slash are ignored. Anything but a POST to a known path is Other, and Anthropic's only below /v1/messages.
func Route(method, path string) (API, Dialect) {
	path, _, _ = strings.Cut(path, "?")
	path = strings.TrimPrefix(strings.TrimSuffix(path, "/"), "/v1")
	api := routes[path]
	dialect := api.Dialect()
	if strings.HasPrefix(path, "/messages/") {
		dialect = Anthropic
	}
	if method != "POST" {
		api = Other
	}
	return api, dialect
}

// ResponseID cuts the id out of a path that names one stored response, such as /v1/responses/resp_1/cancel. ok is
// false for every other path, also for the collection's own endpoints (/v1/responses/compact, .../input_tokens).
func ResponseID(path string) (id string, ok bool) {
	path, _, _ = strings.Cut(path, "?")
	rest, found := strings.CutPrefix(strings.TrimPrefix(path, "/v1"), "/responses/")
	if !found {
		return "", false
	}
	id, _, _ = strings.Cut(rest, "/")
	if id == "" || id == "compact" || id == "input_tokens" {
		return "", false
	}
	return id, true
}

// Span is a run of bytes of the scanned body.
type Span = jsontext.Span

var absent = jsontext.Absent

func span(start, end int) Span { return Span{Start: start, End: end} }

// decode is the string whose raw contents these are. It returns old when that is the same, so that a pooled scan of
// like requests allocates nothing.
func decode(raw []byte, old string) string {
	if bytes.IndexByte(raw, '\\') >= 0 {
		raw = jsontext.Unescape(raw)
	}
	if string(raw) == old {
		return old
	}
	return string(raw)
}

// countMax bounds every count that is read: a larger one is absurd.
const countMax = math.MaxInt32
