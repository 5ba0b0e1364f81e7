package downstream

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/internal/life"
)

// bufferBytes is the size of read and write buffers.
const bufferBytes = 8 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, bufferBytes); return &b }}

const (
	// unreadBytesMax is how much of a body that the handler left is read, to keep the connection.
	unreadBytesMax = 256 << 10
	// lingerTime is how long a connection with bytes on their way is kept from being reset, so that its client reads the answer.
	lingerTime = 500 * time.Millisecond
)

// conn is one client's connection. Its goroutine reads heads and runs the handler.
type conn struct {
	s      *Server
	nc     *net.TCPConn
	raw    syscall.RawConn
	fd     int
	life   life.Context  // of every request
	server life.Watch    // whose end is theirs
	number uint64        // of the watch
	base   *http.Request // what every request of this connection begins as
	head   head          // of the request, in memory that is used again
	req    http.Request  // likewise
	until  time.Time     // the read deadline in force, zero is none
	wanted time.Time     // and the one that the next read that waits is to have
	idle   atomic.Int32  // busy, fresh, spare or stale
	// surplus: not kept after an answer, because there are too many. noted: when it was stale first; dropped: closed for another's sake;
	// the server's lock guards them.
	surplus, dropped bool
	noted            time.Time
	served           bool // at least one request

	held  *[]byte // the buffer, nil while there is nothing in it
	r, w  int     // held[r:w] is read and not used
	body  body
	reply reply

	fillFunc, pushFunc func(fd uintptr) bool // made once, so that they allocate nothing
	filled             int
	fillErr            error
	out                []byte // what pushFunc has still to write
}

// errLeft is why the requests of a connection end when its client closes it.
var errLeft = context.Canceled

func newConn(s *Server, nc *net.TCPConn) (*conn, error) {
	raw, err := nc.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &conn{s: s, nc: nc, raw: raw}
	c.head.byName = http.Header{}
	if err := raw.Control(func(fd uintptr) { c.fd = int(fd) }); err != nil {
		return nil, err
	}
	c.base = (&http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RemoteAddr: nc.RemoteAddr().String()}).WithContext(&c.life)
	c.body.c, c.reply.c = c, c
	c.fillFunc, c.pushFunc = c.fill, c.push
	if c.number, err = s.watcher.Add(c.fd, func() { c.life.End(errLeft) }); err != nil {
		return nil, err
	}
	c.server.Follow(s.o.Context, c.life.End)
	return c, nil
}

func (c *conn) serve() {
	defer c.s.forget(c)
	handed := false
	defer func() {
		c.server.Stop()
		c.life.End(nil)
		c.release()
		if !handed {
			c.nc.Close()
			c.s.watcher.Forget(c.number)
		}
	}()
	for {
		switch c.next() {
		case gone:
			return
		case foreign:
			handed = true
			c.handOver()
			return
		}
		if !c.answer(&c.head) {
			return
		}
	}
}

// found is what came of waiting for a request.
type found uint8

const (
	ours    found = iota
	foreign       // for net/http
	gone
)

// next waits for the next request's head. The bytes of one that is not ours stay in the buffer.
func (c *conn) next() found {
	begun := false
	for {
		if b := c.buffered(); len(b) > 0 {
			end := bytes.Index(b, []byte("\r\n\r\n"))
			if end >= 0 {
				if !c.head.parse(b[:end+4]) || c.head.length > c.s.o.BodyBytesMax {
					return foreign
				}
				if !c.s.o.Listed {
					c.head.index()
				}
				c.r += end + 4
				return ours
			}
			if line := bytes.IndexByte(b, '\n'); len(b) == bufferBytes || line >= 0 && (line == 0 || b[line-1] != '\r') {
				return foreign // too long, or with other line ends than ours: net/http knows when it is whole
			}
			if !begun {
				begun = true
				c.deadline(c.s.o.HeadTimeout)
			}
		} else {
			c.rest()
		}
		if err := c.read(); err != nil {
			return gone
		}
		c.idle.Store(busy)
	}
}

// rest prepares for the wait between requests. The deadline is set an eighth too far, and again only once it is nearer than it must be:
// setting it costs as much as the rest of a read.
func (c *conn) rest() {
	if c.served {
		c.idle.Store(spare)
	} else {
		c.idle.Store(fresh)
	}
	if wait := c.s.o.IdleTimeout; !c.served {
		c.deadline(c.s.o.HeadTimeout)
	} else if now := time.Now(); c.until.Sub(now) < wait {
		c.wanted = now.Add(wait + wait/8)
	} else {
		c.wanted = c.until
	}
	if !c.s.lasting.Load() {
		c.nc.Close() // EndKeepAlives may have looked before idle was set
	}
}

func (c *conn) deadline(after time.Duration) { c.wanted = time.Now().Add(after) }

// arm puts the read deadline that is wanted in force. Requests whose bytes are all there already never come here.
func (c *conn) arm() {
	if c.until != c.wanted {
		c.until = c.wanted
		c.nc.SetReadDeadline(c.until)
	}
}

func (c *conn) buffered() []byte {
	if c.held == nil {
		return nil
	}
	return (*c.held)[c.r:c.w]
}

