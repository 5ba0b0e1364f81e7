//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const frameworks = cache + "/frameworks/bin/python" // LangChain and LlamaIndex, which want another openai client than the newest

// bench is a router before two simulated engines of model "m" and the scripted worker.
type bench struct {
	data, admin string
	scripted    *scripted
}

func startBench(t *testing.T) *bench {
	b := &bench{scripted: startScripted(t)}
	flags := []string{"serve", "--worker", b.scripted.URL}
	for n := range 2 {
		port := freePort(t)
		start(t, fmt.Sprintf("worker-%d", n), router, nil, "worker", "--port", port, "--model", "m", "--time-scale", "5", "--output-mean", "12")
		flags = append(flags, "--worker", "http://127.0.0.1:"+port)
	}
	listen, admin := "127.0.0.1:"+freePort(t), "127.0.0.1:"+freePort(t)
	b.data, b.admin = "http://"+listen, "http://"+admin
	start(t, "warmpath", router, []string{"XDG_STATE_HOME=" + t.TempDir()}, append(flags, "--listen", listen, "--admin", admin)...)
	eventually(t, "warmpath knows all models", startWait, func() bool {
		models := get(b.data + "/v1/models")
		return strings.Contains(models, `"m"`) && strings.Contains(models, `"tools"`)
	})
	return b
}

// sentences says what each check of the Python scripts shows.
var sentences = map[string]string{
	"openai_chats":        "TheOpenAIClientChatsStreamedAndNot",
	"openai_others":       "TheOpenAIClientCompletesEmbedsAndResponds",
	"openai_errors":       "TheOpenAIClientRaisesTheRightExceptions",
	"openai_retries":      "TheOpenAIClientComesAgainWhenItIsTold",
	"openai_tools":        "TheOpenAIClientCallsTools",
	"anthropic_chats":     "TheAnthropicClientChatsStreamedAndNot",
	"anthropic_errors":    "TheAnthropicClientRaisesTheRightExceptions",
	"anthropic_tools":     "TheAnthropicClientThinksAndCallsTools",
	"langchain_openai":    "LangChainInvokesStreamsAndEmbedsOverOpenAI",
	"langchain_anthropic": "LangChainInvokesAndStreamsOverAnthropic",
	"langchain_tools":     "LangChainCallsToolsAndFillsSchemas",
	"llamaindex":          "LlamaIndexChatsAndCompletes",
}

func TestClientsWorkUnmodified(t *testing.T) {
	b := startBench(t)
	said := b.checks(t)
	for name, sentence := range sentences {
		t.Run(sentence, func(t *testing.T) {
			if failed, is := said[name]["error"]; is || said[name] == nil {
				t.Fatalf("%v", failed)
			}
			t.Log(said[name])
		})
	}
	t.Run("ClientsThatRunOutOfPatienceFreeTheWorker", func(t *testing.T) {
		eventually(t, "the slow worker to see its two clients leave", 10*time.Second, func() bool { return b.scripted.left.Load() == 2 })
	})
	t.Run("CurlStreamsUncompressedAndCompressed", b.curlStreams)
	t.Run("CurlUploadsWithExpect", b.curlExpects)
	t.Run("CurlIsRefusedHTTP2AndNotLeftWaiting", b.curlHTTP2)
	t.Run("OpenWebUIListsChatsMakesTitlesAndAborts", func(t *testing.T) { b.replay(t, "openwebui") })
	t.Run("ACodingAgentCountsStreamsFallsBackAndCallsTools", func(t *testing.T) { b.replay(t, "agent") })
}

// checks runs all checks of both scripts, each in one process: to import the libraries takes longer than the checks.
func (b *bench) checks(t *testing.T) map[string]map[string]any {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	all, others := map[string]map[string]any{}, map[string]map[string]any{}
	scripts := map[string]*exec.Cmd{"sdk.py": exec.CommandContext(ctx, python, "sdk.py", b.data), "frameworks.py": exec.CommandContext(ctx, frameworks, "frameworks.py", b.data)}
	scripts["frameworks.py"].Env = append(os.Environ(), "LANGSMITH_TRACING=false", "PYTHONWARNINGS=ignore")
	var both sync.WaitGroup
	both.Go(func() { decode(t, scripts["sdk.py"], &all) })
	both.Go(func() { decode(t, scripts["frameworks.py"], &others) })
	both.Wait()
	maps.Copy(all, others)
	if len(all) != len(sentences) {
		t.Errorf("%d checks ran, of %d that have sentences", len(all), len(sentences))
	}
	return all
}

