package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/engine"
)

const (
	errorsRequests = 30  // sent before a worker that is down
	brokenRequests = 400 // sent before a worker that answers 500
	brokenClients  = 8
	// brokenMax is the most requests that a broken worker may draw: three put it out, one a client may be on its way by then, and the
	// probes that try it again are few. A third of all would be its share.
	brokenMax = 3 + brokenClients + 3
)

func proveErrors(ctx context.Context, p *proof) error {
	return inFolder(func(folder string) error {
		for _, show := range []func(context.Context, string) error{p.misspeltKey, p.portInUse, p.workerDown, p.workerBroken} {
			if err := show(ctx, folder); err != nil {
				return err
			}
		}
		return nil
	})
}

// firstLine is what a program said first, without the log's own decoration.
func firstLine(said string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(said), "\n")
	return line
}

func (p *proof) misspeltKey(ctx context.Context, folder string) error {
	file := filepath.Join(folder, "warmpath.yaml")
	if err := os.WriteFile(file, []byte("workers: [http://127.0.0.1:1]\ntimeouts:\n  conect: 1s\n"), 0o600); err != nil {
		return err
	}
	code, said := p.runProgram(ctx, "serve", "--config", file, "--state-dir", folder)
	pass := code == exitUsage && strings.Contains(said, "warmpath.yaml:3:") && strings.Contains(said, "timeouts.conect") && strings.Contains(said, "did you mean timeouts.connect?")
	p.that(pass, "a misspelt key", fmt.Sprintf("exit code %d, %s", code, strings.ReplaceAll(firstLine(said), file, "warmpath.yaml")), map[string]any{"exit_code": code})
	return nil
}

func (p *proof) portInUse(ctx context.Context, folder string) error {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer taken.Close()
	at := taken.Addr().String()
	for _, flag := range []string{"--listen", "--admin"} {
		other := map[string]string{"--listen": "--admin", "--admin": "--listen"}[flag]
		code, said := p.runProgram(ctx, "serve", "--worker", "http://127.0.0.1:1", "--state-dir", folder, flag, at, other, "127.0.0.1:0")
		pass := code == exitPortInUse && strings.Contains(said, at) && strings.Contains(said, "flag "+flag)
		p.that(pass, "a port in use, "+flag, fmt.Sprintf("exit code %d, %s", code, firstLine(said)), map[string]any{"exit_code": code})
	}
	return nil
}

// workerDown starts the router before one worker that is up and one that is not there.
func (p *proof) workerDown(ctx context.Context, folder string) error {
	engines, err := startEngines(ctx, alike(1, engine.Options{Profile: cost.Profiles["h100-8b"], Model: demoModel, TimeScale: 10, Seed: p.seed}))
	if err != nil {
		return err
	}
	defer engines.close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	nobody := "http://" + closed.Addr().String()
	closed.Close()
	s, err := p.startServed(ctx, folder, nobody, engines.engines[0].url)
	if err != nil {
		p.that(false, "a worker that is down at the start", err.Error(), nil)
		return nil
	}
	good, failure := p.askMany(ctx, s.data, errorsRequests, 4)
	state, stateErr := workerStates(ctx, s.admin)
	code := s.end()
	up, down := state[strings.TrimPrefix(engines.engines[0].url, "http://")], state[strings.TrimPrefix(nobody, "http://")]
	pass := good == errorsRequests && stateErr == nil && up.State == "ready" && down.State != "ready" && code == exitOK
	figures := fmt.Sprintf("it starts, %d of %d requests are answered, the workers are shown as %s and %s, exit code %d after SIGTERM", good, errorsRequests, up.State, down.State, code)
	if failure != "" {
		figures += "; " + failure
	}
	p.that(pass, "a worker that is down at the start", figures, map[string]any{"answered": good, "requests": errorsRequests, "state": down.State, "exit_code": code})
	return nil
}

