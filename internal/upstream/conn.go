package upstream

import (
	"net"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/socket"
)

// conn is one TCP connection to the worker.
type conn struct {
	*socket.Conn
	rd       reader
	lifetime time.Duration // how long it may be idle
	expires  time.Time     // when it is too old, while idle

	x            *exchange   // the one that it carries
	opens, hands func() bool // its steps, and what its end calls, made once, so that they allocate nothing
	aborts       func(error)
}

func newConn(nc *net.TCPConn, w *socket.Watcher, lifetime time.Duration) (*conn, error) {
	s, err := socket.New(nc, w)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: s, lifetime: lifetime}
	c.rd.src = s
	c.opens = func() bool { return c.x.open() }
	c.hands = func() bool { return c.x.hand() }
	c.aborts = c.abort
	return c, nil
}

// respectKeepAlive shortens the idle lifetime to three quarters of what the worker announced.
func (c *conn) respectKeepAlive(timeout time.Duration) {
	if timeout > 0 {
		c.lifetime = min(c.lifetime, timeout*3/4)
	}
}

// watch is a client's watcher of its connections, there from the first of them until the client is closed.
type watch struct {
	mu      sync.Mutex
	on      *socket.Watcher
	running sync.WaitGroup
	closed  bool
}

// get returns the watcher, nil where there can be none.
func (w *watch) get() *socket.Watcher {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.on == nil && !w.closed {
		if on, err := socket.NewWatcher(); err == nil && on != nil { // without one more reads are tried; the next connection asks again
			w.on = on
			w.running.Go(on.Run)
		}
	}
	return w.on
}

func (w *watch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed = true; w.on != nil {
		w.on.Close()
		w.running.Wait()
	}
}
