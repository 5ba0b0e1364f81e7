// Package socket is what our HTTP client and server need of a TCP connection beside what package net gives: reading as it becomes
// readable without asking in vain, and news of the other side's end though nobody reads.
//
// A Go program reads first and waits when there is nothing: between two events of a stream that is a system call for nothing, each
// time. Within one Attend it is not needed: the runtime's poller keeps what became readable while step was at work, so a read that
// came back with less than it had room for is reason enough to wait.
//
//	err := c.Attend(func() bool {
//		for {
//			n, err := c.Try(buf)
//			if n == 0 && err == nil {
//				return false // wait
//			}
//			use(buf[:n])
//			...
//		}
//	})
package socket

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// Conn is one TCP connection. One goroutine at a time reads from it; any may abort or close it.
type Conn struct {
	*net.TCPConn
	raw     syscall.RawConn
	watcher *Watcher
	number  uint64      // of the watch
	ended   atomic.Bool // the other side closed, or nobody would tell: no wait without a read that found nothing
	noted   bool        // the reader has been woken for it

	wait  time.Duration // bound of one read, 0 is none
	until time.Time     // the read deadline in force, zero is none

	fd        int
	stepFunc  func(fd uintptr) bool // made once, so that it allocates nothing
	probeByte [1]byte

	counted atomic.Bool // among those open

	step  func() bool // of the Attend that is running
	spent bool        // all that there was has been read; what comes now will wake us
}

// New makes a Conn of nc. Without a watcher, or with one that was closed, it works as well, with more system calls.
func New(nc *net.TCPConn, w *Watcher) (*Conn, error) {
	raw, err := nc.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &Conn{TCPConn: nc, raw: raw}
	c.stepFunc = c.run
	c.ended.Store(true)
	if err := raw.Control(func(fd uintptr) { c.fd = int(fd) }); err != nil {
		return nil, err
	}
	if w == nil {
		c.count()
		return c, nil
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		c.ended.Store(false)
		if c.number, failed = w.Add(int(fd), c.end); failed != nil {
			c.ended.Store(true)
			return
		}
		c.watcher = w
	})
	if err == nil {
		c.count()
	}
	return c, err
}

// long past, as a deadline, wakes whoever waits.
var longPast = time.Unix(1, 0)

// end is the watcher's news. Data and the end may have come as one edge, and the reader waits for another: it is woken.
func (c *Conn) end() {
	c.ended.Store(true)
	c.TCPConn.SetReadDeadline(longPast)
}

// woken tells a wait that ended because of end from one that took too long, and puts the deadline right again.
func (c *Conn) woken(err error) bool {
	if c.noted || !c.ended.Load() || c.watcher == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	c.noted = true
	return c.TCPConn.SetReadDeadline(c.until) == nil
}

// Ended says that the other side is known to have closed.
func (c *Conn) Ended() bool { return c.watcher != nil && c.ended.Load() }

// Watched says that Try spares reads.
func (c *Conn) Watched() bool { return !c.ended.Load() }

// Read reads from the socket, within the bound in force.
func (c *Conn) Read(p []byte) (int, error) {
	if err := c.bound(); err != nil {
		return 0, err
	}
	for {
		n, err := c.TCPConn.Read(p)
		if err == nil || n > 0 || !c.woken(err) {
			return n, err
		}
	}
}

// bound moves the deadline, an eighth too far, so that a stream of small reads moves it once in a while only: moving it costs as much
// as the rest of a read.
func (c *Conn) bound() error {
	if c.wait <= 0 {
		return nil
	}
	now := time.Now()
	if c.until.Sub(now) >= c.wait {
		return nil
	}
	c.until = now.Add(c.wait + c.wait/8)
	return c.TCPConn.SetReadDeadline(c.until)
}

// SetDeadline bounds all reads together until the next SetWait: a head that comes byte by byte is late too.
func (c *Conn) SetDeadline(after time.Duration) {
	c.wait, c.until = 0, time.Now().Add(after)
	c.TCPConn.SetReadDeadline(c.until) // a closed connection says so at the next read
}

// SetWait bounds each of the reads to come; 0 or less is no bound.
func (c *Conn) SetWait(wait time.Duration) {
	wait = max(wait, 0)
	if wait > 0 && c.wait == wait {
		return
	}
	c.wait = wait
	if !c.until.IsZero() {
		c.until = time.Time{}
		c.TCPConn.SetReadDeadline(time.Time{})
	}
}

// Close closes the connection. Within Attend's step it would wait for itself; there Abort is for.
func (c *Conn) Close() error {
	if c.watcher != nil {
		c.watcher.Forget(c.number)
	}
	if c.counted.CompareAndSwap(true, false) {
		open.Add(-1)
	}
	return c.TCPConn.Close()
}

// Abort closes the connection from another goroutine, and does not wait. The other side learns of it at once, even while a step is at
// work elsewhere and keeps the descriptor open. With reset it is told that what it got is not whole.
func (c *Conn) Abort(reset bool) {
	if reset {
		c.SetLinger(0)
	} else {
		c.CloseWrite()
	}
	go c.Close() // it returns when nobody uses the descriptor any more
}
