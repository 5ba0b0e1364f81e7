package render

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/chat"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/llmapi"
)

func TestAModelIsExactOnceItsEngineMakesTheSameTokens(t *testing.T) {
	dir := house(t, chatML)
	e := newTeller(t, dir)
	s := start(t, func(o *Options) { o.Files = map[string]string{"m": dir} })
	if _, ok := s.ask(llmapi.Chat, hello); ok {
		t.Error("tokens of a model that nobody serves")
	}
	s.Follow(e.target("a", "warmpath"))
	state := s.mode(Exact)
	contains(t, state.Why, "the same tokens")
	if state.Source != dir || !state.Workers[0].Agrees || state.Checked.IsZero() {
		t.Errorf("%+v", state)
	}
	before := e.count("/tokenize")
	for _, c := range chat.Conversations {
		if c.Body == "" || strings.Contains(c.Body, `"add_special`) {
			continue
		}
		if ids, ok := s.ask(llmapi.Chat, c.Body); !ok || !slices.Equal(ids, truth(t, dir, c.Body)) {
			t.Errorf("%s: %v %v", c.Name, ids, ok)
		}
	}
	if state = s.state(); state.Exact != state.Requests || state.Asked != 0 {
		t.Errorf("%+v", state)
	}
	if asked := e.count("/tokenize") - before; asked > 1 {
		t.Errorf("the engine was asked %d times about requests, and one is compared", asked)
	}
	var req llmapi.Request
	if err := req.Scan(llmapi.Chat, []byte(hello)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"alias", "lora"} {
		if _, ok := s.Tokens(t.Context(), Ask{Model: name, API: llmapi.Chat, Req: &req, Body: []byte(hello)}, nil); !ok {
			t.Error("not known by the name", name)
		}
	}
}

func TestAnEngineThatKeepsItsRenderingShutIsAskedInItsOtherWay(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound, http.StatusNotImplemented} {
		dir := house(t, chatML)
		e := newTeller(t, dir)
		e.fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			shut := strings.HasSuffix(r.URL.Path, "/render")
			if shut {
				w.WriteHeader(status)
			}
			return shut
		}
		s := start(t, func(o *Options) { o.Files = map[string]string{"m": dir} })
		s.Follow(e.target("a", "vllm"))
		s.mode(Exact)
		if e.count("/v1/chat/completions/render") != 1 {
			t.Errorf("status %d: asked %d times", status, e.count("/v1/chat/completions/render"))
		}
	}
}

func TestAnAdapterThatComesChangesNothingButItsName(t *testing.T) {
	dir := house(t, chatML)
	e := newTeller(t, dir)
	s := start(t, func(o *Options) { o.Files = map[string]string{"m": dir} })
	target := e.target("a", "warmpath")
	s.Follow(target)
	s.mode(Exact)
	asked := e.count("/tokenize")
	s.Follow(target)
	target.Models = append(slices.Clone(target.Models), fleet.Model{ID: "another", Parent: "m"})
	s.Follow(target)
	s.until("the adapter to be known", func(State) bool { return (*s.views.Load())["another"] != nil })
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := e.count("/tokenize"); n != asked || !slices.Equal(s.modes, []string{"m exact"}) {
		t.Errorf("asked %d times more; %v", n-asked, s.modes)
	}
}

func TestAMismatchNamesTheFirstDifferenceAndStepsTheModelDown(t *testing.T) {
	dir := house(t, chatML)
	e := newTeller(t, house(t, strings.Replace(chatML, "{% for", "{{ 'x' }}{% for", 1)+"!"))
	s := start(t, func(o *Options) { o.Files = map[string]string{"m": dir} })
	s.Follow(e.target("a", "warmpath"))
	state := s.mode(EngineSide)
	for _, part := range []string{"a: conversation \"one turn\": token ", "--tokenizer m=PATH", dir} {
		contains(t, state.Why, part)
	}
	ids, ok := s.ask(llmapi.Chat, hello)
	want, err := e.tokens(e.model, []byte(hello))
	if err != nil || !ok || !slices.Equal(ids, want) {
		t.Error("the engine's tokens are not told:", ids, ok, err)
	}

	// The engine returns with the files that are here, and later with others again.
	e.load(t, dir)
	back := e.target("a", "warmpath")
	back.Incarnation = 2
	s.Follow(back)
	s.mode(Exact)
	e.load(t, house(t, chatML+"?"))
	back.Incarnation = 3
	s.Follow(back)
	s.mode(EngineSide)
	s.mu.Lock()
	defer s.mu.Unlock()
	last := ""
	for _, m := range s.modes {
		if m == last {
			t.Errorf("told twice in a row: %v", s.modes)
		}
		last = m
	}
	if !slices.Contains(s.modes, "m exact") || last != "m engine-side" {
		t.Error(s.modes)
	}
}

