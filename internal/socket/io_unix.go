//go:build unix

package socket

import (
	"io"
	"syscall"
)

// Quiet says that an idle connection is open and has nothing to read. Anything to read would be the end, or bytes
// nobody asked for: in both cases it is of no use. So a plain read does where a peek would. It is for whoever has an idle connection to
// himself: the descriptor is read past package net, at a third of the cost, and must not be closed meanwhile.
func (c *Conn) Quiet() bool {
	_, err := syscall.Read(c.fd, c.probeByte[:])
	return err == syscall.EAGAIN
}

// Attend calls step, and again each time there may be more to read, until it returns true. While step is at work nothing is lost:
// bytes that come then have it called again. An error is that of the wait in between: a deadline, or a connection that was closed.
// step must not call Read, Quiet or Close.
func (c *Conn) Attend(step func() bool) error {
	c.step = step
	defer func() { c.step = nil }()
	for {
		c.spent = false
		if err := c.raw.Read(c.stepFunc); err == nil || !c.woken(err) {
			return err
		}
	}
}

func (c *Conn) run(uintptr) bool {
	if c.step() {
		return true
	}
	c.spent = false // after the wait there is something
	return false
}

// Try, for Attend's step, reads what is there. With nothing there it returns 0 and no error, and step is to return false. The end is
// io.EOF.
func (c *Conn) Try(p []byte) (int, error) {
	for {
		if c.spent {
			// In this order: a deadline that is set may undo the one by which end wakes us.
			if err := c.bound(); err != nil || !c.ended.Load() {
				return 0, err
			}
		}
		n, err := syscall.Read(c.fd, p)
		switch {
		case n > 0:
			c.spent = n < len(p)
			return n, nil
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return 0, c.bound()
		case err != nil:
			return 0, err
		default:
			return 0, io.EOF
		}
	}
}

// Push, for Attend's step, writes what the kernel takes at once and returns the rest. When an answer can only come after it, there is
// nothing to read yet.
func (c *Conn) Push(b []byte) (rest []byte, err error) {
	for len(b) > 0 {
		n, err := syscall.Write(c.fd, b)
		if n > 0 {
			b = b[n:]
		}
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return b, nil
		case err != nil:
			return b, err
		case n == 0:
			return b, io.ErrUnexpectedEOF
		}
	}
	c.spent = true
	return nil, nil
}
