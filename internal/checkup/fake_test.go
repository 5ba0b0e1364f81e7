package checkup

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a real small server that speaks as an engine would, with the faults that a test gives it.
type fake struct {
	owner, health string // owner signs the model list; health "" is 200, else a status such as "503"
	noModels      bool
	key           string // wanted on everything but /health and the list, as llama.cpp has it
	metrics       func(f *fake) string
	pause         time.Duration                               // between tokens; 0 is 1 ms
	answer        func(f *fake, w http.ResponseWriter, q ask) // nil: a good one

	mu      sync.Mutex
	running int
	seen    map[string]int // prompts
	hits    int            // of the prefix cache
	bodies  []string
}

// ask is a chat request as the fake understands it.
type ask struct {
	body          string
	stream, usage bool
	cached        int
	pause         time.Duration // between tokens
	gone          <-chan struct{}
}

func (f *fake) listen(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.seen = map[string]int{}
	server := &http.Server{Handler: f, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	var done sync.WaitGroup
	done.Go(func() { server.Serve(l) })
	t.Cleanup(func() { server.Close(); done.Wait() })
	return "http://" + l.Addr().String()
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.key != "" && r.Header.Get("Authorization") != "Bearer "+f.key && r.URL.Path != "/health" && r.URL.Path != "/v1/models" {
		http.Error(w, `{"error":{"message":"no key"}}`, http.StatusUnauthorized)
		return
	}
	switch {
	case r.URL.Path == "/health" && f.health != "":
		status := 0
		fmt.Sscan(f.health, &status)
		w.WriteHeader(status)
	case r.URL.Path == "/health":
	case r.URL.Path == "/v1/models" && !f.noModels:
		fmt.Fprintf(w, `{"data":[{"id":"m","owned_by":%q,"max_model_len":4096}]}`, f.owner)
	case r.URL.Path == "/metrics" && f.metrics != nil:
		io.WriteString(w, f.metrics(f))
	case r.URL.Path == "/v1/chat/completions":
		f.chat(w, r, string(body))
	default:
		http.NotFound(w, r)
	}
}

// chat is called with mu held, and gives it up while it answers.
func (f *fake) chat(w http.ResponseWriter, r *http.Request, body string) {
	f.bodies = append(f.bodies, body)
	_, prompt, _ := strings.Cut(body, `"content":`)
	prompt, _, _ = strings.Cut(prompt, "and so on")
	q := ask{body: body, stream: strings.Contains(body, `"stream":true`), usage: strings.Contains(body, `"include_usage":true`), gone: r.Context().Done()}
	if f.seen[prompt] > 0 {
		q.cached = 96
		f.hits += 96
	}
	f.seen[prompt]++
	f.running++
	answer := f.answer
	f.mu.Unlock()
	defer func() { f.mu.Lock(); f.running-- }()
	if answer == nil {
		answer = good
	}
	answer(f, w, q)
}

// good answers as an engine that tells everything; details is what usage says of the cache.
func good(f *fake, w http.ResponseWriter, q ask) {
	q.pause = max(f.pause, time.Millisecond)
	chatWith(w, q, fmt.Sprintf(`,"prompt_tokens_details":{"cached_tokens":%d}`, q.cached))
}

func chatWith(w http.ResponseWriter, q ask, details string) {
	usage := fmt.Sprintf(`"usage":{"prompt_tokens":100,"completion_tokens":8%s}`, details)
	if !q.stream {
		fmt.Fprintf(w, `{"choices":[{"message":{"content":"x"}}],%s}`, usage)
		return
	}
	send := events(w)
	tokens := 8
	if strings.Contains(q.body, `"max_tokens":256`) {
		tokens = 1000
	}
	for range tokens {
		if !send(content) {
			return
		}
		select {
		case <-q.gone:
			return
		case <-time.After(q.pause):
		}
	}
	if q.usage {
		send(`data: {"choices":[],` + usage + "}\n\n")
	}
	send("data: [DONE]\n\n")
}

const content = `data: {"choices":[{"index":0,"delta":{"content":"x"}}]}` + "\n\n"

// events begins an event stream; what it returns sends one piece of it at once, and says whether somebody takes it.
func events(w http.ResponseWriter) func(string) bool {
	w.Header().Set("Content-Type", "text/event-stream")
	http.NewResponseController(w).Flush()
	return func(text string) bool {
		_, err := io.WriteString(w, text)
		return err == nil && http.NewResponseController(w).Flush() == nil
	}
}

// vllmPage is the part of vLLM's page that matters; hits rise with the fake's when it caches.
func vllmPage(caches bool) func(*fake) string {
	return func(f *fake) string {
		hits := 0
		if caches {
			hits = f.hits
		}
		var b bytes.Buffer
		fmt.Fprintf(&b, "vllm:num_requests_running %d\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0.1\n", f.running)
		fmt.Fprintf(&b, "vllm:prefix_cache_queries_total %d\nvllm:prefix_cache_hits_total %d\n", 100*len(f.bodies), hits)
		b.WriteString("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"1000\"} 1\n")
		return b.String()
	}
}