func TestWhatDiffersOnlyWithToolsIsWithoutProofOnlyThere(t *testing.T) {
	dir := house(t, chatML)
	e := newTeller(t, dir)
	e.change = func(body map[string]any) { delete(body, "tools") }
	s := start(t, func(o *Options) { o.Files = map[string]string{"m": dir} })
	s.Follow(e.target("a", "warmpath"))
	contains(t, s.mode(Exact).Why, "except in requests with tools")
	withTools := `{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":{}}}]}`
	for body, want := range map[string]uint64{hello: 0, withTools: 1} {
		before := s.state().Told
		if ids, ok := s.ask(llmapi.Chat, body); !ok || s.state().Told-before != want {
			t.Errorf("%s: %v %v, told %d", body, ids, ok, s.state().Told-before)
		}
	}
}

func TestAnEngineThatCannotBeAskedCostsOneQuestionAndIsLeftAlone(t *testing.T) {
	dir := house(t, chatML)
	for status, why := range map[int]string{http.StatusNotFound: "status 404", http.StatusUnauthorized: "set the worker's key"} {
		e := newTeller(t, dir)
		e.fault = func(w http.ResponseWriter, _ *http.Request, _ []byte) bool { w.WriteHeader(status); return true }
		s := start(t, func(o *Options) { o.Files = map[string]string{"m": dir} })
		s.Follow(e.target("a", "sglang"))
		state := s.until("to be refused", func(s State) bool { return len(s.Workers) == 1 && strings.Contains(s.Workers[0].Why, why) })
		if state.Mode != Approximate {
			t.Errorf("%+v", state)
		}
		contains(t, state.Why, "nothing has shown yet that the files")
		for range 3 {
			if _, ok := s.ask(llmapi.Chat, hello); ok {
				t.Error("tokens without a proof")
			}
		}
		if n := e.count("/tokenize"); n != 1 {
			t.Errorf("asked %d times", n)
		}
	}
	s := start(t, nil)
	s.Follow(Target{ID: "b", URL: "http://127.0.0.1:1", Engine: "openai", Models: newTeller(t, dir).target("x", "").Models})
	contains(t, s.until("the reason", func(s State) bool { return len(s.Workers) == 1 && s.Workers[0].Why != "it is being asked" }).Why, "no way is known to ask")
}

func TestWorkersThatDisagreeStepTheirModelDownForAll(t *testing.T) {
	dir := house(t, chatML)
	right, wrong := newTeller(t, dir), newTeller(t, house(t, chatML+"!"))
	s := start(t, func(o *Options) { o.Files = map[string]string{"m": dir} })
	s.Follow(right.target("a", "warmpath"))
	s.mode(Exact)
	s.Follow(wrong.target("b", "warmpath"))
	contains(t, s.mode(Approximate).Why, "b: conversation")
	if _, ok := s.ask(llmapi.Chat, hello); ok {
		t.Error("tokens that are wrong for one of the workers")
	}
	s.Leave("b")
	s.mode(Exact)
}

