package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// note is one line of what a worker tells the suite, on its standard output: a request came, or its answer is over.
type note struct {
	At     int64  `json:"at"` // Unix nanoseconds
	Over   bool   `json:"over,omitempty"`
	Tag    string `json:"tag"` // worker.life.number, one an attempt
	ID     int    `json:"id"`
	Mode   mode   `json:"mode,omitempty"`
	API    api    `json:"api"`
	Stream bool   `json:"stream,omitempty"`
	Usage  bool   `json:"usage,omitempty"` // the request that came asks for it
	Model  string `json:"model,omitempty"`
	Bad    string `json:"bad,omitempty"`  // what is wrong with the request
	Sent   bool   `json:"sent,omitempty"` // of an answer that is over: all of it was written
	Prompt int    `json:"prompt"`         // its tokens, and
	Cached int    `json:"cached"`         // how many of them were in the cache, as the answer tells
}

func (n *note) worker() string {
	name, _, _ := strings.Cut(n.Tag, ".")
	return name
}

// ready is the id of the note by which a worker says that it listens.
const ready = -1

// engine is a worker process: an HTTP server that answers what asks want, as the mode in force has it.
type engine struct {
	name, life, key string
	models          []string
	count           atomic.Int64
	running         atomic.Int64

	events   *publisher // nil: it tells nothing of its cache,
	eventsAt string     // else there

	mu    sync.Mutex
	mode  mode
	until time.Time
	out   *json.Encoder
}

// runWorker is the worker process: worker NAME LIFE PORT KEY MODELS EVENTS, the last one a port or 0. Each line of its standard input is a mode and for how many
// milliseconds it holds; it ends with its input.
func runWorker(args []string) error {
	if len(args) != 6 {
		return errors.New("usage: chaos worker NAME LIFE PORT KEY MODELS EVENTS")
	}
	e := &engine{name: args[0], life: args[1], key: args[3], models: strings.Split(args[4], ","), mode: well, out: json.NewEncoder(os.Stdout)}
	l, err := listenSoon("127.0.0.1:" + args[2])
	if err != nil {
		return err
	}
	if args[5] != "0" {
		events, err := listenSoon("127.0.0.1:" + args[5])
		if err != nil {
			return err
		}
		e.events, e.eventsAt = &publisher{now: e.now, held: map[uint64]bool{}, listens: map[net.Conn]bool{}}, "tcp://127.0.0.1:"+args[5]
		go e.events.serve(events)
	}
	e.tell(note{Tag: e.tag(0), ID: ready})
	server := http.Server{Handler: e, ErrorLog: log.New(io.Discard, "", 0)}
	go server.Serve(l)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		name, ms, _ := strings.Cut(in.Text(), " ")
		n, _ := strconv.Atoi(ms)
		e.mu.Lock()
		e.mode, e.until = mode(name), time.Now().Add(time.Duration(n)*time.Millisecond)
		e.mu.Unlock()
	}
	return nil
}

// listenSoon tries for a while: the life before may still hold the port.
func listenSoon(address string) (l net.Listener, err error) {
	for range 100 {
		if l, err = net.Listen("tcp", address); err == nil {
			return l, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, err
}

func (e *engine) tag(n int64) string { return fmt.Sprintf("%s.%s.%d", e.name, e.life, n) }

func (e *engine) tell(n note) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n.At = time.Now().UnixNano()
	e.out.Encode(n)
}

func (e *engine) now() mode {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Now().After(e.until) {
		return well
	}
	return e.mode
}

// ServeHTTP answers what asks about the engine, and inference.
func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		e.tellOfItself(w, r)
		return
	}
	a := apiOf(r.URL.Path)
	if r.URL.Path == "/tokenize" && e.events != nil {
		tokenize(w, r)
		return
	}
	if r.UserAgent() == "warmpath" { // the router's own questions are not for answers of the suite
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender broke it off: it is no request
	}
	n := e.read(r, body)
	n.Tag, n.Mode, n.API = e.tag(e.count.Add(1)), e.now(), a
	e.running.Add(1)
	defer e.running.Add(-1)
	asked, _ := readAsk(plain(r, body))
	e.remember(&n, asked, plain(r, body))
	e.tell(n)
	n.Sent = e.answer(w, r, asked, n)
	n.Over = true
	e.tell(n)
}

// remember has the cache take a prompt, and notes what the answer is to tell of that.
func (e *engine) remember(n *note, a ask, body []byte) {
	n.Prompt = a.prompt
	if e.events == nil || n.API != chat && n.API != completions {
		return
	}
	tokens := tokensOf(body)
	n.Prompt, n.Cached = len(tokens), e.events.take(tokens)
}

// tellOfItself is what vLLM tells of itself: models, version, metrics.
func (e *engine) tellOfItself(w http.ResponseWriter, r *http.Request) {
	if e.now() == blind {
		http.Error(w, "not now", http.StatusInternalServerError)
		return
	}
	switch r.URL.Path {
	case "/v1/models":
		var list []string
		for _, m := range e.models {
			list = append(list, fmt.Sprintf(`{"id":%q,"object":"model","owned_by":"vllm","max_model_len":%d}`, m, contextMax))
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"object":"list","data":[%s]}`, strings.Join(list, ","))
	case "/version":
		fmt.Fprint(w, `{"version":"0.11.0"}`)
	case "/health":
	case "/kv_event_sources":
		if e.events == nil {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, `[{"kind":"zmq","endpoint":%q}]`, e.eventsAt)
	case "/metrics":
		fmt.Fprintf(w, "vllm:num_requests_running %d\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0.1\n"+
			"vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"200000\"} 1\n", e.running.Load())
	default:
		http.NotFound(w, r)
	}
}

// wordsSum is the header by which a client tells the check sum of its body.
const wordsSum = "X-Chaos-Sum"

// injected is what a router may add to the body of a stream whose client asked for no usage.
const injected = `"stream_options":{"include_usage":true},`

// read notes what a request asks for, and what is not as it was sent.
func (e *engine) read(r *http.Request, body []byte) (n note) {
	text := plain(r, body)
	asked, ok := readAsk(text)
	var in struct {
		Model   string
		Stream  bool
		Options struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.Unmarshal(text, &in); err != nil || !ok {
		n.Bad = fmt.Sprintf("no request of the suite: %.200q", text)
		return n
	}
	n.ID, n.Stream, n.Usage, n.Model = asked.id, in.Stream, in.Options.Usage, in.Model
	sum := func(b []byte) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE(b)) }
	want := r.Header.Get(wordsSum)
	switch {
	case !slices.Contains(e.models, in.Model):
		n.Bad = fmt.Sprintf("model %q, which this worker does not serve", in.Model)
	case r.Header.Get("Authorization") != "Bearer "+e.key:
		n.Bad = fmt.Sprintf("Authorization %q, want this worker's key", r.Header.Get("Authorization"))
	case r.Header.Get("X-Api-Key") != "":
		n.Bad = "the client's key came along"
	case want == sum(body):
	case in.Stream && want == sum(bytes.Replace(body, []byte(injected), nil, 1)):
	default:
		n.Bad = fmt.Sprintf("a body of %d bytes whose check sum is %s, not %s as its client says", len(body), sum(body), want)
	}
	return n
}

// plain is the body in the clear.
func plain(r *http.Request, body []byte) []byte {
	if r.Header.Get("Content-Encoding") != "gzip" {
		return body
	}
	in, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil
	}
	text, _ := io.ReadAll(in)
	return text
}
