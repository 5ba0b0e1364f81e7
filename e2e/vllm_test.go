//go:build e2evllm

// Package e2e, with this tag, runs the built binary in exact mode in front of two real vLLM engines, whose small caches have to give up
// blocks all the time, and holds what was predicted of each request, when its worker was chosen, against what the engine reports.
//
//	make e2e-vllm
package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	vllmCache  = "../.cache/e2e-vllm"
	vllm       = vllmCache + "/venv/bin/vllm"
	vllmModel  = vllmCache + "/model"
	vllmName   = "tiny"
	vllmStart  = 6 * time.Minute // two at once on two cores that others use too
	blocks     = 600             // of a cache
	startsMax  = 3
	block      = 32 // tokens
	contextMax = 4096
)

// worker is a vLLM engine at ports of its own, which it keeps when it is started again.
type worker struct {
	n, blocks            int // the number of the worker, and of the blocks of its cache
	port, events, replay string
	process              *process
}

func newWorker(t *testing.T, n, blocks int) *worker {
	return &worker{n: n, blocks: blocks, port: lastingPort(t), events: lastingPort(t), replay: lastingPort(t)}
}

// lastingPort is a free port below those that the system gives to connections, so that it is free as well when its owner is started again.
func lastingPort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(15_000 + rand.IntN(15_000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no free port from 15000 to 30000")
	return ""
}

func (w *worker) url() string { return "http://127.0.0.1:" + w.port }

// id is what warmpath calls it.
func (w *worker) id() string { return "127.0.0.1:" + w.port }

func (w *worker) start(t *testing.T) {
	t.Helper()
	files, err := filepath.Abs(vllmModel)
	if err != nil {
		t.Fatal(err)
	}
	// An address with neither * nor :: would make it connect; this one is loopback all the same.
	events := fmt.Sprintf(`{"enable_kv_cache_events":true,"publisher":"zmq","topic":"kv","endpoint":"tcp://[::ffff:127.0.0.1]:%s","replay_endpoint":"tcp://127.0.0.1:%s"}`, w.events, w.replay)
	env := []string{"HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1", "VLLM_CPU_KVCACHE_SPACE=1",
		"VLLM_CPU_OMP_THREADS_BIND=nobind", "OMP_NUM_THREADS=1", "VLLM_SERVER_DEV_MODE=1"} // the last for /reset_prefix_cache
	w.process = start(t, fmt.Sprintf("vllm-%d", w.n), vllm, env, "serve", files, "--load-format", "dummy", "--enforce-eager",
		"--max-model-len", strconv.Itoa(contextMax), "--enable-prefix-caching", "--block-size", strconv.Itoa(block), "--num-gpu-blocks-override", strconv.Itoa(w.blocks),
		"--host", "127.0.0.1", "--port", w.port, "--served-model-name", vllmName, "--enable-prompt-tokens-details",
		"--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--kv-events-config", events)
	t.Cleanup(w.process.killAll)
}

// await waits until it answers. vLLM looks for free ports before it takes them, which may go wrong where others look too: one that ends is
// started again.
func (w *worker) await(t *testing.T) {
	t.Helper()
	starts := 1
	eventually(t, fmt.Sprintf("vLLM %d answers at %s", w.n, w.url()), vllmStart, func() bool {
		select {
		case <-w.process.done:
			if starts == startsMax {
				t.Fatalf("vLLM %d ended %d times before it answered:\n%s", w.n, starts, errorsIn(w.process.log))
			}
			t.Logf("vLLM %d ended before it answered and is started again:\n%s", w.n, errorsIn(w.process.log))
			starts++
			w.start(t)
			return false
		default:
			return get(w.url()+"/v1/models") != ""
		}
	})
}

// errorsIn are the first lines of a log that speak of errors.
func errorsIn(file string) (found string) {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "Error") && len(found) < 4000 {
			found += line
		}
	}
	return found
}

// killAll ends a process and all that it started, without asking.
func (p *process) killAll() {
	select {
	case <-p.done:
		return
	default:
	}
	for _, pid := range append(descendants(p.cmd.Process.Pid), p.cmd.Process.Pid) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	<-p.done
}

func descendants(of int) (all []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state ppid ...", and a name may hold anything.
		var parent int
		rest := string(text[strings.LastIndexByte(string(text), ')')+1:])
		if _, err := fmt.Sscanf(rest, " %s %d", new(string), &parent); err != nil || parent != of {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		all = append(append(all, pid), descendants(pid)...)
	}
	return all
}

// reset empties the worker's prefix cache, which it only does while nothing runs there.
func (w *worker) reset(t *testing.T) {
	t.Helper()
	reply, err := http.Post(w.url()+"/reset_prefix_cache", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	said, _ := io.ReadAll(reply.Body)
	if !strings.Contains(string(said), "true") {
		t.Fatalf("/reset_prefix_cache answers %s %s", reply.Status, said)
	}
}

// front is warmpath in front of workers, at ports that it keeps when it is started again.
type front struct {
	workers       []*worker
	listen, admin string
	dir           string // of its secret and its decision logs
	logs          []string
	router        *process
}

func newFront(t *testing.T, workers []*worker) *front {
	return &front{workers: workers, listen: "127.0.0.1:" + lastingPort(t), admin: "127.0.0.1:" + lastingPort(t), dir: t.TempDir()}
}

func (f *front) start(t *testing.T) {
	t.Helper()
	log := filepath.Join(f.dir, fmt.Sprintf("decisions-%d.jsonl", len(f.logs)))
	f.logs = append(f.logs, log)
	args := []string{"serve", "--listen", f.listen, "--admin", f.admin, "--decision-log", log, "--tokenizer", vllmName + "=" + vllmModel}
	for _, w := range f.workers {
		args = append(args, "--worker", w.url())
	}
	f.router = start(t, fmt.Sprintf("warmpath-%d", len(f.logs)), router, []string{"XDG_STATE_HOME=" + f.dir}, args...)
	f.awaitExact(t)
}

// awaitExact waits until warmpath knows the caches of all workers by their own word.
func (f *front) awaitExact(t *testing.T) {
	t.Helper()
	var state struct {
		Workers []struct {
			ID, State string
			Cache     struct{ Mode, Why, Events string }
		}
	}
	deadline := time.Now().Add(2 * time.Minute)
	eventually(t, "warmpath knows every worker's cache exactly", 2*time.Minute+time.Second, func() bool {
		if err := json.Unmarshal([]byte(get("http://"+f.admin+"/state")), &state); err != nil {
			return false
		}
		exact := 0
		for _, w := range state.Workers {
			if w.Cache.Mode == "exact" {
				exact++
			} else if time.Now().After(deadline) {
				t.Errorf("%s is %s: %+v", w.ID, w.State, w.Cache)
			}
		}
		return exact == len(f.workers)
	})
}
