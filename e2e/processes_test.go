//go:build e2e || e2evllm

package e2e

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const router = "../bin/warmpath"

// process is a program under test; what it prints is kept and shown when the test fails.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
}

func start(t *testing.T, name, program string, env []string, args ...string) *process {
	t.Helper()
	p := &process{name: name, cmd: exec.Command(program, args...), log: filepath.Join(t.TempDir(), name+".log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(os.Environ(), env...)
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("%s does not start: %v (make e2e builds and installs what is needed)", program, err)
	}
	go func() {
		p.cmd.Wait()
		log.Close()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.stop(t)
		if t.Failed() {
			t.Logf("%s printed at the end:\n%s", name, tail(p.log))
		}
	})
	return p
}

// stop ends the process with SIGTERM, then without asking, and returns its exit code.
func (p *process) stop(t *testing.T) int {
	t.Helper()
	select {
	case <-p.done: // ended before; the number may belong to another process by now
	default:
		p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(20 * time.Second):
			t.Errorf("%s did not end within 20 s of SIGTERM", p.name)
			p.cmd.Process.Kill()
			<-p.done
		}
	}
	return p.cmd.ProcessState.ExitCode()
}

func tail(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	const shown = 1200
	return string(text[max(0, len(text)-shown):])
}

// eventually asks until it hears yes or the time is over.
func eventually(t *testing.T, what string, within time.Duration, ask func() bool) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for !ask() {
		select {
		case <-again.C:
		case <-deadline.C:
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

// get is the body of a 200 answer; "" for everything else.
func get(url string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return ""
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return ""
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}
