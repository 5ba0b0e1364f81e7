package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/life"
)

// writerGrace is how long the end of an answer waits for the end of a body still being written, before it gives up the
// connection.
const writerGrace = 5 * time.Millisecond

// exchange is one request and its answer on one connection. It is the Body of its Response.
//
// Three parties touch it: the caller (everything), the writer of a large body (sent, touched, writeErr before written is
// closed), and the end of the context (only closes the connection).
type exchange struct {
	client *lean
	c      *conn
	req    *Request
	ctx    context.Context
	reused bool

	watch    life.Watch // of ctx, for abort
	begun    bool       // send was called
	sendErr  error
	head     head
	headErr  error
	interim  int         // answers before the final one
	sent     atomic.Bool // the whole request was written
	touched  atomic.Bool // BodyReader was read
	headCame atomic.Bool
	answered bool          // some byte of an answer came
	written  chan struct{} // closed when the writer in the background is done; nil without one
	writeErr error

	resp    Response
	framing framing
	each    func(piece []byte) error // of the Each that is running, and what it returned
	eachErr error
	lent    []byte // decoded body bytes not handed out yet
	err     error  // what comes after lent
	over    bool   // the connection is no longer ours
}

// run sends the request and waits for the head of the final answer.
func (x *exchange) run() (*Response, *Error) {
	x.c.x = x
	x.c.rd.take()
	x.watch.Follow(x.ctx, x.c.aborts)
	err := x.c.Attend(x.c.opens)
	x.answered = x.c.rd.came
	if err = cmp.Or(x.headErr, err); err != nil {
		if x.sendErr != nil && !x.answered {
			err = x.sendErr
		}
		return nil, x.broken(err)
	}
	if over := contextEnd(x.ctx); over != nil { // a worker that sees us leave may end its answer in good order, and that is none
		return nil, x.broken(over)
	}
	h := &x.head
	x.headCame.Store(true)
	if x.sendErr != nil {
		h.keep = false
	}
	x.c.SetWait(x.client.o.IdleGap)
	x.c.respectKeepAlive(h.keepAlive)
	x.framing = newFraming(h, x.req.Method, x.client.o.HeadBytesMax)
	x.resp = Response{Status: h.status, Header: h.header, ContentLength: h.length, Body: x, Reused: x.reused}
	if x.framing.state == untilClose {
		h.keep = false
	}
	if !h.keep {
		x.c.lifetime = 0
	}
	if x.framing.state == ended {
		x.err = io.EOF
		x.finish(true)
	}
	return &x.resp, nil
}

// open is the step of run: it sends the request, and then reads heads until one is final.
func (x *exchange) open() bool {
	if !x.begun {
		x.begun = true
		x.sendErr = x.send()
		if x.sendErr != nil {
			x.c.SetDeadline(lastWordsWait)
		} else if x.client.o.HeaderTimeout > 0 {
			x.c.SetDeadline(x.client.o.HeaderTimeout)
		}
		if x.req.Sent != nil && x.sendErr == nil {
			x.req.Sent()
		}
	}
	for {
		whole, err := x.final()
		if whole || err != nil {
			x.headErr = err
			return true
		}
		n, err := x.c.Try(x.c.rd.free())
		x.c.rd.took(n)
		if err != nil {
			x.headErr = err
			return true
		}
		if n == 0 {
			return false
		}
	}
}

// final parses the heads that have come, until one is final.
func (x *exchange) final() (bool, error) {
	for {
		b, err := x.c.rd.head(x.client.o.HeadBytesMax)
		if b == nil || err != nil {
			return false, err
		}
		if x.head, err = parseHead(b); err != nil || x.head.status >= 200 {
			return true, err
		}
		if x.head.status == http.StatusSwitchingProtocols {
			return false, shapeError("status 101 without an Upgrade having been asked for")
		}
		if x.interim++; x.interim == interimMax {
			return false, shapeError(fmt.Sprintf("more than %d interim answers", interimMax))
		}
	}
}

// abort runs when the context ends. Half a request is cut off with a reset, so that the worker need not read up to its
// end to learn of it; after a whole one an ordinary close is what every server watches for.
func (c *conn) abort(error) { c.Abort(!c.x.sent.Load()) }

// broken ends the exchange after an error and describes it.
func (x *exchange) broken(err error) *Error {
	stalled := false // the worker took no more of the request
	if errors.Is(err, net.ErrClosed) && x.written != nil {
		select {
		case <-x.written: // it closed the connection under the reader, unless it was abort
			err = cmp.Or(x.writeErr, err)
			stalled = true
		default:
		}
	}
	x.finish(false)
	e := &Error{Reused: x.reused, Sent: x.sent.Load(), URL: x.client.base.name}
	e.Class, e.Err = classify(x.ctx, err)
	switch {
	case e.Class != Timeout:
	case stalled || x.headCame.Load():
		e.Err = silence("progress", x.client.o.IdleGap, "idle gap", e.Err)
	default:
		e.Err = silence("whole head", x.client.o.HeaderTimeout, "header timeout", e.Err)
	}
	return e
}

// repeatable says that the body can be sent once more.
func (x *exchange) repeatable() bool {
	return !x.req.streams() || !x.touched.Load() || x.req.Reopen != nil
}

