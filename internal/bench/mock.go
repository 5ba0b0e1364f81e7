package bench

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// modelName is what the mock workers serve.
const modelName = "bench"

// mockBufferBytes is a read buffer; bodies are read through it and not kept.
const mockBufferBytes = 64 << 10

// Mock is a number of workers that answer at once and cost little CPU: no net/http on the way of a request, answers written from
// templates. They look like vLLM, so that a router uses all that it knows of engines.
type Mock struct {
	listeners []net.Listener
	served    []atomic.Int64
	buffers   sync.Pool
	behaviour atomic.Pointer[behaviour]
	metrics   []byte
	running   sync.WaitGroup
	mu        sync.Mutex // guards open
	open      map[net.Conn]bool
}

// behaviour of streams.
type behaviour struct {
	Events int           // with content
	Pace   time.Duration // between events
	Hold   time.Duration // between the head and the first event
}

// StartMock listens on n free loopback ports.
func StartMock(n int) (*Mock, error) {
	m := &Mock{served: make([]atomic.Int64, n), metrics: exposition(), open: map[net.Conn]bool{}}
	m.buffers.New = func() any { b := make([]byte, mockBufferBytes); return &b }
	m.behaviour.Store(&behaviour{Events: 50})
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			m.Close()
			return nil, err
		}
		m.listeners = append(m.listeners, l)
	}
	for i, l := range m.listeners {
		m.running.Go(func() { m.accept(l, &m.served[i]) })
	}
	return m, nil
}

// URLs of the workers.
func (m *Mock) URLs() []string {
	var urls []string
	for _, l := range m.listeners {
		urls = append(urls, "http://"+l.Addr().String())
	}
	return urls
}

// Close ends all connections and waits.
func (m *Mock) Close() {
	for _, l := range m.listeners {
		l.Close()
	}
	m.mu.Lock()
	for c := range m.open {
		c.Close()
	}
	m.mu.Unlock()
	m.running.Wait()
}

func (m *Mock) accept(l net.Listener, served *atomic.Int64) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		m.mu.Lock()
		m.open[c] = true
		m.mu.Unlock()
		m.running.Go(func() {
			m.serve(c, served)
			c.Close()
			m.mu.Lock()
			delete(m.open, c)
			m.mu.Unlock()
		})
	}
}

// asked is what the mock needs to know of a request.
type asked struct {
	path             string
	length           int
	stream, addUsage bool
}

// serve answers one connection's requests until it ends. Between requests it holds no buffer.
func (m *Mock) serve(c net.Conn, served *atomic.Int64) {
	for {
		held := m.buffers.Get().(*[]byte)
		q, err := readAsked(c, *held)
		m.buffers.Put(held)
		if err != nil {
			return
		}
		switch {
		case q.length > 0 && strings.HasPrefix(q.path, "/v1/"):
			served.Add(1)
			if q.stream {
				err = m.stream(c, q)
			} else {
				err = m.reply(c, q)
			}
		case strings.HasPrefix(q.path, "/behave"):
			err = m.behave(c, q.path)
		case q.path == "/counts":
			err = writeJSON(c, m.counts())
		case q.path == "/metrics":
			_, err = c.Write(m.metrics)
		case q.path == "/version":
			err = writeJSON(c, `{"version":"0.11.0"}`)
		default: // the model list, and whatever a router asks to see whether one is well
			err = writeJSON(c, `{"object":"list","data":[{"id":"`+modelName+`","object":"model","created":1,"owned_by":"vllm","max_model_len":1000000}]}`)
		}
		if err != nil {
			return
		}
	}
}

// readAsked reads one request. The body's ends are looked at, because a router may add an option at either.
func readAsked(c net.Conn, buf []byte) (q asked, err error) {
	n, end := 0, -1
	for end < 0 {
		k, err := c.Read(buf[n:])
		if k == 0 {
			return q, cmpErr(err)
		}
		n += k
		end = bytes.Index(buf[:n], []byte("\r\n\r\n"))
	}
	head := buf[:end+2]
	if line := bytes.Fields(head[:bytes.IndexByte(head, '\r')]); len(line) > 1 {
		q.path = string(line[1])
	}
	q.length = contentLength(head)
	body := buf[end+4 : n]
	look := func(b []byte) {
		q.stream = q.stream || bytes.Contains(b, []byte(`"stream":true`))
		q.addUsage = q.addUsage || bytes.Contains(b, []byte(`"include_usage":true`))
	}
	look(body)
	for left := q.length - len(body); left > 0; {
		k, err := c.Read(buf[:min(left, len(buf))])
		if k == 0 {
			return q, cmpErr(err)
		}
		if left -= k; left == 0 || k < 256 {
			look(buf[max(0, k-256):k])
		}
	}
	return q, nil
}

func cmpErr(err error) error {
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// contentLength finds the header however it is spelt; 0 without one.
func contentLength(head []byte) int {
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		const name = "content-length:"
		if len(line) > len(name) && bytes.EqualFold(line[:len(name)], []byte(name)) {
			n, _ := strconv.Atoi(string(bytes.TrimSpace(line[len(name):])))
			return n
		}
	}
	return 0
}

func writeJSON(c net.Conn, body string) error {
	_, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return err
}

func (m *Mock) counts() string {
	var n []string
	for i := range m.served {
		n = append(n, strconv.FormatInt(m.served[i].Load(), 10))
	}
	return "[" + strings.Join(n, ",") + "]"
}

