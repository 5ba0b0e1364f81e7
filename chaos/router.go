package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// router is the product as a process, over all its lives.
type router struct {
	binary, folder string
	data, admin    string // addresses
	workers        []*member
	can            map[action]bool
	http           http.Client
	said           *os.File

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
	code  error // of the last life's end
	up    bool  // it is ready: a signal is heard
	asked int   // times that it was to read its settings again
}

func newRouter(binary, folder string, workers []*member) (*router, error) {
	r := &router{binary: binary, folder: folder, workers: workers, http: http.Client{Timeout: 10 * time.Second}}
	r.http.Transport = &http.Transport{DisableKeepAlives: true}
	for _, at := range []*string{&r.data, &r.admin} {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		*at = fmt.Sprintf("127.0.0.1:%d", port)
	}
	help, err := exec.Command(binary, "serve", "--help").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s serve --help: %w: %s", binary, err, help)
	}
	r.can = map[action]bool{reloads: bytes.Contains(help, []byte("SIGHUP")) && !bytes.Contains(help, []byte("SIGHUP changes nothing")),
		flaps: bytes.Contains(help, []byte("--workers-file"))}
	if r.said, err = os.Create(filepath.Join(folder, "router.log")); err != nil {
		return nil, err
	}
	if err := r.list(-1); err != nil {
		return nil, err
	}
	return r, r.configure("")
}

// configure writes the router's settings. Bounds are small, so that what grows without one shows. extra are further lines.
func (r *router) configure(extra string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "listen: %s\nadmin: %s\nstate_dir: %s\npprof: true\ndrain_timeout: 8s\nbody_bytes_max: %d\nindex_bytes_max: 4MiB\n", r.data, r.admin, r.folder, bodyBytesMax)
	b.WriteString("timeouts: {connect: 500ms, header: 3s, idle_gap: 3s, client: 3s}\nejection: {first: 500ms, max: 2s}\ntelemetry: {interval: 300ms, timeout: 500ms, stale_after: 1s}\n")
	b.WriteString("exact: {index_bytes_max: 4MiB, tokens_in_flight_max: 8}\nworkers:\n")
	for i, w := range r.workers {
		if !r.inFile(i) {
			b.WriteString("  - " + w.entry(i))
		}
	}
	fmt.Fprintf(&b, "pools: [{name: long}]\npool_rules:\n  - {name: long prompts, models: [%s], prompt_tokens: {min: %d}, to: [long]}\n%s", alpha, longTokens, extra)
	return replace(r.config(), b.String())
}

// replace writes a file in one step, as whoever reads it must find it whole.
func replace(file, text string) error {
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// inFile says whether a worker is told by the file that the router watches.
func (r *router) inFile(i int) bool { return r.can[flaps] && i >= filed && i < targets }

// entry is a worker as settings and file name it.
func (m *member) entry(i int) string {
	return fmt.Sprintf("{url: \"http://127.0.0.1:%d\", id: %s, key: %s, model: %s%s}\n", m.port, m.name, m.key, m.models, poolOf(i))
}

// list writes the file of workers anew, in one step, without the one that is missing; -1 for none.
func (r *router) list(missing int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for i, w := range r.workers {
		if r.inFile(i) && i != missing {
			b.WriteString("- " + w.entry(i))
		}
	}
	return replace(r.listed(), b.String())
}

func (r *router) listed() string { return filepath.Join(r.folder, "workers.yaml") }

func (r *router) config() string { return filepath.Join(r.folder, "warmpath.yaml") }

// poolOf is the setting by which a worker is in the pool long.
func poolOf(i int) string {
	if i == 2 || i == 3 {
		return ", pool: long"
	}
	return ""
}

// start begins a life of the router and returns when it is ready.
func (r *router) start() error {
	r.mu.Lock()
	args := []string{"serve", "--config", r.config()}
	if r.can[flaps] {
		args = append(args, "--workers-file", r.listed())
	}
	cmd := exec.Command(r.binary, args...)
	cmd.Stdout, cmd.Stderr = r.said, r.said
	err := cmd.Start()
	ended := make(chan struct{})
	r.cmd, r.ended = cmd, ended
	r.mu.Unlock()
	if err != nil {
		return err
	}
	go func() {
		err := cmd.Wait()
		r.mu.Lock()
		r.code = err
		r.mu.Unlock()
		close(ended)
	}()
	for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		select {
		case <-ended:
			return fmt.Errorf("the router ended at once: %v, see router.log", r.code)
		default:
		}
		if resp, err := r.http.Get("http://" + r.data + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				r.mu.Lock()
				r.up = true
				r.mu.Unlock()
				return nil
			}
		}
	}
	return errors.New("the router was not ready within 20 s, see router.log")
}

