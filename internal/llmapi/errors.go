package llmapi

import (
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
	KindOverloaded = "overloaded_error"
	KindTimeout    = "timeout_error"
	KindUpstream   = "api_error"
)

// ErrorBody is a whole error reply (application/json) in the caller's dialect. kind is one of the Kind constants;
// param names the offending field, "" for none (Anthropic has no place for it).
func ErrorBody(d Dialect, status int, kind, message, param string) []byte {
	if d == Anthropic {
		b := append([]byte(`{"type":"error","error":{"type":`), quote(anthropicType(kind, status))...)
		b = append(append(b, `,"message":`...), quote(message)...)
		return append(b, "}}"...)
	}
	typ, code := openAIType(kind, status)
	b := append([]byte(`{"error":{"message":`), quote(message)...)
	b = append(append(b, `,"type":`...), quote(typ)...)
	b = append(append(b, `,"param":`...), quoteOrNull(param)...)
	b = append(append(b, `,"code":`...), quoteOrNull(code)...)
	return append(b, "}}"...)
}

// ErrorEvent is an error inside a stream that has begun, as a complete server-sent event. Anthropic's SDKs ignore an
// error that has no event name; OpenAI's read the error key; Responses has a flat event of its own.
func ErrorEvent(d Dialect, api API, kind, message string) []byte {
	const status = 502
	if d == Anthropic {
		b := append([]byte("event: error\ndata: "), ErrorBody(d, status, kind, message, "")...)
		return append(b, "\n\n"...)
	}
	if api == Responses {
		typ, code := openAIType(kind, status)
		if code == "" {
			code = typ
		}
		b := append([]byte("event: error\ndata: "+`{"type":"error","code":`), quote(code)...)
		b = append(append(b, `,"message":`...), quote(message)...)
		return append(b, `,"param":null,"sequence_number":0}`+"\n\n"...)
	}
	b := append([]byte("data: "), ErrorBody(d, status, kind, message, "")...)
	return append(b, "\n\n"...)
}

// openAIType maps a kind to OpenAI's type and code. OpenAI has few types and tells causes apart by code.
func openAIType(kind string, status int) (typ, code string) {
	switch kind {
	case KindModel, KindContext, KindTooLarge:
		return KindInvalid, kind
	case KindRateLimit:
		return kind, "rate_limit_exceeded"
	case KindOverloaded:
		return "server_error", "overloaded"
	case KindTimeout:
		return "server_error", "timeout"
	case KindUpstream:
		return "server_error", "upstream_error"
	case "":
		if status >= 500 {
			return "server_error", ""
		}
		return KindInvalid, ""
	}
	return kind, ""
}

// anthropicType maps a kind to one of the types that Anthropic documents; an unknown kind goes by its status.
func anthropicType(kind string, status int) string {
	switch kind {
	case KindModel:
		return KindNotFound
	case KindContext:
		return KindInvalid
	case KindInvalid, KindNotFound, KindAuth, KindPermission, KindTooLarge, KindRateLimit, KindOverloaded, KindTimeout, KindUpstream:
		return kind
	}
	switch status {
	case 401:
		return KindAuth
	case 403:
		return KindPermission
	case 404:
		return KindNotFound
	case 413:
		return KindTooLarge
	case 429:
		return KindRateLimit
	case 503, 529:
		return KindOverloaded
	case 504:
		return KindTimeout
	}
	if status >= 500 {
		return KindUpstream
	}
	return KindInvalid
}

func quoteOrNull(s string) string {
	if s == "" {
		return "null"
	}
	return quote(s)
}

// quote is s as a JSON string; bytes that are not UTF-8 become U+FFFD.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil { // cannot be for a string
		return `""`
	}
	return string(b)
}
