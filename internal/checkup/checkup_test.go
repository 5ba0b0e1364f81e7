package checkup

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// look is the report on a fake, and its checks by part.
func look(t *testing.T, url string, change func(*Worker, *Options)) (Report, map[string]Check) {
	t.Helper()
	o := DefaultOptions()
	o.Timeout, o.FreedWithin = 10*time.Second, 10*time.Second
	w := Worker{ID: "w", URL: url}
	if change != nil {
		change(&w, &o)
	}
	r := All(t.Context(), []Worker{w}, o)[0]
	parts := map[string]Check{}
	for _, c := range r.Checks {
		parts[c.Part] = c
	}
	return r, parts
}

// told is a check as tests name it: level, then whatever it says.
func told(c Check) string {
	return fmt.Sprintf("%s: %s | %s | %s", c.Level, c.Found, c.Without, c.Gain)
}

func TestAnEngineThatTellsEverythingIsGood(t *testing.T) {
	// Slow enough that no reader falls a whole stream behind, which would look like a buffer in between.
	f := &fake{owner: "vllm", metrics: vllmPage(true), pause: 100 * time.Millisecond}
	r, parts := look(t, f.listen(t), nil)
	if r.Verdict != VerdictGood || r.Engine != "vllm" || r.Requests != 3 {
		t.Errorf("%+v", r)
	}
	for part, c := range parts {
		if want := map[bool]Level{true: None, false: Full}[part == "slots"]; c.Level != want { // vLLM does not tell its slots
			t.Errorf("%s: %s", part, told(c))
		}
	}
	if len(r.Checks) != len(parts) || len(parts) != 9 {
		t.Errorf("%d checks of %d parts", len(r.Checks), len(parts))
	}
}

func TestWhatAnEngineLacksIsNamedWithTheFlagThatGainsIt(t *testing.T) {
	silent := func(_ *fake, w http.ResponseWriter, q ask) { chatWith(w, q, "") }
	zero := func(_ *fake, w http.ResponseWriter, q ask) {
		chatWith(w, q, `,"prompt_tokens_details":{"cached_tokens":0}`)
	}
	for _, c := range []struct {
		what, part, want string
		f                *fake
	}{
		{"vLLM that keeps its cached tokens to itself", "cached tokens", "none: cached by the engine's own count | what is cached is assumed", &fake{owner: "vllm", metrics: vllmPage(true), answer: silent}},
		{"and the flag", "cached tokens", "--enable-prompt-tokens-details", &fake{owner: "vllm", metrics: vllmPage(true), answer: silent}},
		{"vLLM without a prefix cache", "cached tokens", "--enable-prefix-caching", &fake{owner: "vllm", metrics: vllmPage(false), answer: silent}},
		{"a cache that never hits", "cached tokens", "partly: told, but 0", &fake{owner: "acme", answer: zero}},
		{"vLLM without statistics", "metrics", "none: the page shows neither | without --disable-log-stats", &fake{owner: "vllm", metrics: func(*fake) string { return "up 1\n" }}},
		{"vLLM without a page", "metrics", "none: GET /metrics: status 404 | goes by its own counts", &fake{owner: "vllm"}},
		{"and its KV size", "kv size", "none: not told", &fake{owner: "vllm"}},
		{"an engine that nobody knows", "metrics", "none: this kind of engine is not asked", &fake{owner: "acme"}},
		{"its usage", "usage", "none: this kind of engine is not asked for it", &fake{owner: "acme"}},
		{"its slots on leaving", "cancellation", "unseen: the engine does not tell what runs", &fake{owner: "acme"}},
		{"no /health", "health", "none: no /health (404)", &fake{owner: "acme", health: "404"}},
		{"a model still loading", "health", "broken: /health answers 503 | loading its model", &fake{health: "503", noModels: true}},
		{"a key that is missing", "stream", "broken: a chat request is refused with 401 | set this worker's key", &fake{owner: "vllm", key: "k"}},
		{"a page that wants the key", "metrics", "none: GET /metrics: status 401 | set this worker's key", &fake{owner: "vllm", key: "k"}},
		{"no engine at all", "models", "broken: GET /v1/models: status 404", &fake{noModels: true}},
		{"and nothing is sent there", "stream", "unseen: not asked: no model is known", &fake{noModels: true}},
	} {
		_, parts := look(t, c.f.listen(t), nil)
		for want := range strings.SplitSeq(c.want, " | ") {
			if got := told(parts[c.part]); !strings.Contains(got, want) {
				t.Errorf("%s: %s is %q, want %q", c.what, c.part, got, want)
			}
		}
	}
}

