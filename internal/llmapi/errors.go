package llmapi

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// SyntaxError says where a body stops being JSON that an engine would take.
type SyntaxError struct {
	Offset int // bytes from the start of the body
	What   string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("invalid JSON at byte %d: %s", e.Offset, e.What)
}

// FieldError says that a field which routing needs has the wrong type.
type FieldError struct {
	Field  string
	Want   string
	Offset int // of the value, bytes from the start of the body
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("field %q at byte %d must be %s", e.Field, e.Offset, e.Want)
}

// Kinds of errors that a router makes. Each dialect has its own words for them.
const (
	KindInvalid    = "invalid_request_error"
	KindModel      = "model_not_found"
	KindNotFound   = "not_found_error"
	KindAuth       = "authentication_error"
	KindPermission = "permission_error"
	KindTooLarge   = "request_too_large"
	KindContext    = "context_length_exceeded"
	KindRateLimit  = "rate_limit_error"
	KindQuota      = "insufficient_quota" // money, in OpenAI's words
	KindOverloaded = "overloaded_error"
	KindTimeout    = "timeout_error"
	KindUpstream   = "api_error"
)

// ErrorBody is a whole error reply (application/json) in the caller's dialect. kind is one of the Kind constants;
// param names the offending field, "" for none (Anthropic has no place for it).
// The reasons of a queue are kinds too: OpenAI's clients find them as the code, Anthropic's as what goes with the status.
func ErrorBody(d Dialect, status int, kind, message, param string) []byte {
	if d == Anthropic {
		return fmt.Appendf(nil, `{"type":"error","error":{"type":%s,"message":%s}}`, quote(anthropicType(kind, status)), quote(message))
	}
	typ, code := openAIType(kind, status)
	return fmt.Appendf(nil, `{"error":{"message":%s,"type":%s,"param":%s,"code":%s}}`,
		quote(message), quote(typ), quoteOrNull(param), quoteOrNull(code))
}

// ErrorEvent is an error inside a stream that has begun, as a complete server-sent event. Anthropic's SDKs ignore an
// error that has no event name; OpenAI's read the error key; Responses has a flat event of its own.
func ErrorEvent(d Dialect, api API, kind, message string) []byte {
	body := ErrorBody(d, 502, kind, message, "")
	if d == Anthropic {
		return fmt.Appendf(nil, "event: error\ndata: %s\n\n", body)
	}
	if api == Responses {
		typ, code := openAIType(kind, 502)
		return fmt.Appendf(nil, `event: error`+"\n"+`data: {"type":"error","code":%s,"message":%s,"param":null,"sequence_number":0}`+"\n\n",
			quote(cmp.Or(code, typ)), quote(message))
	}
	return fmt.Appendf(nil, "data: %s\n\n", body)
}

// OpenAI has few types and tells causes apart by code; type and code of the kinds that are not a type themselves.
var openAITypes = map[string][2]string{
	KindModel:      {KindInvalid, KindModel},
	KindContext:    {KindInvalid, KindContext},
	KindTooLarge:   {KindInvalid, KindTooLarge},
	KindRateLimit:  {KindRateLimit, "rate_limit_exceeded"},
	KindQuota:      {KindQuota, KindQuota},
	KindOverloaded: {"server_error", "overloaded"},
	KindTimeout:    {"server_error", "timeout"},
	KindUpstream:   {"server_error", "upstream_error"},

	"queue_full": {"server_error", "queue_full"}, "tenant_share": {"server_error", "tenant_share"}, "shed": {"server_error", "shed"},
	"deadline": {"server_error", "deadline"}, "queue_timeout": {"server_error", "queue_timeout"},
}

// openAIType maps a kind to OpenAI's type and code; no kind goes by its status, an unknown one is a type of its own.
func openAIType(kind string, status int) (typ, code string) {
	if known, ok := openAITypes[kind]; ok {
		return known[0], known[1]
	}
	if kind == "" && status >= 500 {
		return "server_error", ""
	}
	return cmp.Or(kind, KindInvalid), ""
}

var anthropicByStatus = map[int]string{
	401: KindAuth, 403: KindPermission, 404: KindNotFound, 413: KindTooLarge, 429: KindRateLimit,
	503: KindOverloaded, 504: KindTimeout, 529: KindOverloaded,
}

// anthropicType maps a kind to one of the types that Anthropic documents; an unknown kind goes by its status.
func anthropicType(kind string, status int) string {
	switch kind {
	case KindModel:
		return KindNotFound
	case KindContext:
		return KindInvalid
	case "queue_full", "tenant_share", "shed", "deadline", "queue_timeout":
		return KindOverloaded
	case KindInvalid, KindNotFound, KindAuth, KindPermission, KindTooLarge, KindRateLimit, KindOverloaded, KindTimeout, KindUpstream:
		return kind
	}
	if status >= 500 {
		return cmp.Or(anthropicByStatus[status], KindUpstream)
	}
	return cmp.Or(anthropicByStatus[status], KindInvalid)
}

func quoteOrNull(s string) string {
	if s == "" {
		return "null"
	}
	return quote(s)
}

// quote is s as a JSON string; bytes that are not UTF-8 become U+FFFD.
func quote(s string) string {
	b, _ := json.Marshal(s) // cannot fail for a string
	return string(b)
}
