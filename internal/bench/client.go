package bench

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"time"
)

// client is one connection of the load generator: it writes requests made beforehand and looks at no more of an answer than it must.
type client struct {
	addr string
	c    net.Conn
	buf  []byte
}

// answer is what came back.
type answer struct {
	head, first, end time.Duration // since the request was written; first is the first piece of the body
	events           int           // pieces of content in a stream
}

const (
	clientBufferBytes = 16 << 10
	requestTimeout    = 60 * time.Second
	carryBytes        = 64 // of a stream's tail, looked at again with what follows
)

func newClient(addr string) *client { return &client{addr: addr, buf: make([]byte, clientBufferBytes)} }

func (k *client) close() {
	if k.c != nil {
		k.c.Close()
		k.c = nil
	}
}

// ask sends a request and reads its answer to the end. onEvent, when not nil, is told how late each stamped event came.
func (k *client) ask(request []byte, onEvent func(late time.Duration)) (answer, error) {
	a, err := k.exchange(request, onEvent)
	if err != nil {
		k.close()
	}
	return a, err
}

func (k *client) exchange(request []byte, onEvent func(time.Duration)) (a answer, err error) {
	if k.c == nil {
		if k.c, err = net.Dial("tcp", k.addr); err != nil {
			return a, err
		}
		k.c.SetDeadline(time.Time{})
	}
	began := time.Now()
	if _, err = k.c.Write(request); err != nil {
		return a, err
	}
	n, end := 0, -1
	for end < 0 {
		got, err := k.c.Read(k.buf[n:])
		if got == 0 {
			return a, fmt.Errorf("before the head was whole: %w", cmpErr(err))
		}
		n += got
		end = bytes.Index(k.buf[:n], []byte("\r\n\r\n"))
	}
	a.head = time.Since(began)
	head := k.buf[:end+2]
	if len(head) < 12 || string(head[9:12]) != "200" {
		return a, fmt.Errorf("answered %s: %.300s", head[:bytes.IndexByte(head, '\r')], k.buf[end+4:n])
	}
	if bytes.Contains(bytes.ToLower(head), []byte("transfer-encoding: chunked")) {
		err = k.readChunked(&a, began, end+4, n, onEvent)
	} else {
		err = k.readLength(contentLength(head) - (n - end - 4))
	}
	a.end = time.Since(began)
	return a, err
}

func (k *client) readLength(left int) error {
	for left > 0 {
		got, err := k.c.Read(k.buf[:min(left, len(k.buf))])
		if got == 0 {
			return cmpErr(err)
		}
		left -= got
	}
	return nil
}

var (
	lastChunk = []byte("\r\n0\r\n\r\n")
	stampMark = []byte(`"content":"`)
)

// readChunked reads to the last chunk. Framing is not followed: no event contains what ends the stream.
func (k *client) readChunked(a *answer, began time.Time, from, n int, onEvent func(time.Duration)) error {
	if n > from {
		a.first = time.Since(began)
	}
	n = copy(k.buf, k.buf[from:n])
	for {
		used := k.events(a, n, onEvent)
		if n >= len(lastChunk) && bytes.Equal(k.buf[n-len(lastChunk):n], lastChunk) {
			return nil
		}
		keep := max(used, n-carryBytes)
		n = copy(k.buf, k.buf[keep:n])
		got, err := k.c.Read(k.buf[n:])
		if got == 0 {
			return fmt.Errorf("in a stream, after %d events: %w", a.events, cmpErr(err))
		}
		if a.first == 0 {
			a.first = time.Since(began)
		}
		n += got
	}
}

// events counts the stamped events in the buffer and returns how far it has looked.
func (k *client) events(a *answer, n int, onEvent func(time.Duration)) (used int) {
	var now int64
	for {
		i := bytes.Index(k.buf[used:n], stampMark)
		if i < 0 || used+i+len(stampMark)+stampBytes > n {
			return used
		}
		at := used + i + len(stampMark)
		used = at + stampBytes
		a.events++
		if onEvent == nil {
			continue
		}
		if sent, err := strconv.ParseInt(string(k.buf[at:used]), 10, 64); err == nil {
			if now == 0 {
				now = time.Now().UnixNano()
			}
			onEvent(time.Duration(now - sent))
		}
	}
}