// finish gives the connection back when the exchange went cleanly to its end, and closes it otherwise. Afterwards
// nobody reads Request.Body any more.
func (x *exchange) finish(clean bool) {
	if x.over {
		return
	}
	x.over = true
	c := x.c
	if clean && x.written != nil {
		x.awaitWriter()
	}
	keep := clean && c.lifetime > 0 && len(c.rd.buffered()) == 0 && x.sent.Load() && !c.Ended()
	if !x.watch.Stop() {
		keep = false // abort has closed it, or is about to
	}
	c.rd.release()
	if keep {
		c.SetWait(0)
		if x.written != nil {
			c.SetWriteDeadline(time.Time{})
		}
		x.client.pool.put(c)
		return
	}
	if !x.sent.Load() {
		c.SetLinger(0)
	}
	c.Close()
	if x.written != nil && !x.req.streams() {
		<-x.written // at once: its write fails with the connection closed
	}
}

// awaitWriter gives the writer the moment it needs to notice that it is done: a worker that has read everything may
// have answered before the writer is scheduled again.
func (x *exchange) awaitWriter() {
	grace := time.NewTimer(writerGrace)
	defer grace.Stop()
	select {
	case <-x.written:
	case <-grace.C:
	}
}

// Each implements Body. Where no read can be spared, or the worker has not taken all of the request, it is a loop of Next.
func (x *exchange) Each(f func(piece []byte) error) error {
	if !x.c.Watched() || !x.sent.Load() || x.over {
		return eachNext(x, f)
	}
	x.each = f
	err := x.c.Attend(x.c.hands)
	x.each = nil
	if err != nil && x.err == nil && x.eachErr == nil {
		x.ends(err)
	}
	if err := x.eachErr; err != nil {
		x.eachErr = nil
		return err
	}
	if err := x.fail(); err != io.EOF {
		return err
	}
	return nil
}

// hand is the step of Each: it hands out what is there.
func (x *exchange) hand() bool {
	for {
		if len(x.lent) == 0 && x.err == nil {
			x.decode()
		}
		if p := x.lent; len(p) > 0 {
			x.lent = nil
			if x.eachErr = x.each(p); x.eachErr != nil {
				return true
			}
			continue
		}
		if x.err != nil {
			return true
		}
		n, err := x.c.Try(x.c.rd.free())
		x.c.rd.took(n)
		if err != nil {
			x.ends(err)
		} else if n == 0 {
			return false
		}
	}
}

func (x *exchange) Next() ([]byte, error) {
	for len(x.lent) == 0 {
		if x.err != nil {
			return nil, x.fail()
		}
		if x.decode(); len(x.lent) > 0 || x.err != nil {
			continue
		}
		if err := x.c.rd.fill(); err != nil {
			x.ends(err)
		}
	}
	p := x.lent
	x.lent = nil
	return p, nil
}

// decode takes what the buffer holds.
func (x *exchange) decode() {
	var err error
	x.lent, err = x.framing.take(&x.c.rd)
	if err != nil {
		x.err = err
	} else if x.framing.state == ended {
		x.err = io.EOF
	}
}

// ends notes a failed read: the end of a body that lasts as long as its connection, or a broken one.
func (x *exchange) ends(err error) {
	if err == io.EOF {
		err = x.framing.close()
	}
	if err == nil {
		err = io.EOF
	}
	x.err = err
}

// fail ends the exchange with x.err and turns that into what the caller is told, now and ever after.
func (x *exchange) fail() error {
	if x.err == io.EOF && x.resp.ContentLength < 0 && !x.over {
		x.err = cmp.Or(contextEnd(x.ctx), x.err) // as in run: without a length only the worker's word says that it is whole
	}
	if x.err == io.EOF {
		x.finish(true)
	} else if _, told := x.err.(*Error); !told {
		x.err = x.broken(x.err)
	}
	return x.err
}

func (x *exchange) More() bool {
	if len(x.lent) == 0 && x.err == nil {
		x.decode()
	}
	return len(x.lent) > 0 || x.err != nil
}

func (x *exchange) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if !x.More() && len(p) >= bufferBytes/4 && (x.framing.state == inLength || x.framing.state == untilClose) {
		return x.readDirect(p)
	}
	b, err := x.Next()
	n := copy(p, b)
	x.lent = b[n:]
	return n, err
}

// readDirect reads a body without framing inside straight into the caller's memory.
func (x *exchange) readDirect(p []byte) (int, error) {
	if x.framing.state == inLength {
		p = p[:min(int64(len(p)), x.framing.left)]
	}
	n, err := x.c.Read(p)
	if x.framing.state == inLength {
		x.framing.advance(n)
		if x.framing.state == ended {
			x.err = io.EOF
		}
	}
	if n == 0 && err != nil {
		x.ends(err)
		return 0, x.fail()
	}
	return n, nil
}

func (x *exchange) Close() error {
	if x.over {
		return nil
	}
	if x.err == nil {
		x.More() // the end may be at hand already
	}
	clean := x.err == io.EOF
	x.lent, x.err = nil, &Error{Class: Cancelled, Reused: x.reused, Sent: x.sent.Load(), URL: x.client.base.name, Err: errClosedBody}
	x.finish(clean)
	return nil
}
