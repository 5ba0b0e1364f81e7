package telemetry

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/warmpath/warmpath/internal/fleet"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeEngine is a real small server whose answers can be changed while it runs; a path without an answer is 404.
type fakeEngine struct {
	mu      sync.Mutex
	answers map[string]http.HandlerFunc
	asked   map[string]int
	keys    map[string]bool // Authorization headers seen
}

func newFake(answers map[string]http.HandlerFunc) *fakeEngine {
	return &fakeEngine{answers: answers, asked: map[string]int{}, keys: map[string]bool{}}
}

func (f *fakeEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	answer := f.answers[r.URL.Path]
	f.asked[r.URL.Path]++
	f.keys[r.Header.Get("Authorization")] = true
	f.mu.Unlock()
	if answer == nil {
		answer = http.NotFound
	}
	answer(w, r)
}

func (f *fakeEngine) set(path string, answer http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[path] = answer
}

func (f *fakeEngine) times(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[path]
}

// listen serves f on a real socket.
func (f *fakeEngine) listen(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}

// Answers.

func recorded(t *testing.T, name string) http.HandlerFunc {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return says(string(b))
}

func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// needsKey answers 401 without the key.
func needsKey(key string, answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answer(w, r)
	}
}

// load is a page of vLLM's with a start time.
func load(started, runningNow, waitingNow int) http.HandlerFunc {
	return says(fmt.Sprintf("process_start_time_seconds %d\nvllm:num_requests_running{engine=\"0\",model_name=\"m\"} %d\nvllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} %d\n", started, runningNow, waitingNow))
}

const listOfM = `{"object":"list","data":[{"id":"m","object":"model","owned_by":"vllm","max_model_len":4096}]}`

func fakeVLLM() *fakeEngine {
	return newFake(map[string]http.HandlerFunc{"/v1/models": says(listOfM), "/version": says(`{"version":"0.32.0"}`), "/metrics": load(1000, 0, 0)})
}

// network connects fake engines in memory, so that they can live in a synctest bubble.
type network struct {
	mu    sync.Mutex
	wires map[string]*wire // by address
}

// wire is a listener in memory. Closing it refuses new connections; connections made live on until their server is closed.
type wire struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

func (w *wire) Addr() net.Addr { return &net.UnixAddr{Name: "wire"} }

// serve listens at an address of the network until stop is called.
func (n *network) serve(address string, f http.Handler) (stop func()) {
	w := &wire{conns: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	if n.wires == nil {
		n.wires = map[string]*wire{}
	}
	n.wires[address] = w
	n.mu.Unlock()
	s := &http.Server{Handler: f}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(w)
	}()
	return func() {
		_ = s.Close()
		<-done
	}
}

func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	w := n.wires[address]
	n.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	if w == nil {
		return nil, refused
	}
	ours, theirs := net.Pipe()
	select {
	case w.conns <- theirs:
		return ours, nil
	case <-w.closed:
		return nil, refused
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
	}
}

// news collects what hooks say, in order.
type news struct {
	mu     sync.Mutex
	events []event
}

type event struct {
	what   string // info, counts, restart, down, fail
	target Target
	info   fleet.Info
	counts fleet.Counts
	err    error
}

func (n *news) add(e event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, e)
}

// of returns a worker's events of one kind.
func (n *news) of(id, what string) []event {
	n.mu.Lock()
	defer n.mu.Unlock()
	var some []event
	for _, e := range n.events {
		if e.target.ID == id && e.what == what {
			some = append(some, e)
		}
	}
	return some
}

// order lists what was told of a worker, runs of the same kind once.
func (n *news) order(id string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, last := "", ""
	for _, e := range n.events {
		if e.target.ID == id && e.what != last {
			s, last = s+" "+e.what, e.what
		}
	}
	return s
}

func (n *news) options(o Options) Options {
	o.OnInfo = func(t Target, i fleet.Info) { n.add(event{what: "info", target: t, info: i}) }
	o.OnCounts = func(t Target, c fleet.Counts) { n.add(event{what: "counts", target: t, counts: c}) }
	o.OnRestart = func(t Target) { n.add(event{what: "restart", target: t}) }
	o.OnDown = func(t Target, err error) { n.add(event{what: "down", target: t, err: err}) }
	o.OnFail = func(t Target, err error) { n.add(event{what: "fail", target: t, err: err}) }
	return o
}

// runs starts a manager and returns what stops it and waits for it.
func runs(t *testing.T, m *Manager) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}
