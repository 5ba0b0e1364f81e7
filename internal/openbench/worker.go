package openbench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A stream is asked for in the words of its prompt, "stream 17 events 40 pace 1000", with the pace in milliseconds. Its event i is
// eventOf(17, i, when), so that whoever asked knows every byte but the time that stands in it.

// plan is one stream.
type plan struct {
	number, events int
	pace           time.Duration
}

func (p plan) String() string {
	return fmt.Sprintf("stream %d events %d pace %d", p.number, p.events, p.pace.Milliseconds())
}

// planOf reads a plan out of a request's body; false: there is none in it.
func planOf(body []byte) (p plan, ok bool) {
	var pace int
	at := bytes.Index(body, []byte("stream "))
	for ; at >= 0; at = next(body, at) {
		if n, _ := fmt.Sscanf(string(body[at:min(len(body), at+80)]), "stream %d events %d pace %d", &p.number, &p.events, &pace); n == 3 {
			p.pace = time.Duration(pace) * time.Millisecond
			return p, true
		}
	}
	return p, false
}

func next(body []byte, at int) int {
	if i := bytes.Index(body[at+1:], []byte("stream ")); i >= 0 {
		return at + 1 + i
	}
	return -1
}

const (
	modelName = "many"
	doneEvent = "data: [DONE]\n\n"
	// stampDigits are those of Unix nanoseconds until the year 2286.
	stampDigits = 19
)

// appendEvent appends an event of a stream, written at that time.
func appendEvent(b []byte, number, event int, at int64) []byte {
	b = append(b, `data: {"id":"s-`...)
	b = strconv.AppendInt(b, int64(number), 10)
	b = append(b, `","object":"chat.completion.chunk","created":1795000000,"model":"`+modelName+`","choices":[{"index":0,"delta":{"content":"event `...)
	b = strconv.AppendInt(b, int64(event), 10)
	b = append(b, ` at `...)
	b = strconv.AppendInt(b, at, 10)
	return append(b, `"},"finish_reason":null}]}`+"\n\n"...)
}

// worker is cheap mock workers: no net/http on the way of a stream, and no buffer while it waits for its next event.
type worker struct {
	listeners []net.Listener
	running   sync.WaitGroup
	buffers   sync.Pool

	mu    sync.Mutex
	conns map[net.Conn]bool
}

func startWorker(n int) (*worker, error) {
	w := &worker{conns: map[net.Conn]bool{}}
	w.buffers.New = func() any { b := make([]byte, 8<<10); return &b }
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			w.close()
			return nil, err
		}
		w.listeners = append(w.listeners, l)
		w.running.Go(func() { w.accept(l) })
	}
	return w, nil
}

func (w *worker) urls() (all []string) {
	for _, l := range w.listeners {
		all = append(all, "http://"+l.Addr().String())
	}
	return all
}

func (w *worker) close() {
	for _, l := range w.listeners {
		l.Close()
	}
	w.mu.Lock()
	for c := range w.conns {
		c.Close()
	}
	w.mu.Unlock()
	w.running.Wait()
}

func (w *worker) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		w.mu.Lock()
		w.conns[c] = true
		w.mu.Unlock()
		w.running.Go(func() {
			for w.one(c) == nil {
			}
			c.Close()
			w.mu.Lock()
			delete(w.conns, c)
			w.mu.Unlock()
		})
	}
}

// one answers one request.
func (w *worker) one(c net.Conn) error {
	held := w.buffers.Get().(*[]byte)
	target, p, streams, err := ask(c, *held)
	w.buffers.Put(held)
	switch {
	case err != nil:
		return err
	case streams:
		return w.stream(c, p)
	case strings.HasPrefix(target, "/v1/models"):
		_, err = io.WriteString(c, answer(`{"object":"list","data":[{"id":"`+modelName+`","object":"model","max_model_len":100000}]}`))
	default:
		_, err = io.WriteString(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
	}
	return err
}

func answer(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// ask reads one request, whose head and body must fit the buffer.
func ask(c net.Conn, buf []byte) (target string, p plan, streams bool, err error) {
	n, end, length := 0, -1, 0
	for end < 0 || n < end+length {
		k, err := c.Read(buf[n:])
		if k == 0 {
			return "", p, false, errors.Join(err, io.ErrUnexpectedEOF)
		}
		n += k
		if end >= 0 {
			continue
		}
		if end = bytes.Index(buf[:n], []byte("\r\n\r\n")); end >= 0 {
			end += 4
			length = lengthIn(buf[:end])
		}
	}
	if words := bytes.Fields(buf[:bytes.IndexByte(buf, '\r')]); len(words) > 1 {
		target = string(words[1])
	}
	p, streams = planOf(buf[end:n])
	return target, p, streams, nil
}

// lengthIn finds a head's Content-Length, 0 without one.
func lengthIn(head []byte) (n int) {
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.EqualFold(name, []byte("Content-Length")) {
			n, _ = strconv.Atoi(string(bytes.TrimSpace(value)))
		}
	}
	return n
}

func (w *worker) stream(c net.Conn, p plan) error {
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
		return err
	}
	due := time.Now()
	var room, framed [320]byte
	for i := range p.events {
		if i > 0 {
			due = due.Add(p.pace)
			time.Sleep(time.Until(due))
		}
		event := appendEvent(room[:0], p.number, i, time.Now().UnixNano())
		if _, err := c.Write(chunk(framed[:0], event)); err != nil {
			return err
		}
	}
	_, err := c.Write(append(chunk(framed[:0], []byte(doneEvent)), "0\r\n\r\n"...))
	return err
}

func chunk(b, data []byte) []byte {
	b = append(strconv.AppendInt(b, int64(len(data)), 16), "\r\n"...)
	return append(append(b, data...), "\r\n"...)
}
