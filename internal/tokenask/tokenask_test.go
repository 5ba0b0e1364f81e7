package tokenask

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/chat"
	"github.com/warmpath/warmpath/internal/leash"
)

// recorded is the body of an answer as an engine gave it.
func recorded(t *testing.T, name string) string {
	t.Helper()
	body, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestEveryEngineIsAskedInItsOwnWay(t *testing.T) {
	hi := chat.Conversations[0].Request()
	text := chat.Request{Text: "a b", Bytes: 3}
	for _, c := range []struct {
		engine  string
		form    int
		request chat.Request
		answers map[string]string // by path
		want    []string          // path and body of what is asked
		ids     int
	}{
		{"vllm", 0, hi, map[string]string{"/v1/chat/completions/render": `{"request_id":"x","token_ids":[1,2,3],"features":null,"sampling_params":{"stop":[]}}`},
			[]string{`/v1/chat/completions/render {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}`}, 3},
		{"vllm", 0, text, map[string]string{"/v1/completions/render": `[{"token_ids":[1,2]}]`},
			[]string{`/v1/completions/render {"model": "m", "prompt": "a b", "add_special_tokens": true}`}, 2},
		{"vllm", 1, hi, map[string]string{"/tokenize": recorded(t, "vllm_tokenize_chat.json")},
			[]string{`/tokenize {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}`}, 220},
		{"vllm", 1, text, map[string]string{"/tokenize": recorded(t, "vllm_tokenize_prompt_strs.json")},
			[]string{`/tokenize {"model": "m", "prompt": "a b", "add_special_tokens": true}`}, 2},
		{"sglang", 0, text, map[string]string{"/tokenize": `{"tokens":[5],"count":1,"max_model_len":-1}`},
			[]string{`/tokenize {"model": "m", "prompt": "a b", "add_special_tokens": true}`}, 1},
		{"llama.cpp", 0, hi, map[string]string{"/apply-template": recorded(t, "llamacpp_apply_template.json"), "/tokenize": recorded(t, "llamacpp_tokenize.json")},
			[]string{`/apply-template {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}`,
				`/tokenize {"content":"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n","add_special":true,"parse_special":true}`}, 5},
	} {
		var asked []string
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			asked = append(asked, r.URL.Path+" "+string(body))
			if r.Header.Get("Authorization") != "Bearer k" {
				t.Error("asked without the worker's key")
			}
			io.WriteString(w, c.answers[r.URL.Path])
		}))
		question, err := c.request.Question("m")
		if err != nil {
			t.Fatal(err)
		}
		ids, err := Forms[c.engine][c.form].Tokens(t.Context(), NewCaller(web.URL+"/v1/", "k", web.Client()), question, c.request)
		if err != nil || len(ids) != c.ids || !slices.Equal(asked, c.want) {
			t.Errorf("%s: %v %v\n%q\n%q", c.engine, ids, err, asked, c.want)
		}
		web.Close()
	}
}

func TestErrorsTellNoURLNoKeyAndNoPrompt(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusBadRequest)
		w.Write(body) // as engines do that quote what they refuse
	}))
	client := web.Client()
	ask := func(url string) error {
		r := chat.Request{Text: "CANARY", Bytes: 6}
		question, err := r.Question("m")
		if err != nil {
			t.Fatal(err)
		}
		_, err = Forms["vllm"][1].Tokens(t.Context(), NewCaller(url, "S3CR3T", client), question, r)
		return err
	}
	err := ask(strings.Replace(web.URL, "//", "//user:S3CR3T@", 1) + "/S3CR3T")
	var refusal *StatusError
	if !errors.As(err, &refusal) || !refusal.Refused(&Forms["vllm"][1]) || refusal.Absent() {
		t.Error(err)
	}
	web.Close()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range []error{err, ask(strings.Replace(web.URL, "//", "//user:S3CR3T@", 1)), ask("http://S3CR3T:x"), ask("::S3CR3T"), func() error {
		_, err := NewCaller("http://user:S3CR3T@127.0.0.1:1", "", client).Post(gone, "/tokenize", nil)
		return err
	}()} {
		if err == nil || strings.Contains(err.Error(), "S3CR3T") || strings.Contains(err.Error(), "CANARY") {
			t.Error(err)
		}
	}
}

func FuzzWhatAnEngineAnswersIsTokensOrAnError(f *testing.F) {
	for _, seed := range []string{`{"count":2,"tokens":[1,2]}`, `[{"token_ids":[1]}]`, `{"tokens":[]}`, `{"tokens":[[1]]}`, `{"tokens":[-1]}`, `[`, `{"tokens":[1]}{`, `{"tokens":[1],"tokens":[2]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		defer leash.Hold(t, len(answer))()
		for _, name := range []string{"tokens", "token_ids"} {
			if ids, err := ReadTokens(answer, name); err == nil && (ids == nil || len(ids) > len(answer)) {
				t.Errorf("%q: %v", answer, ids)
			}
		}
	})
}
