package downstream

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
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

	stepFunc, pushFunc func(fd uintptr) bool // made once, so that they allocate nothing
	within             bool                  // a step is running
	found              found                 // by it
	dry                bool                  // its last read took all that was there
	begun              bool                  // part of a head has come
	ended              bool                  // nothing more is to be read
	noticed            bool                  // left has woken us
	out                []byte                // what pushFunc has still to write
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
	c.stepFunc, c.pushFunc = c.step, c.push
	if c.number, err = s.watcher.Add(c.fd, c.left); err != nil {
		return nil, err
	}
	c.server.Follow(s.o.Context, c.life.End)
	return c, nil
}

func (c *conn) serve() {
	defer c.s.forget(c)
	handed := false
	defer func() {
		if !handed {
			c.s.clients.leave(c.nc.RemoteAddr())
		}
		c.server.Stop()
		c.life.End(nil)
		c.release()
		if !handed {
			c.nc.Close()
			c.s.watcher.Forget(c.number)
		}
	}()
	for {
		c.dry = false
		if err := c.raw.Read(c.stepFunc); err != nil {
			if c.woken(err) {
				continue
			}
			return
		}
		switch c.found {
		case gone:
			return
		case foreign:
			handed = c.handOver()
			return
		}
		if !c.answer(&c.head) { // its body is still to come: package net waits for that, and reads
			return
		}
	}
}

// found is what came of looking for a request.
type found uint8

const (
	partial found = iota // more bytes are needed
	ours
	foreign // for net/http, or for nobody
	gone
)

// step serves requests within one wait for the descriptor, as long as their bodies have come with their heads. False waits until there is
// more to read.
//
// A Go program reads first and waits when there is nothing; after every answer that is a system call for nothing. Here it is not needed:
// the runtime's poller is edge-triggered, forgets what it knows when a wait begins, and keeps every edge that comes while step is at
// work. So after a read that had room for more than came, bytes that come later have step called again, whether they come while a request
// is answered or while nobody looks. Nothing in here may use package net's reads, which would begin a wait of their own, or close the
// connection, which would wait for step. The end of the other side may share its edge with bytes: the watcher tells of it, see left.
func (c *conn) step(uintptr) bool {
	c.within = true
	waits := c.steps()
	c.within = false
	return !waits
}

func (c *conn) steps() (waits bool) {
	for {
		switch c.found = c.look(); {
		case c.found == partial:
			over := c.life.Err() != nil // what was sent before the end is still answered
			if (over || !c.dry) && c.fill() {
				continue
			}
			if over || c.ended {
				c.found = gone
				return false
			}
			c.dry = false // after the wait there is something
			if c.rest() {
				return true
			}
		case c.found != ours || int64(c.w-c.r) < c.head.length: // serve's
			return false
		case !c.answer(&c.head):
			c.found = gone
			return false
		}
	}
}

// look looks for a request in what was read. The bytes of one that is not ours stay in the buffer.
func (c *conn) look() found {
	b := c.buffered()
	if len(b) == 0 {
		return partial
	}
	end := headEnd(b)
	switch {
	case end == 0 && len(b) < bufferBytes:
		return partial
	case end == 0: // too long
		return foreign
	case !c.head.parse(b[:end]) || c.head.length > c.s.o.BodyBytesMax:
		return foreign
	}
	if !c.s.o.Listed {
		c.head.index()
	}
	c.r += end
	c.begun = false
	return ours
}

// fill reads once, behind what is there, and reports whether there is something new to look at: bytes, or the end.
func (c *conn) fill() bool {
	if c.held == nil {
		c.held, c.r, c.w = buffers.Get().(*[]byte), 0, 0
	} else if c.r > 0 {
		c.w = copy(*c.held, (*c.held)[c.r:c.w])
		c.r = 0
	}
	for {
		n, err := syscall.Read(c.fd, (*c.held)[c.w:])
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return false
		case err != nil || n <= 0:
			c.ended = true
			return false
		}
		c.idle.Store(busy)
		c.w += n
		c.dry = c.w < len(*c.held)
		return true
	}
}

// rest prepares for a wait and says whether there is to be one. While there are no bytes no buffer is held. The deadline between requests
// is set an eighth too far, and again only once it is nearer than it must be: setting it costs as much as the rest of a read.
func (c *conn) rest() bool {
	switch {
	case c.r < c.w:
		if !c.begun {
			c.begun = true
			c.deadline(c.s.o.HeadTimeout)
		}
	case !c.served:
		c.idle.Store(fresh)
		c.deadline(c.s.o.HeadTimeout)
	default:
		c.idle.Store(spare)
		c.wanted = c.until
		if wait, now := c.s.o.IdleTimeout, time.Now(); c.until.Sub(now) < wait {
			c.wanted = now.Add(wait + wait/8)
		}
	}
	if c.r == c.w {
		c.release()
	}
	c.arm()
	if c.s.ending.Load() && c.served && c.r == c.w {
		c.ended = true // EndKeepAlives may have looked before idle was set
	}
	// After arm: the end comes first and then its deadline, which arm may have undone.
	return !c.ended && c.life.Err() == nil
}

// left is the watcher's news that the client closed its side. A wait that knows nothing of it is woken.
func (c *conn) left() {
	c.life.End(errLeft)
	c.nc.SetReadDeadline(longPast)
}

// woken tells a wait that ended because of left from one that took too long, and puts the deadline right again.
func (c *conn) woken(err error) bool {
	if c.noticed || c.life.Err() == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	c.noticed = true
	return c.nc.SetReadDeadline(c.until) == nil
}

// longPast, as a deadline, wakes whoever waits.
var longPast = time.Unix(1, 0)

// hangUp ends a connection from outside its goroutine. It does not wait, as Close would for step.
func (c *conn) hangUp() {
	c.raw.Control(func(fd uintptr) { syscall.Shutdown(int(fd), syscall.SHUT_RDWR) })
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

func (c *conn) release() {
	if c.held != nil {
		buffers.Put(c.held)
		c.held, c.r, c.w = nil, 0, 0
	}
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