func TestWhatVLLMsTokenizeSaysCountsOnlyWhereItServesTheSame(t *testing.T) {
	dir := house(t, chatML)
	const hard = `{"messages":[{"role":"user","content":"x"}],"reasoning_effort":"high"}`
	for _, silent := range []bool{false, true} {
		e := newTeller(t, dir)
		e.silent, e.change = silent, func(body map[string]any) { delete(body, "reasoning_effort"); delete(body, "documents") }
		s := start(t, func(o *Options) { o.Files = map[string]string{"m": dir} })
		s.Follow(e.target("a", "vllm"))
		s.mode(Exact)
		if ids, ok := s.ask(llmapi.Chat, hard); ok == silent || ok && !slices.Equal(ids, truth(t, dir, hard)) {
			t.Errorf("POST /tokenize says nothing about an effort, what is served does where it tells its tokens (%v): %v %v", !silent, ids, ok)
		}
	}

	other := newTeller(t, dir)
	served, err := DefaultOptions().Load(house(t, chatML+"served otherwise"), "m")
	if err != nil {
		t.Fatal(err)
	}
	other.served = served
	s2 := start(t, func(o *Options) { o.Files = map[string]string{"m": dir} })
	s2.Follow(other.target("a", "vllm"))
	s2.until("the answers to be in", func(s State) bool { return s.Workers != nil && s.Workers[0].Form != "" })
	if _, ok := s2.ask(llmapi.Chat, hello); ok {
		t.Error("tokens of a chat that are not those which are served")
	}
	if ids, ok := s2.ask(llmapi.Completions, `{"model":"m","prompt":"Hello"}`); !ok || len(ids) == 0 {
		t.Error("texts are not rendered, and stay known")
	}
}

func TestARequestThatComesOutDifferentlyStepsItsModelDown(t *testing.T) {
	dir := house(t, chatML)
	e := newTeller(t, dir)
	s := start(t, func(o *Options) { o.Files = map[string]string{"m": dir} })
	s.Follow(e.target("a", "warmpath"))
	s.mode(Exact)
	e.load(t, house(t, chatML+"!")) // and nobody says that it is another engine now
	if _, ok := s.ask(llmapi.Chat, hello); !ok {
		t.Error("the request that is compared does not wait for it")
	}
	state := s.until("the difference to be seen", func(s State) bool { return s.Mode != Exact })
	contains(t, state.Why, "a request came out differently at token")
	if strings.Contains(state.Why, "Hello") || state.Mismatches != 1 || state.Checks != 1 {
		t.Errorf("%+v", state)
	}
}

func TestWorkersMayComeAndGoWhileRequestsAreAsked(t *testing.T) {
	dir := house(t, chatML)
	tellers := []*teller{newTeller(t, dir), newTeller(t, dir), newTeller(t, house(t, chatML+"!"))}
	s := start(t, func(o *Options) { o.Files, o.SampleEvery = map[string]string{"m": dir}, time.Nanosecond })
	right, done := truth(t, dir, hello), make(chan struct{})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if ids, ok := s.ask(llmapi.Chat, hello); ok && !slices.Equal(ids, right) && len(ids) != len(right)+len("!") {
					t.Errorf("%v", ids)
				}
			}
		})
	}
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 150 {
		n := random.IntN(len(tellers))
		target := tellers[n].target(fmt.Sprint("w", n), "warmpath")
		target.Incarnation = uint64(i)
		if random.IntN(3) == 0 {
			s.Leave(target.ID)
		} else {
			s.Follow(target)
		}
		s.States()
	}
	s.Leave("w2")
	s.Follow(tellers[0].target("w0", "warmpath"))
	s.mode(Exact)
	close(done)
	all.Wait()
	if ids, ok := s.ask(llmapi.Chat, hello); !ok || !slices.Equal(ids, right) {
		t.Error(ids, ok)
	}
}

// log collects what was logged.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func TestNamedFilesThatAreOfNoUseAreAWarningThatNamesTheFlag(t *testing.T) {
	dir, nowhere := house(t, chatML), filepath.Join(t.TempDir(), "nowhere")
	for _, c := range []struct{ path, own, level, says string }{
		{nowhere, dir, "level=WARN", "the files in " + nowhere + " (flag --tokenizer m=" + nowhere + ") cannot be used: stat "},
		{"", dir, "level=INFO", "engines make the same tokens"},
		{dir, dir, "level=INFO", "engines make the same tokens"},
	} {
		said := &log{}
		s := start(t, func(o *Options) {
			o.Log = slog.New(slog.NewTextHandler(said, nil))
			if c.path != "" {
				o.Files = map[string]string{"m": c.path}
			}
		})
		e := newTeller(t, dir)
		target := e.target("a", "warmpath")
		target.ModelPath = c.own
		s.Follow(target)
		s.until("the mode to be told", func(State) bool {
			said.mu.Lock()
			defer said.mu.Unlock()
			text := said.text.String()
			return strings.Contains(text, c.level) && strings.Contains(text, c.says)
		})
	}
}
