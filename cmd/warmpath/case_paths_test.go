package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

// inferencePaths are what clients may reach, each with a body that its engine would take for model "e".
var inferencePaths = map[string]string{
	"/v1/embeddings": `{"model":"e","input":"x"}`, "/v1/rerank": `{"model":"e","query":"q","documents":["a","b"]}`, "/rerank": `{"model":"e","query":"q","documents":["a"]}`,
	"/v2/rerank": `{"model":"e","query":"q","documents":["a"]}`, "/v1/reranking": `{"model":"e","query":"q","documents":["a"]}`, "/v1/score": `{"model":"e","text_1":"a","text_2":"b"}`,
	"/score": `{"model":"e","text_1":"a","text_2":["b"]}`, "/pooling": `{"model":"e","input":"x"}`, "/classify": `{"model":"e","input":"x"}`, "/v2/embed": `{"model":"e","texts":["x"]}`,
	"/tokenize": `{"model":"e","prompt":"x"}`, "/detokenize": `{"model":"e","tokens":[1,2]}`, "/v1/audio/speech": `{"model":"e","input":"x"}`,
	"/v1/images/generations": `{"model":"e","prompt":"a cat"}`, "/completion": `{"model":"e","prompt":"x"}`, "/infill": `{"model":"e","input_prefix":"a"}`,
	"/embedding": `{"model":"e","content":"x"}`, "/apply-template": `{"model":"e","messages":[{"role":"user","content":"x"}]}`, "/generate": `{"model":"e","text":"x"}`,
	"/api/chat": `{"model":"e","messages":[{"role":"user","content":"x"}]}`, "/api/embed": `{"model":"e","input":["x"]}`,
	"/chat/completions": `{"model":"e","messages":[]}`, "/v1/chat/completions/render": `{"model":"e","messages":[]}`,
}

func TestEMB_01_EveryInferencePathReachesTheWorkerOfItsModel(t *testing.T) {
	chats, embeds := newWorker(t, nil, "m"), newWorker(t, countsBytes, "e")
	rt := start(t, nil, chats, embeds)
	for path, body := range inferencePaths {
		before := embeds.count()
		r := rt.post(path, body)
		if r.status != http.StatusOK || embeds.count() != before+1 {
			t.Errorf("%s: %d %s", path, r.status, r.body)
			continue
		}
		if c := embeds.calls()[before]; c.r.URL.Path != path || string(c.body) != body {
			t.Errorf("%s arrived as %s %s", path, c.r.URL.Path, c.body)
		}
	}
	for _, path := range []string{"/v1/audio/transcriptions", "/v1/audio/translations", "/v1/images/edits", "/v1/images/variations"} {
		r := rt.do(context.Background(), http.MethodPost, path, string(form(t, "b", noise(100), "model", "e")), "Content-Type", "multipart/form-data; boundary=b")
		if r.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	if r := rt.post("/rerank", `{"model":"nobody","query":"q","documents":[]}`); r.status != http.StatusNotFound || !strings.Contains(r.body, "nobody") {
		t.Errorf("a model that nobody serves: %d %s", r.status, r.body)
	}
	if chats.count() != 0 {
		t.Errorf("the chat model's worker got %d", chats.count())
	}
}

// operatorPaths are what engines have beside inference; none of it is for clients.
var operatorPaths = strings.Fields(`
	/metrics /health /ping /version /load /server_info /sleep /wake_up /is_sleeping /reset_prefix_cache /reset_mm_cache /reset_encoder_cache /pause /resume /collective_rpc
	/start_profile /stop_profile /scale_elastic_ep /is_scaling_elastic_ep /v1/load_lora_adapter /v1/unload_lora_adapter /invocations /docs /openapi.json /update_weights
	/flush_cache /get_server_info /get_model_info /model_info /get_load /v1/loads /abort_request /update_weights_from_disk /release_memory_occupation /open_session
	/health_generate /configure_logging /slots /props /lora-adapters /models/load /models/unload /kv_cache_events /perf_metrics /prometheus/metrics /shutdown
	/api/pull /api/push /api/delete /api/create /api/copy /api/ps /api/tags /v1/../metrics /v1/%2e%2e/metrics /v1//metrics //slots /v1/metrics`)

// The drift test: a path of an engine is either one that passes or one that never does, and docs/ENGINES.md names it.
func TestEMB_01_EveryPathOfTheEnginesIsDecidedAndDocumented(t *testing.T) {
	w := newWorker(t, nil)
	rt := start(t, nil, w)
	page, err := os.ReadFile("../../docs/ENGINES.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range operatorPaths {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			body := ""
			if method == http.MethodPost {
				body = "{}"
			}
			if r := rt.do(context.Background(), method, path, body); r.status != http.StatusNotFound || !strings.Contains(r.body, `"error"`) {
				t.Errorf("%s %s: %d %s", method, path, r.status, r.body)
			}
		}
	}
	if w.count() != 0 {
		t.Errorf("the worker got %d of them", w.count())
	}
	for path := range inferencePaths {
		if !bytes.Contains(page, []byte("`"+strings.TrimPrefix(path, "/v1")+"`")) {
			t.Errorf("docs/ENGINES.md does not name %s", path)
		}
	}
}

