package bench

import (
	"net"
	"path/filepath"

	"github.com/warmpath/warmpath/internal/child"
)

// cacheAware is what the rivals call their mode for warm prefixes.
const cacheAware = "cache_aware"

// rival is an LLM router installed from PyPI by scripts/bench-peers.sh, in a virtual environment of its own.
type rival struct {
	name string
	argv func(venv string) []string // up to the flags that all of them share
}

var rivals = []rival{
	{"smg", func(venv string) []string { return []string{filepath.Join(venv, "bin/smg"), "launch"} }},
	{"vllm-router", func(venv string) []string { return []string{filepath.Join(venv, "bin/vllm-router")} }},
	{"sglang-router", func(venv string) []string {
		return []string{filepath.Join(venv, "bin/python"), "-m", "sglang_router.launch_router"}
	}},
}

func (r rival) start(peers, policy string, urls []string) (*child.Process, error) {
	addr, metrics, err := child.FreeAddrs()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	_, metricsPort, _ := net.SplitHostPort(metrics)
	argv := append(r.argv(filepath.Join(peers, r.name)), "--host", "127.0.0.1", "--port", port, "--policy", policy,
		"--prometheus-host", "127.0.0.1", "--prometheus-port", metricsPort, "--log-level", "error", "--worker-urls")
	return child.Start(r.name+" "+policy, addr, append(argv, urls...))
}