// read waits for bytes and reads them behind those that are there. While it waits and there are none, no buffer is held.
func (c *conn) read() error {
	if c.r == c.w {
		c.release()
	} else if c.r > 0 {
		c.w = copy(*c.held, (*c.held)[c.r:c.w])
		c.r = 0
	}
	c.filled, c.fillErr = 0, nil
	c.arm()
	if err := c.raw.Read(c.fillFunc); err != nil {
		return err
	}
	if c.fillErr != nil {
		return c.fillErr
	}
	if c.filled <= 0 {
		return io.EOF
	}
	return nil
}

// fill is one try of read; false waits until the descriptor is readable.
func (c *conn) fill(fd uintptr) bool {
	if c.held == nil {
		c.held, c.r, c.w = buffers.Get().(*[]byte), 0, 0
	}
	for {
		n, err := syscall.Read(int(fd), (*c.held)[c.w:])
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			if c.w == 0 {
				c.release()
			}
			return false
		case err != nil:
			c.fillErr = err
			return true
		}
		c.filled = n
		c.w += max(n, 0)
		return true
	}
}

// push is one try of a write of what is in out; it never waits.
func (c *conn) push(fd uintptr) bool {
	n, err := syscall.Write(int(fd), c.out)
	if err == nil && n > 0 {
		c.out = c.out[n:]
	}
	return true
}

// write sends p. Only when the client takes less than all of it at once is there a wait to bound, by the deadline until, or by limit.
func (c *conn) write(p []byte, until time.Time, limit time.Duration) error {
	c.out = p
	err := c.raw.Write(c.pushFunc)
	p, c.out = c.out, nil
	if err != nil || len(p) == 0 {
		return err
	}
	if until.IsZero() && limit > 0 {
		until = time.Now().Add(limit)
	}
	if !until.IsZero() {
		c.nc.SetWriteDeadline(until)
		defer c.nc.SetWriteDeadline(time.Time{})
	}
	_, err = c.nc.Write(p)
	return err
}

func (c *conn) release() {
	if c.held != nil {
		buffers.Put(c.held)
		c.held, c.r, c.w = nil, 0, 0
	}
}

// handOver gives the connection to net/http, with what was read of it.
func (c *conn) handOver() {
	c.s.watcher.Remove(c.fd, c.number)
	c.nc.SetReadDeadline(time.Time{})
	c.s.handover.give(&replayed{TCPConn: c.nc, head: bytes.Clone(c.buffered())})
}

// answer runs the handler for one request and reports whether the connection can carry another.
func (c *conn) answer(h *head) bool {
	c.served = true
	r := &c.req
	*r = *c.base
	r.Method, r.RequestURI, r.Host, r.Header, r.ContentLength, r.Close = h.method, h.target, h.host, h.byName, h.length, h.close
	r.URL = &h.path
	r.Body = http.NoBody
	c.body.left, c.body.err = h.length, nil
	if h.length > 0 {
		r.Body = &c.body
		if int64(c.w-c.r) < h.length {
			c.wanted = time.Time{} // a slow upload is no idle connection
		}
	}
	c.reply.begin(h)
	if !c.run(r) {
		return false
	}
	return c.reply.end() && c.drained()
}

// run calls the handler. A panic ends the connection without a clean end; http.ErrAbortHandler does so on purpose.
func (c *conn) run(r *http.Request) (whole bool) {
	defer func() {
		if whole {
			return
		}
		if v := recover(); v != http.ErrAbortHandler {
			c.s.o.Log.Error("panic while serving a request", slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
		} else {
			c.reply.abort()
		}
	}()
	c.s.o.Handler.ServeHTTP(&c.reply, r)
	return true
}

// drained reads what the handler left of a body, within a bound, and otherwise closes in a way that lets the answer arrive.
func (c *conn) drained() bool {
	if c.body.left == 0 {
		return !c.reply.close
	}
	if !c.reply.close && c.body.left <= unreadBytesMax {
		c.deadline(c.s.o.HeadTimeout)
		_, err := io.Copy(io.Discard, &c.body)
		return err == nil
	}
	c.nc.CloseWrite()
	c.deadline(lingerTime)
	io.Copy(io.Discard, &c.body)
	return false
}

// body is the body of the request that is being answered.
type body struct {
	c    *conn
	left int64
	err  error
}

// Read implements io.Reader. What is in the buffer comes first; then it reads straight into p.
func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	if b.err != nil {
		return 0, b.err
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	c := b.c
	n := copy(p, c.buffered())
	if n > 0 {
		if c.r += n; c.r == c.w {
			c.release()
		}
	} else if len(p) > 0 {
		c.arm()
		var err error
		if n, err = c.nc.Read(p); err != nil && n == 0 {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			b.err = err
			return 0, err
		}
	}
	b.left -= int64(n)
	return n, nil
}

// Here says that what is left of the body has come already.
func (b *body) Here() bool { return int64(b.c.w-b.c.r) >= b.left }

// Close implements io.Closer. The rest is the server's to deal with.
func (b *body) Close() error { return nil }
