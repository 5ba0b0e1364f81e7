package downstream

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/internal/socket"
)

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
	var err error
	if c.within { // the descriptor stays open
		c.push(uintptr(c.fd))
	} else {
		err = c.raw.Write(c.pushFunc)
	}
	p, c.out = c.out, nil
	if err != nil || len(p) == 0 {
		return err
	}
	if until.IsZero() && limit <= 0 {
		_, err = c.nc.Write(p)
		return err
	}
	defer c.nc.SetWriteDeadline(time.Time{})
	before, _ := socket.Untaken(c.raw)
	for {
		end := until
		if end.IsZero() {
			end = time.Now().Add(limit)
		}
		c.nc.SetWriteDeadline(end)
		n, err := c.nc.Write(p)
		if !errors.Is(err, os.ErrDeadlineExceeded) || !until.IsZero() {
			return err
		}
		// As long as the client takes something: the kernel asks for more only when half of what it holds is gone, which says nothing of a client
		// that reads slowly.
		after, known := socket.Untaken(c.raw)
		if n == 0 && (!known || after >= before) {
			return err
		}
		p, before = p[n:], after
	}
}
