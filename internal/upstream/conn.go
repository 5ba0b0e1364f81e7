package upstream

import (
	"net"
	"syscall"
	"time"
)

// conn is one TCP connection to the worker.
type conn struct {
	nc       *net.TCPConn
	raw      syscall.RawConn
	sock     socket
	rd       reader
	lifetime time.Duration // how long it may be idle
	expires  time.Time     // when it is too old, while idle

	wait  time.Duration // bound of one read, 0 is none
	until time.Time     // the read deadline in force, zero is none
}

func newConn(nc *net.TCPConn, lifetime time.Duration) (*conn, error) {
	raw, err := nc.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &conn{nc: nc, raw: raw, lifetime: lifetime}
	c.sock.bind()
	c.rd.src = c
	return c, nil
}

// Read reads from the socket, within the bound in force. The deadline is set an eighth too far, so that a stream of
// small reads moves it once in a while only: moving it costs as much as the rest of a read.
func (c *conn) Read(p []byte) (int, error) {
	if c.wait > 0 {
		if now := time.Now(); c.until.Sub(now) < c.wait {
			c.until = now.Add(c.wait + c.wait/8)
			if err := c.nc.SetReadDeadline(c.until); err != nil {
				return 0, err
			}
		}
	}
	return c.nc.Read(p)
}

// setDeadline bounds all reads together until the next setWait: a head that comes byte by byte is late too.
func (c *conn) setDeadline(after time.Duration) {
	c.wait, c.until = 0, time.Now().Add(after)
	c.nc.SetReadDeadline(c.until) // a closed connection says so at the next read
}

// setWait bounds each of the reads to come; 0 or less is no bound.
func (c *conn) setWait(wait time.Duration) {
	wait = max(wait, 0)
	if wait > 0 && c.wait == wait {
		return
	}
	c.wait = wait
	if !c.until.IsZero() {
		c.until = time.Time{}
		c.nc.SetReadDeadline(time.Time{})
	}
}

// respectKeepAlive shortens the idle lifetime to three quarters of what the worker announced.
func (c *conn) respectKeepAlive(timeout time.Duration) {
	if timeout > 0 {
		c.lifetime = min(c.lifetime, timeout*3/4)
	}
}