// stop sends a signal and waits for the end of this life. After SIGTERM it must end by itself and well, within its drain timeout.
func (r *router) stop(s syscall.Signal) error {
	r.mu.Lock()
	cmd, ended := r.cmd, r.ended
	r.up = false
	r.mu.Unlock()
	cmd.Process.Signal(s)
	select {
	case <-ended:
	case <-time.After(15 * time.Second):
		cmd.Process.Kill()
		<-ended
		return errors.New("the router did not end within 15 s of SIGTERM, its drain_timeout is 8 s")
	}
	if s == syscall.SIGTERM && r.code != nil {
		return fmt.Errorf("the router ended with %w after SIGTERM", r.code)
	}
	return nil
}

// alive says whether the router's process lives.
func (r *router) alive() bool {
	r.mu.Lock()
	ended := r.ended
	r.mu.Unlock()
	select {
	case <-ended:
		return false
	default:
		return true
	}
}

// reload has it read its settings again, with something changed that does no harm.
func (r *router) reload() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.up {
		return nil
	}
	r.asked++
	if err := r.configure(fmt.Sprintf("retries_max: %d\nin_flight_max: %d\n", 2+r.asked%2, 500+r.asked)); err != nil {
		return err
	}
	return r.cmd.Process.Signal(syscall.SIGHUP)
}

// call uses the admin port.
func (r *router) call(ctx context.Context, method, path, body string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.admin+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, text, err
}

// counts is what the router has in hand.
type counts struct {
	Running int `json:"running_requests"`
	Queue   struct {
		Waiting int `json:"waiting"`
	} `json:"queue"`
	Workers []struct {
		ID       string `json:"id"`
		State    string `json:"state"`
		InFlight int    `json:"inflight_requests"`
		Tokens   int    `json:"inflight_tokens"`
	} `json:"workers"`
}

func (c *counts) busy() string {
	var out []string
	add := func(what string, n int) {
		if n != 0 {
			out = append(out, fmt.Sprintf("%s %d", what, n))
		}
	}
	add("running_requests", c.Running)
	add("queue.waiting", c.Queue.Waiting)
	for _, w := range c.Workers {
		add(w.ID+" inflight_requests", w.InFlight)
		add(w.ID+" inflight_tokens", w.Tokens)
	}
	return strings.Join(out, ", ")
}

func (r *router) counts() (c counts, err error) {
	_, text, err := r.call(context.Background(), http.MethodGet, "/state", "")
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	return c, err
}

// size is how large the router's process is.
type size struct {
	at                time.Time
	goroutines, files float64
	heap, resident    float64 // bytes; the heap after a collection
	inFlight, waiting float64 // sums of the metrics
	events, troubles  float64 // messages of cache events, and what went wrong with them
	cpu               float64 // seconds of processors so far
}

func (r *router) size() (s size, err error) {
	if _, _, err = r.call(context.Background(), http.MethodGet, "/debug/pprof/heap?gc=1", ""); err != nil {
		return s, err
	}
	_, text, err := r.call(context.Background(), http.MethodGet, "/metrics", "")
	if err != nil {
		return s, err
	}
	s.at = time.Now()
	into := map[string]*float64{"go_goroutines": &s.goroutines, "process_open_fds": &s.files, "go_memstats_heap_alloc_bytes": &s.heap, "process_resident_memory_bytes": &s.resident,
		"warmpath_worker_inflight_requests": &s.inFlight, "warmpath_queue_waiting_requests": &s.waiting,
		"process_cpu_seconds_total": &s.cpu, "warmpath_events_messages_total": &s.events, "warmpath_events_troubles_total": &s.troubles}
	for line := range strings.SplitSeq(string(text), "\n") {
		name, value, _ := strings.Cut(line, " ")
		if at := strings.LastIndexByte(line, ' '); at > 0 {
			value = line[at+1:]
		}
		name, _, _ = strings.Cut(name, "{")
		if p := into[name]; p != nil {
			v, _ := strconv.ParseFloat(value, 64)
			*p += v
		}
	}
	return s, nil
}