func TestHowAStreamGoesWrongIsSaid(t *testing.T) {
	for _, c := range []struct {
		what, want string
		answer     func(*fake, http.ResponseWriter, ask)
	}{
		{"whole", "none: a stream was asked for, the answer came whole (application/json)", func(_ *fake, w http.ResponseWriter, q ask) {
			w.Header().Set("Content-Type", "application/json")
			q.stream = false
			chatWith(w, q, "")
		}},
		{"no end", "partly: 2 events, but no [DONE]", func(_ *fake, w http.ResponseWriter, _ ask) {
			send := events(w)
			send(content)
			send(content)
		}},
		{"all at once", "partly: 3 events, all of them at once", func(_ *fake, w http.ResponseWriter, _ ask) {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			io.WriteString(w, content+content+"data: [DONE]\n\n")
		}},
		{"broken off", "broken: ", func(_ *fake, w http.ResponseWriter, _ ask) {
			events(w)(content)
			panic(http.ErrAbortHandler)
		}},
		{"an error event", "broken: the stream tells an error: overloaded", func(_ *fake, w http.ResponseWriter, _ ask) {
			events(w)(`data: {"error":{"type":"overloaded","message":"x"}}` + "\n\n")
		}},
		{"empty", "broken: 1 events, none with content", func(_ *fake, w http.ResponseWriter, _ ask) { events(w)("data: [DONE]\n\n") }},
		{"a failure", "broken: a chat request is answered with 500", func(_ *fake, w http.ResponseWriter, _ ask) { http.Error(w, "x", 500) }},
		{"busy", "unseen: the engine is busy (429)", func(_ *fake, w http.ResponseWriter, _ ask) { w.WriteHeader(429) }},
		{"made for something else", "unseen: a chat request is refused with 400 not_supported: the model may be made for", func(_ *fake, w http.ResponseWriter, _ ask) {
			w.WriteHeader(400)
			io.WriteString(w, `{"error":{"type":"not_supported"}}`)
		}},
	} {
		f := &fake{owner: "vllm", metrics: vllmPage(true), answer: c.answer}
		r, parts := look(t, f.listen(t), func(_ *Worker, o *Options) { o.FreedWithin = 50 * time.Millisecond })
		if got := told(parts["stream"]); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
		if broken := strings.HasPrefix(c.want, "broken"); (r.Verdict == VerdictBroken) != broken {
			t.Errorf("%s: verdict %s", c.what, r.Verdict)
		}
	}
}

func TestAnEngineThatGoesOnForAClientThatLeftIsSeen(t *testing.T) {
	stop := make(chan struct{})
	f := &fake{owner: "vllm", metrics: vllmPage(true), answer: func(f *fake, w http.ResponseWriter, q ask) {
		if !strings.Contains(q.body, `"max_tokens":256`) {
			good(f, w, q)
			return
		}
		events(w)(content)
		<-stop
	}}
	url := f.listen(t)
	t.Cleanup(func() { close(stop) })
	_, parts := look(t, url, func(_ *Worker, o *Options) { o.FreedWithin = time.Second })
	if got := told(parts["cancellation"]); !strings.HasPrefix(got, "none: 1 still running") {
		t.Error(got)
	}
}

func TestADeadPortIsBrokenAndAskedForNothingMore(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	r, parts := look(t, "http://"+l.Addr().String(), func(w *Worker, _ *Options) { w.Model = "m" })
	if r.Verdict != VerdictBroken || r.Requests != 0 || !strings.Contains(parts["health"].Found, "refused") || parts["models"].Level != Unseen {
		t.Errorf("%+v", r)
	}
}

func TestRequestsAreLeftOutWhenTheyAreNotWanted(t *testing.T) {
	f := &fake{owner: "vllm", metrics: vllmPage(true)}
	r, parts := look(t, f.listen(t), func(_ *Worker, o *Options) { o.Requests = false })
	if r.Requests != 0 || len(f.bodies) != 0 || r.Verdict != VerdictGood || parts["stream"].Found != "no request was to be sent" {
		t.Errorf("%+v, %d requests came", r, len(f.bodies))
	}
}

func TestTheConfiguredModelAndKeyAreUsed(t *testing.T) {
	f := &fake{owner: "vllm", key: "k", noModels: true}
	r, parts := look(t, f.listen(t), func(w *Worker, _ *Options) { w.Key, w.Model = "k", "mine" })
	if r.Verdict == VerdictBroken || parts["models"].Level != Partly || len(f.bodies) == 0 || !strings.Contains(f.bodies[0], `"model":"mine"`) {
		t.Errorf("%+v\n%v", r, f.bodies)
	}
	g := &fake{owner: "vllm", metrics: vllmPage(true)}
	if _, parts := look(t, g.listen(t), func(w *Worker, _ *Options) { w.Model = "other" }); !strings.Contains(parts["models"].Without, "other, is not among them") {
		t.Error(told(parts["models"]))
	}
}

func TestReportsComeInTheOrderOfTheWorkers(t *testing.T) {
	var workers []Worker
	for i := range 3 * workersAtOnce {
		f := &fake{owner: "acme"}
		workers = append(workers, Worker{ID: fmt.Sprint(i), URL: f.listen(t)})
	}
	o := DefaultOptions()
	o.Requests = false
	for i, r := range All(t.Context(), workers, o) {
		if r.ID != fmt.Sprint(i) || r.Verdict != VerdictGood {
			t.Errorf("%d: %+v", i, r)
		}
	}
}
