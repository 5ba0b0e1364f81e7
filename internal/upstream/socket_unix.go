//go:build unix

package upstream

import (
	"io"
	"syscall"
)

// socket does single system calls on the connection's descriptor, without waiting. The functions it hands to
// RawConn are made once per connection, so a call allocates nothing.
type socket struct {
	probeFunc, pushFunc func(fd uintptr) bool
	probeByte           [1]byte
	quiet               bool
	out                 []byte
	pushErr             error
}

func (s *socket) bind() {
	s.probeFunc = s.probe
	s.pushFunc = s.pushOut
}

// quiet says that an idle connection is open and has nothing to read. Anything to read would be the end, or bytes
// nobody asked for: in both cases it is of no use. So a plain read does where a peek would.
func (c *conn) quiet() bool {
	c.sock.quiet = false
	return c.raw.Read(c.sock.probeFunc) == nil && c.sock.quiet
}

func (s *socket) probe(fd uintptr) bool {
	_, err := syscall.Read(int(fd), s.probeByte[:])
	s.quiet = err == syscall.EAGAIN
	return true
}

// push writes what the kernel takes at once and returns the rest.
func (c *conn) push(b []byte) (rest []byte, err error) {
	c.sock.out, c.sock.pushErr = b, nil
	err = c.raw.Write(c.sock.pushFunc)
	if err == nil {
		err = c.sock.pushErr
	}
	rest, c.sock.out = c.sock.out, nil
	return rest, err
}

func (s *socket) pushOut(fd uintptr) bool {
	for len(s.out) > 0 {
		n, err := syscall.Write(int(fd), s.out)
		if n > 0 {
			s.out = s.out[n:]
		}
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return true
		case err != nil:
			s.pushErr = err
			return true
		case n == 0:
			s.pushErr = io.ErrUnexpectedEOF
			return true
		}
	}
	return true
}