// workerStates reads /state by worker id.
func workerStates(ctx context.Context, admin string) (map[string]workerState, error) {
	reply, err := get(ctx, admin+"/state")
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	var s routerState
	if err := json.NewDecoder(reply.Body).Decode(&s); err != nil {
		return nil, err
	}
	states := map[string]workerState{}
	for _, w := range s.Workers {
		states[w.ID] = w
	}
	return states, nil
}

// askMany sends n short chats from so many clients and counts those answered with 200. failure is what the first other one met.
func (p *proof) askMany(ctx context.Context, base string, n, clients int) (good int, failure string) {
	client := newProveClient()
	defer client.CloseIdleConnections()
	var next, answered atomic.Int64
	var first atomic.Pointer[string]
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n) && ctx.Err() == nil; i = next.Add(1) {
				body := map[string]any{"model": demoModel, "max_tokens": 8, "messages": []map[string]string{{"role": "user", "content": fmt.Sprintf("question %d of %d", i, p.seed)}}}
				status, _, err := client.status(ctx, base+"/v1/chat/completions", body)
				if status == http.StatusOK && err == nil {
					answered.Add(1)
					continue
				}
				said := fmt.Sprintf("request %d: status %d, %v", i, status, err)
				first.CompareAndSwap(nil, &said)
			}
		})
	}
	all.Wait()
	if f := first.Load(); f != nil {
		failure = *f
	}
	return int(answered.Load()), failure
}

// workerBroken puts two good workers beside one that looks well and answers every request with 500 at once.
func (p *proof) workerBroken(ctx context.Context, folder string) error {
	engines, err := startEngines(ctx, alike(2, engine.Options{Profile: cost.Profiles["h100-8b"], Model: demoModel, Seed: p.seed}))
	if err != nil {
		return err
	}
	defer engines.close()
	broken, err := startBroken()
	if err != nil {
		return err
	}
	defer broken.stop()
	s, err := p.startServed(ctx, folder, broken.url, engines.engines[0].url, engines.engines[1].url)
	if err != nil {
		return err
	}
	defer s.end()
	if err := awaitReady(ctx, s.data); err != nil {
		return err
	}
	began := time.Now()
	good, failure := p.askMany(ctx, s.data, brokenRequests, brokenClients)
	took := time.Since(began)
	seen, err := readMetrics(ctx, s.admin)
	if err != nil {
		return err
	}
	drawn, ejections := broken.asked.Load(), seen.sum("warmpath_ejections_total")
	pass := good == brokenRequests && drawn >= 1 && drawn <= brokenMax && ejections >= 1
	figures := fmt.Sprintf("it drew %d of %d requests in %.1f s (its share would be %d), each was tried again elsewhere: %d of %d answered; put out %.0f times", drawn, brokenRequests,
		took.Seconds(), brokenRequests/3, good, brokenRequests, ejections)
	if failure != "" {
		figures += "; " + failure
	}
	p.that(pass, "a worker that answers 500 at once", figures, map[string]any{"drawn": drawn, "requests": brokenRequests, "answered": good, "ejections": ejections})
	return nil
}

// brokenWorker says that it serves the model and is well, and answers every request with 500.
type brokenWorker struct {
	url     string
	asked   atomic.Int64
	web     *http.Server
	serving sync.WaitGroup
}

func startBroken() (*brokenWorker, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &brokenWorker{url: "http://" + l.Addr().String()}
	b.web = &http.Server{Handler: b}
	b.serving.Go(func() { _ = b.web.Serve(l) })
	return b, nil
}

func (b *brokenWorker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Method == http.MethodPost:
		b.asked.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
		io.WriteString(w, `{"error":{"message":"broken","type":"InternalServerError","code":500}}`)
	case r.URL.Path == "/v1/models":
		io.WriteString(w, `{"object":"list","data":[{"id":"`+demoModel+`","object":"model"}]}`)
	case r.URL.Path == "/health":
	default:
		http.NotFound(w, r)
	}
}

func (b *brokenWorker) stop() {
	b.web.Close()
	b.serving.Wait()
}
