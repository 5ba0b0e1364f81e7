package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"time"
)

// client is one connection of the load generator: it writes requests made beforehand and looks at no more of an answer than it must.
type client struct {
	addr string
	c    net.Conn
	r    *bufio.Reader
	buf  []byte
}

// answer is what came back.
type answer struct {
	head, first, end time.Duration // since the request was written; first is the first piece of the body
	events           int           // pieces of content in a stream
}

const (
	clientBufferBytes = 16 << 10
	carryBytes        = 64 // of a stream's tail, looked at again with what follows
)

func newClient(addr string) *client { return &client{addr: addr, buf: make([]byte, clientBufferBytes)} }

func (k *client) dial() (err error) {
	if k.c, err = net.Dial("tcp", k.addr); err == nil {
		k.r = bufio.NewReaderSize(k.c, len(k.buf))
	}
	return err
}

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
		if err = k.dial(); err != nil {
			return a, err
		}
	}
	began := time.Now()
	if _, err = k.c.Write(request); err != nil {
		return a, err
	}
	length, chunked := 0, false
	for first := true; ; first = false {
		line, err := k.r.ReadSlice('\n')
		switch {
		case err != nil:
			return a, fmt.Errorf("before the head was whole: %w", err)
		case first && (len(line) < 12 || string(line[9:12]) != "200"):
			return a, fmt.Errorf("answered %s", line)
		case !first && bytes.EqualFold(line, []byte("transfer-encoding: chunked\r\n")):
			chunked = true
		case !first:
			length += contentLength(line[:len(line)-2])
		}
		if len(line) <= 2 {
			break
		}
	}
	a.head = time.Since(began)
	if chunked {
		err = k.readChunked(&a, began, onEvent)
	} else {
		_, err = k.r.Discard(length)
	}
	a.end = time.Since(began)
	return a, err
}

var stampMark = []byte(`"content":"`)

func (k *client) readChunked(a *answer, began time.Time, onEvent func(time.Duration)) error {
	body, n := httputil.NewChunkedReader(k.r), 0
	for {
		got, err := body.Read(k.buf[n:])
		if a.first == 0 {
			a.first = time.Since(began)
		}
		n += got
		used := k.events(a, n, onEvent)
		n = copy(k.buf, k.buf[max(used, n-carryBytes):n])
		if err == io.EOF {
			_, err = k.r.Discard(2) // the end of the trailers
			return err
		}
		if err != nil {
			return fmt.Errorf("in a stream, after %d events: %w", a.events, err)
		}
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
