package main

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/facts"
	"github.com/warmpath/warmpath/internal/upstream"
)

// refusals counts what the data plane refused at bounds of each single request.
type refusals struct {
	large     atomic.Uint64 // bodies beyond body_bytes_max
	slow      atomic.Uint64 // bodies that came too slowly
	exhausted atomic.Uint64 // connections to workers that could not be opened for want of descriptors
}

// note counts a request that is over. A worker's own 413 or 408 is not the router's.
func (r *refusals) note(f *facts.Facts) {
	if f.Decision.Worker != nil {
		return
	}
	switch f.Status {
	case http.StatusRequestEntityTooLarge:
		r.large.Add(1)
	case http.StatusRequestTimeout:
		r.slow.Add(1)
	}
}

// failed counts an attempt that failed, by its class.
func (r *refusals) failed(class string) {
	if class == upstream.Exhausted.String() {
		r.exhausted.Add(1)
	}
}

const (
	// adminConnectionsMax is how many operators, scrapers and pages may be connected at one time.
	adminConnectionsMax = 256
	// adminFullTime is how long one of those beyond may take to hear that there are too many.
	adminFullTime = time.Second
)

// adminFull is what they hear, where the port is without TLS.
const adminFull = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 90\r\n\r\n" +
	`{"error":{"message":"the admin port has 256 connections, as many as it may","status":503}}`

// fewAt is a listener whose connections are counted, and bounded.
type fewAt struct {
	net.Listener
	*adminConns
	plain bool
}

// adminConns are the connections of the admin port. Those that wait for a request, or for the rest of its head, give way to a new one: nobody who
// only connects can keep operators out.
type adminConns struct {
	open    atomic.Int64
	refused atomic.Uint64

	mu      sync.Mutex
	waiting []*adminConn // those that have waited longest first
}

// Accept implements net.Listener.
func (l fewAt) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= adminConnectionsMax || l.makeRoom() {
			own := &adminConn{Conn: c, of: l.adminConns}
			l.wait(own)
			return own, nil
		}
		l.open.Add(-1)
		l.refused.Add(1)
		if l.plain {
			c.SetWriteDeadline(time.Now().Add(adminFullTime))
			io.WriteString(c, adminFull)
		}
		c.Close()
	}
}

// makeRoom closes the connection that has waited longest; false when none waits.
func (a *adminConns) makeRoom() bool {
	a.mu.Lock()
	if len(a.waiting) == 0 {
		a.mu.Unlock()
		return false
	}
	first := a.waiting[0]
	a.waiting = a.waiting[1:]
	a.mu.Unlock()
	first.Close()
	return true
}

func (a *adminConns) wait(c *adminConn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, c)
}

// changed is told by the server of a connection that begins or ends a request.
func (a *adminConns) changed(c net.Conn, to http.ConnState) {
	if over, is := c.(*tls.Conn); is {
		c = over.NetConn()
	}
	own, is := c.(*adminConn)
	if !is || to == http.StateNew { // it waits since it was accepted
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = slices.DeleteFunc(a.waiting, func(w *adminConn) bool { return w == own })
	if to == http.StateIdle {
		a.waiting = append(a.waiting, own)
	}
}

// adminConn is one that is taken out of the count once it is closed.
type adminConn struct {
	net.Conn
	of   *adminConns
	done atomic.Bool
}

// Close implements net.Conn.
func (c *adminConn) Close() error {
	if c.done.CompareAndSwap(false, true) {
		c.of.open.Add(-1)
	}
	return c.Conn.Close()
}