func TestALlamacppStreamOfItsOwnPathIsWatched(t *testing.T) {
	w := newWorker(t, func(c *call) {
		c.events()
		for i := range 3 {
			c.send(fmt.Sprintf(`data: {"index":0,"content":" w%d","tokens":[%d],"stop":false,"id_slot":-1}`, i, i) + "\n\n")
		}
		c.send(`data: {"index":0,"content":"","tokens":[],"stop":true,"timings":{"prompt_n":7,"cache_n":3,"predicted_n":3}}` + "\n\n")
	})
	rt := start(t, nil, w)
	r := rt.post("/completion", `{"prompt":"x","stream":true}`)
	if r.status != http.StatusOK || strings.Count(r.body, "data: ") != 4 {
		t.Fatalf("%d %q", r.status, r.body)
	}
	rt.idle()
	if n := rt.metric("warmpath_ttft_seconds_count"); n != 1 {
		t.Errorf("first token seen %v times", n)
	}
	if n := rt.metric("warmpath_streams_unterminated_total"); n != 0 {
		t.Errorf("%v streams without an end", n)
	}
}

func TestHeadAndOptionsAreAnswered(t *testing.T) {
	w := newWorker(t, func(c *call) { c.w.Header().Set("Content-Length", "99") })
	rt := start(t, nil, w)
	for _, path := range []string{"/healthz", "/readyz", "/v1/models", "/v1/models/m"} {
		if r := rt.do(context.Background(), http.MethodHead, path, ""); r.status != http.StatusOK || r.body != "" || r.err != nil {
			t.Errorf("HEAD %s: %d %q %v", path, r.status, r.body, r.err)
		}
	}
	if r := rt.do(context.Background(), http.MethodHead, "/v1/chat/completions", ""); r.status != http.StatusOK || r.header.Get("Content-Length") != "99" || r.err != nil {
		t.Errorf("HEAD of a worker's path: %d %v %v", r.status, r.header, r.err)
	}
	before := w.count()
	r := rt.do(context.Background(), http.MethodOptions, "/v1/chat/completions", "")
	if r.status != http.StatusNoContent || !strings.Contains(r.header.Get("Allow"), "POST") || w.count() != before {
		t.Errorf("OPTIONS: %d %v, %d at the worker", r.status, r.header, w.count()-before)
	}
	if r := rt.do(context.Background(), http.MethodOptions, "/metrics", ""); r.status != http.StatusNotFound {
		t.Errorf("OPTIONS of an operator's path: %d", r.status)
	}
}

func TestCORSIsOffUnlessAnOriginIsNamed(t *testing.T) {
	open := func(c *call) {
		c.w.Header().Set("Access-Control-Allow-Origin", "*")
		c.w.Header().Set("Vary", "Accept")
		c.good("x")
	}
	for _, run := range []struct {
		origins      []string
		origin, want string
	}{
		{nil, "https://chat.example.com", ""},
		{[]string{"https://chat.example.com"}, "https://chat.example.com", "https://chat.example.com"},
		{[]string{"https://chat.example.com"}, "https://evil.example.com", ""},
		{[]string{"*"}, "https://evil.example.com", "*"},
	} {
		w := newWorker(t, open)
		rt := start(t, func(c *config.Config) { c.CORS.Origins = run.origins }, w)
		asked := rt.do(context.Background(), http.MethodOptions, "/v1/chat/completions", "", "Origin", run.origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")
		answers := map[string]reply{"preflight": asked, "answer": rt.post("/v1/chat/completions", chat("cors", false), "Origin", run.origin),
			"error": rt.post("/v1/chat/completions", "{", "Origin", run.origin), "models": rt.get("/v1/models", "Origin", run.origin), "404": rt.get("/nowhere", "Origin", run.origin)}
		for name, r := range answers {
			if got := r.header.Get("Access-Control-Allow-Origin"); got != run.want || r.status == 0 {
				t.Errorf("%v, %s from %s: %d allows %q, want %q", run.origins, name, run.origin, r.status, got, run.want)
			}
			if vary := strings.Join(r.header.Values("Vary"), ","); run.origins != nil && !strings.Contains(vary, "Origin") {
				t.Errorf("%v, %s: Vary %q", run.origins, name, vary)
			}
		}
		if allowed := asked.header.Get("Access-Control-Allow-Headers"); (allowed == "authorization") != (run.want != "") {
			t.Errorf("%v: headers %q are allowed", run.origins, allowed)
		}
	}
}

func TestARawBodyNamesItsModelInThePath(t *testing.T) {
	a, b := newWorker(t, countsBytes, "a"), newWorker(t, countsBytes, "b")
	rt := start(t, func(c *config.Config) { c.BodySpoolBytes = 1000 }, a, b)
	sound := noise(50_000)
	r := rt.do(context.Background(), http.MethodPost, "/v1/audio/transcriptions?model=b", string(sound), "Content-Type", "audio/wav")
	if r.status != http.StatusOK || a.count() != 0 || b.count() != 1 || !bytes.Equal(b.calls()[0].body, sound) {
		t.Errorf("%d %s, %d and %d", r.status, r.body, a.count(), b.count())
	}
	r = rt.do(context.Background(), http.MethodPost, "/v1/audio/transcriptions", string(sound), "Content-Type", "audio/wav")
	if r.status != http.StatusBadRequest || !strings.Contains(r.body, "?model=") {
		t.Errorf("without: %d %s", r.status, r.body)
	}
	r = rt.do(context.Background(), http.MethodPost, "/v1/score", `{"model":"a","text_1":"x"}`, "Content-Type", "application/x-www-form-urlencoded")
	if r.status != http.StatusOK || a.count() != 1 {
		t.Errorf("JSON that says it is something else: %d %s", r.status, r.body)
	}
}

func TestAClientThatAsksFirstIsToldBeforeItSends(t *testing.T) {
	rt := start(t, func(c *config.Config) { c.BodyBytesMax = 1000 }, newWorker(t, nil))
	conn := dial(t, rt)
	fmt.Fprint(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\nExpect: 100-continue\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(body), "body_bytes_max") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if rest, err := io.ReadAll(conn); err != nil || len(rest) > 0 {
		t.Errorf("afterwards %q %v", rest, err)
	}
}
