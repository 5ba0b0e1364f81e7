package complaint

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
)

func TestWhatServersSayOfPromptsThatAreTooLongIsKnown(t *testing.T) {
	for body, want := range map[string]bool{
		`{"error":{"message":"This model's maximum context length is 8192 tokens. However, your prompt contains at least 8193 input tokens"}}`: true,
		`{"error":{"code":400,"message":"request (9031 tokens) exceeds the available context size (8192 tokens), try increasing it"}}`:         true,
		`{"object":"error","message":"The input (61709 tokens) is longer than the model's context length (40960 tokens)."}`:                    true,
		`{"error":{"code":"context_length_exceeded"}}`: true,
		`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`: true,
		`Prompt length (5056) exceeds maximum sequence length (2048)`:                                                              true,
		`{"error":{"message":"temperature must be non-negative"}}`:                                                                 false,
		`{"error":{"message":"max_tokens must be at least 1"}}`:                                                                    false,
		``: false,
	} {
		if got := TooLong([]byte(body)); got != want {
			t.Errorf("%s: %v", body, got)
		}
	}
}

func TestABodyThatStallsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		body, err := Read(r, func(cause error) { w.CloseWithError(cause) })
		if !errors.Is(err, ErrStalled) || len(body) > 0 {
			t.Errorf("%q, %v", body, err)
		}
	})
	if body, err := Read(strings.NewReader("all of it"), nil); err != nil || string(body) != "all of it" {
		t.Errorf("%q, %v", body, err)
	}
}

func TestTheWordsOfAnErrorAreFoundInEveryFormThatServersHave(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"message":"too long","type":"x"}}`: "too long", `{"type":"error","error":{"type":"x","message":"no"}}`: "no", `{"error":"busy"}`: "busy",
		`{"object":"error","message":"old vLLM"}`: "old vLLM", `{"detail":"Not Found"}`: "Not Found", `{"detail":[{"loc":[]}]}`: "", `{}`: "", `not JSON`: "", ``: "", `{"error":null}`: "",
	} {
		if got := Words([]byte(body)); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}