// curl runs curl, which is to end with the code that it is given, and returns what it printed.
func (b *bench) curl(t *testing.T, code int, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "curl", append([]string{"--silent", "--show-error"}, args...)...)
	out, err := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("curl ended with %d, want %d: %v\n%s", got, code, err, out)
	}
	return string(out)
}

const curlChat = `{"model":"m","stream":true,"max_tokens":8,"messages":[{"role":"user","content":"Count."}]}`

func (b *bench) curlStreams(t *testing.T) {
	for _, flags := range [][]string{{}, {"--compressed"}, {"--http1.0"}} {
		out := b.curl(t, 0, append(flags, "-N", "-H", "Content-Type: application/json", "-d", curlChat, b.data+"/v1/chat/completions")...)
		if strings.Count(out, "data: ") < 8 || !strings.HasSuffix(strings.TrimSpace(out), "data: [DONE]") {
			t.Errorf("curl %v printed %q", flags, out)
		}
	}
	// Without -H curl says that a body is a form.
	out := b.curl(t, 0, "-N", "-o", os.DevNull, "-w", "%{http_code} %{content_type}", "-d", curlChat, b.data+"/v1/chat/completions")
	if !strings.HasPrefix(out, "200 text/event-stream") {
		t.Errorf("JSON that is called a form: %q", out)
	}
}

func (b *bench) curlExpects(t *testing.T) {
	file := filepath.Join(t.TempDir(), "body.json")
	body := fmt.Sprintf(`{"model":"m","max_tokens":2,"messages":[{"role":"user","content":%q}]}`, strings.Repeat("word ", 60_000))
	if err := os.WriteFile(file, []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{{"-H", "Expect: 100-continue"}, {"-H", "Transfer-Encoding: chunked"}, {"-H", "Expect:"}} {
		out := b.curl(t, 0, append(flags, "-v", "-H", "Content-Type: application/json", "--data-binary", "@"+file, b.data+"/v1/chat/completions")...)
		if !strings.Contains(out, `"chat.completion"`) || flags[1] == "Expect: 100-continue" && !strings.Contains(out, "100 Continue") {
			t.Errorf("curl %v printed %.3000q", flags, out)
		}
	}
	out := b.curl(t, 0, "-o", os.DevNull, "-w", "%{http_code}", "-H", "Expect: 100-continue", "--data-binary", "@"+file, b.data+"/nothing")
	if out != "404" {
		t.Errorf("a path that is not there, asked for with Expect: %s", out)
	}
}

func (b *bench) curlHTTP2(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	// Which of its errors curl ends with depends on what it reads first: a refusal in HTTP/1.1, or the end.
	if out, err := exec.CommandContext(ctx, "curl", "--silent", "--http2-prior-knowledge", b.data+"/v1/models").CombinedOutput(); err == nil || ctx.Err() != nil {
		t.Errorf("HTTP/2 that was not asked about ended with %v, %v: %s", err, ctx.Err(), out)
	}
	if out := b.curl(t, 0, "--http2", "-o", os.DevNull, "-w", "%{http_code} %{http_version}", b.data+"/v1/models"); out != "200 1.1" {
		t.Errorf("an upgrade to HTTP/2 that is offered: %s", out)
	}
}

// send sends a recorded request and returns the status and all that was said, or what was when a client that leaves after so many events left.
func (b *bench) send(t *testing.T, r *recorded) (status int, said string) {
	t.Helper()
	ctx, leave := context.WithTimeout(context.Background(), time.Minute)
	defer leave()
	request, err := http.NewRequestWithContext(ctx, r.Method, b.data+r.Path, strings.NewReader(string(r.Body)))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range r.Headers {
		request.Header.Set(name, value)
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	if r.LeavesAfter > 0 {
		seen := make([]byte, r.LeavesAfter)
		n, _ := io.ReadFull(reply.Body, seen)
		return reply.StatusCode, string(seen[:n])
	}
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, string(body)
}
