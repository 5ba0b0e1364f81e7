package dialog

import (
	json "encoding/json/v2"
	"fmt"
)

// HTTP statuses whose errors have a name of their own in some dialect. net/http is not imported for four numbers.
const (
	statusBadRequest  = 400
	statusNotFound    = 404
	statusTooLarge    = 413
	statusUnavailable = 503
)

// Failure is an error with its HTTP status and the fields of vLLM's error object.
type Failure struct {
	Status               int
	Kind, Param, Message string
}

func (f *Failure) Error() string { return f.Message }

// Fail makes a failure of any status.
func Fail(status int, kind, param, format string, args ...any) *Failure {
	return &Failure{status, kind, param, fmt.Sprintf(format, args...)}
}

// Refuse makes a 400 about one parameter.
func Refuse(param, format string, args ...any) *Failure {
	return Fail(statusBadRequest, "BadRequestError", param, format, args...)
}

// Body is the failure on the wire, in OpenAI's shape with vLLM's fields or in Anthropic's.
func (f *Failure) Body(anthropic bool) []byte {
	var v any
	if anthropic {
		kinds := map[int]string{
			statusNotFound: "not_found_error", statusTooLarge: "request_too_large",
			statusUnavailable: "overloaded_error",
		}
		kind, ok := kinds[f.Status]
		if !ok {
			kind = "invalid_request_error"
		}
		v = map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": f.Message}}
	} else {
		var param any
		if f.Param != "" {
			param = f.Param
		}
		v = map[string]any{"error": map[string]any{"message": f.Message, "type": f.Kind, "param": param, "code": f.Status}}
	}
	out, err := json.Marshal(v, json.Deterministic(true), replaceInvalid)
	if err != nil {
		panic(err) // strings and numbers always have a JSON form
	}
	return out
}

// Limits reads the request's bounds on its answer and checks them against the context length; unsaid is the default
// when the request names no maximum, 0 for all the room there is.
func (b *Request) Limits(contextMax, promptTokens, unsaid int) (Limits, error) {
	if err := CheckContext(contextMax, promptTokens, 1); err != nil {
		return Limits{}, err
	}
	room := contextMax - promptTokens
	l := Limits{TokensMax: room, TokensMin: b.MinTokens, IgnoreEnd: b.IgnoreEOS, Seed: uint64(b.Seed)}
	if unsaid > 0 {
		l.TokensMax = min(unsaid, room)
	}
	for _, said := range []*int{b.MaxTokens, b.MaxOutputTokens, b.MaxCompletionTokens} {
		if said == nil {
			continue
		}
		if *said < 1 {
			return l, Refuse("max_tokens", "max_tokens must be at least 1, got %d.", *said)
		}
		if *said > room {
			return l, Refuse("input_tokens",
				"This model's maximum context length is %d tokens. However, you requested %d output tokens and your prompt contains at least %d input tokens, for a total of at least %d tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=%d)",
				contextMax, *said, promptTokens, *said+promptTokens, promptTokens)
		}
		l.TokensMax = *said
	}
	if l.TokensMin > l.TokensMax {
		return l, Refuse("min_tokens", "min_tokens must be less than or equal to max_tokens=%d, got %d.", l.TokensMax, l.TokensMin)
	}
	return l, nil
}

// CheckContext refuses a prompt that, with the least output there must be after it, is longer than the context.
func CheckContext(contextMax, promptTokens, outputMin int) error {
	if promptTokens+outputMin <= contextMax {
		return nil
	}
	return Refuse("input_tokens",
		"This model's maximum context length is %d tokens. However, your prompt contains at least %d input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=%d)",
		contextMax, promptTokens, promptTokens)
}

// choicesMax bounds n times prompts of one request.
const choicesMax = 1024

// Choices is the request's n, for each of its prompts.
func (b *Request) Choices(prompts int) (int, error) {
	n := 1
	if b.N != nil {
		n = *b.N
	}
	if limit := choicesMax / max(prompts, 1); n < 1 || n > limit {
		return 0, Refuse("n", "n must be between 1 and %d for %d prompts, got %d.", limit, prompts, n)
	}
	return n, nil
}
