package render

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/modelfile"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/template"
	"github.com/warmpath/warmpath/internal/tokenizer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// chatML is a template that every feature of a request shows in.
const chatML = `{%- if tools %}<|im_start|>tools
{{ tools | tojson }}<|im_end|>
{% endif %}{%- if documents %}{{ documents | tojson }}{% endif %}{%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.name %}{{ m.name }}: {% endif %}{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is false %}<think></think>{% endif %}{% if reasoning_effort %}{{ reasoning_effort }}{% endif %}{% endif %}`

// house is a folder with a model's files: a small tokenizer of the Qwen kind, and a template.
func house(t testing.TB, chatTemplate string) string {
	t.Helper()
	file, err := os.Open("../tokenizer/testdata/qwen3.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var sample struct{ Tokenizer json.RawMessage }
	if err := json.NewDecoder(z).Decode(&sample); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config, err := json.Marshal(map[string]any{"chat_template": chatTemplate, "eos_token": "<|im_end|>"})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"tokenizer.json": sample.Tokenizer, "tokenizer_config.json": config} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// teller is an engine of vLLM's kind that tells tokens over a real socket, with faults on demand.
type teller struct {
	*httptest.Server
	mu     sync.Mutex
	model  *modelfile.Model
	served *modelfile.Model // what chats are really made into; nil: model
	now    func() time.Time
	asked  map[string]int
	// fault, if there is one, answers instead and says whether it did.
	fault func(w http.ResponseWriter, r *http.Request, body []byte) bool
	// silent: what is served tells the number of its tokens, and not which they are. change alters what /tokenize is asked.
	silent bool
	change func(body map[string]any)
}

func newTeller(t *testing.T, dir string) *teller {
	t.Helper()
	e := &teller{now: time.Now, asked: map[string]int{}}
	e.load(t, dir)
	e.Server = httptest.NewServer(http.HandlerFunc(e.answer))
	t.Cleanup(e.Server.Close)
	return e
}

func (e *teller) load(t *testing.T, dir string) {
	t.Helper()
	model, err := modelfile.Load(dir, "m")
	if err != nil {
		t.Fatal(err)
	}
	e.with(func() { e.model = model })
}

// with changes the engine while it serves.
func (e *teller) with(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
}

func (e *teller) count(path string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked[path]
}

func (e *teller) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	e.mu.Lock()
	e.asked[r.URL.Path]++
	fault := e.fault
	e.mu.Unlock()
	if fault != nil && fault(w, r, body) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	model := e.model
	switch {
	case r.URL.Path == "/tokenize":
	case r.URL.Path == "/v1/chat/completions":
		if e.served != nil {
			model = e.served
		}
	default:
		http.NotFound(w, r)
		return
	}
	if e.change != nil && r.URL.Path == "/tokenize" {
		var fields map[string]any
		if json.Unmarshal(body, &fields) == nil {
			e.change(fields)
			body, _ = json.Marshal(fields)
		}
	}
	ids, err := e.tokens(model, body)
	if err != nil {
		http.Error(w, "refused", http.StatusBadRequest)
		return
	}
	if r.URL.Path != "/tokenize" {
		told := list(ids)
		if e.silent {
			told = []byte("null")
		}
		fmt.Fprintf(w, `{"usage":{"prompt_tokens":%d},"prompt_token_ids":%s}`, len(ids), told)
		return
	}
	fmt.Fprintf(w, `{"count":%d,"max_model_len":8192,"tokens":%s,"token_strs":null}`, len(ids), list(ids))
}

func list(ids []uint32) []byte {
	if ids == nil {
		ids = []uint32{}
	}
	out, err := json.Marshal(ids)
	if err != nil {
		panic(err)
	}
	return out
}

// tokens are what the engine makes of a request.
func (e *teller) tokens(model *modelfile.Model, body []byte) ([]uint32, error) {
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	if text, ok := fields["prompt"].(string); ok {
		return model.Tokenizer.Encode(nil, text, tokenizer.Options{Wrap: fields["add_special_tokens"] != false}), nil
	}
	if model.Template == nil || fields["messages"] == nil {
		return nil, errors.New("no chat")
	}
	text, err := model.Template.Render(string(body), e.now())
	return model.Tokenizer.Encode(nil, text, tokenizer.Options{Wrap: fields["add_special_tokens"] == true}), err
}

// target is the teller as a worker.
func (e *teller) target(id, engine string) Target {
	return Target{ID: id, URL: e.URL, Engine: engine, Models: []fleet.Model{{ID: "m", Aliases: []string{"alias"}}, {ID: "lora", Parent: "m"}}, Incarnation: 1}
}

// started is a Manager that a test looks into.
type started struct {
	*Manager
	t     *testing.T
	mu    sync.Mutex
	modes []string
}

func start(t *testing.T, change func(*Options)) *started {
	t.Helper()
	s := &started{t: t}
	o := Options{Seed: prefix.NewSeed([]byte("test")), Deadline: 5 * time.Second, BackoffMin: time.Millisecond, BackoffMax: 20 * time.Millisecond,
		OnMode: func(model string, m Mode, _ string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.modes = append(s.modes, model+" "+string(m))
		}}
	if change != nil {
		change(&o)
	}
	s.Manager = New(o)
	t.Cleanup(s.Close)
	return s
}

func (s *started) state() State {
	for _, state := range s.States() {
		if state.Model == "m" {
			return state
		}
	}
	return State{}
}

// until waits for a state; a minute is for machines that are slow, and never for timing.
func (s *started) until(what string, holds func(State) bool) State {
	s.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-tick.C {
		if state := s.state(); holds(state) {
			return state
		}
	}
	s.t.Fatalf("%s: it is %+v", what, s.state())
	return State{}
}

func (s *started) mode(m Mode) State {
	s.t.Helper()
	return s.until("mode "+string(m), func(s State) bool { return s.Mode == m })
}

// ask looks for the tokens of a request.
func (s *started) ask(api llmapi.API, body string) ([]uint32, bool) {
	s.t.Helper()
	var req llmapi.Request
	if err := req.Scan(api, []byte(body)); err != nil {
		s.t.Fatalf("%.200s: %v", body, err)
	}
	return s.Tokens(s.t.Context(), Ask{Model: "m", API: api, Req: &req, Body: []byte(body)}, nil)
}

// truth are a chat's tokens by the parts themselves.
func truth(t *testing.T, dir, body string) []uint32 {
	t.Helper()
	model, err := modelfile.Load(dir, "m")
	if err != nil {
		t.Fatal(err)
	}
	req, err := template.ReadRequest(body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := model.Template.RenderRequest(req, len(body), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return model.Tokenizer.Encode(nil, text, tokenizer.Options{})
}

const hello = `{"model":"m","messages":[{"role":"user","content":"Hello there"}]}`

func contains(t *testing.T, what, part string) {
	t.Helper()
	if !strings.Contains(what, part) {
		t.Errorf("%q does not say %q", what, part)
	}
}