func (m *Mock) behave(c net.Conn, path string) error {
	u, err := url.Parse(path)
	if err != nil {
		return err
	}
	var b behaviour
	b.Events, _ = strconv.Atoi(u.Query().Get("events"))
	b.Pace, _ = time.ParseDuration(u.Query().Get("pace"))
	b.Hold, _ = time.ParseDuration(u.Query().Get("hold"))
	m.behaviour.Store(&b)
	return writeJSON(c, "{}")
}

const (
	replyHead  = "HTTP/1.1 200 OK\r\ndate: Sun, 29 Nov 2026 12:00:00 GMT\r\nserver: uvicorn\r\ncontent-length: "
	replyFirst = "\r\ncontent-type: application/json\r\n\r\n" + `{"id":"chatcmpl-b1f6ae5d2c1f4f1e","object":"chat.completion","created":1795000000,"model":"` + modelName +
		`","choices":[{"index":0,"message":{"role":"assistant","content":"A short answer, as good as any other.","refusal":null,"tool_calls":[]},"logprobs":null,"finish_reason":"stop"}],"usage":`
	streamHead = "HTTP/1.1 200 OK\r\ndate: Sun, 29 Nov 2026 12:00:00 GMT\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
	eventHead  = `data: {"id":"chatcmpl-b1f6ae5d2c1f4f1e","object":"chat.completion.chunk","created":1795000000,"model":"` + modelName +
		`","choices":[{"index":0,"delta":{"content":"`
	eventTail  = `"},"logprobs":null,"finish_reason":null,"token_ids":null}]}` + "\n\n"
	usageHead  = `data: {"id":"chatcmpl-b1f6ae5d2c1f4f1e","object":"chat.completion.chunk","created":1795000000,"model":"` + modelName + `","choices":[],"usage":`
	streamDone = "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
	stampBytes = 19 // digits of the time in nanoseconds
)

// appendUsage tells what vLLM tells by default; what of a prompt was cached is not part of it.
func appendUsage(b []byte, q asked, tokens int) []byte {
	prompt := q.length / 4
	return fmt.Appendf(b, `{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":null}`, prompt, prompt+tokens, tokens)
}

func (m *Mock) reply(c net.Conn, q asked) error {
	var room [1024]byte
	usage := appendUsage(room[512:512], q, 9)
	body := len(replyFirst) - len("\r\ncontent-type: application/json\r\n\r\n") + len(usage) + 1
	b := append(room[:0], replyHead...)
	b = strconv.AppendInt(b, int64(body), 10)
	out := make([]byte, 0, 1024)
	out = append(append(append(append(out, b...), replyFirst...), usage...), '}')
	_, err := c.Write(out)
	return err
}

// stream sends each event in a write of its own, as engines do, stamped with the time at which it left.
func (m *Mock) stream(c net.Conn, q asked) error {
	how := m.behaviour.Load()
	if _, err := io.WriteString(c, streamHead); err != nil {
		return err
	}
	if how.Hold > 0 {
		time.Sleep(how.Hold)
	}
	var room [512]byte
	next := time.Now()
	for i := range how.Events {
		if i > 0 && how.Pace > 0 {
			next = next.Add(how.Pace)
			time.Sleep(time.Until(next))
		}
		b := fmt.Appendf(room[:0], "%x\r\n", len(eventHead)+stampBytes+len(eventTail))
		b = append(b, eventHead...)
		b = strconv.AppendInt(b, time.Now().UnixNano(), 10)
		b = append(append(b, eventTail...), "\r\n"...)
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
	b := room[:0]
	if q.addUsage {
		usage := appendUsage(room[384:384], q, how.Events)
		b = fmt.Appendf(b, "%x\r\n", len(usageHead)+len(usage)+len("}\n\n"))
		b = append(append(append(b, usageHead...), usage...), "}\n\n\r\n"...)
	}
	_, err := c.Write(append(b, streamDone...))
	return err
}

// exposition is a metrics page of the size and shape that vLLM serves: some 50 KB, histograms most of it.
func exposition() []byte {
	var b bytes.Buffer
	gauge := func(name string, v float64) {
		fmt.Fprintf(&b, "# HELP %s A gauge.\n# TYPE %s gauge\n%s{engine=\"0\",model_name=\"%s\"} %v\n", name, name, name, modelName, v)
	}
	gauge("vllm:num_requests_running", 0)
	gauge("vllm:num_requests_waiting", 0)
	gauge("vllm:kv_cache_usage_perc", 0)
	gauge("vllm:prompt_tokens_total", 123456)
	fmt.Fprintf(&b, "# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{block_size=\"16\",engine=\"0\",num_gpu_blocks=\"25000\"} 1.0\n")
	for i := range 24 {
		name := fmt.Sprintf("vllm:histogram_%02d_seconds", i)
		fmt.Fprintf(&b, "# HELP %s Histogram of something in seconds.\n# TYPE %s histogram\n", name, name)
		for j := range 22 {
			fmt.Fprintf(&b, "%s_bucket{engine=\"0\",le=\"%v\",model_name=\"%s\"} %d.0\n", name, float64(j)*0.5, modelName, j*100)
		}
		fmt.Fprintf(&b, "%s_sum{engine=\"0\",model_name=\"%s\"} 12.5\n%s_count{engine=\"0\",model_name=\"%s\"} 2200.0\n", name, modelName, name, modelName)
	}
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", "text/plain; version=0.0.4; charset=utf-8", b.Len())
	return append([]byte(head), b.Bytes()...)
}

// mockGet asks a worker for one of the bench's own paths.
func mockGet(worker, path string) ([]byte, error) {
	r, err := http.Get(worker + path)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	return io.ReadAll(r.Body)
}
