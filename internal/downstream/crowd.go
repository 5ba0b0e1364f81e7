package downstream

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// One in surplusShare of Options.ConnectionsMax, and surplusMost at most, is accepted beyond it. Those are answered too, by a refusal where it would
// take a connection to a worker, and not kept: a server that accepted none would not even answer whether it lives.
const surplusShare, surplusMost = 20, 32

// What a connection is about: a request, its first request, or the next one after those that were answered; stale once it was looked at then.
const (
	busy = iota
	fresh
	spare
	stale
)

// staleTime is how long a connection is left alone that waits for its next request: a client that has just been answered may well be
// sending it.
const staleTime = 500 * time.Millisecond

// crowd is how many connections there are, here and at net/http.
func (s *Server) crowd() int { return len(s.conns) + int(s.elsewhere.Load()) }

// counted keeps count of connections that net/http serves, which are all of a port with TLS, and of those among them that wait for their
// next request.
func (s *Server) counted(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.elsewhere.Add(1)
		return
	case http.StateClosed, http.StateHijacked:
		s.elsewhere.Add(-1)
		s.clients.leave(c.RemoteAddr())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if state == http.StateIdle {
		s.waiting[c] = time.Now()
		return
	}
	delete(s.waiting, c)
}

// admit says whether a connection more is one beyond ConnectionsMax. One that waits for its next request gives way to it: otherwise clients that
// have nothing to ask would keep out those that have. s.mu is held.
func (s *Server) admit() (surplus bool) {
	most := s.o.ConnectionsMax
	return most > 0 && s.crowd() >= most && !s.dropIdle()
}

// dropIdle closes a connection that has waited for its next request for staleTime, if there is one. s.mu is held.
func (s *Server) dropIdle() bool {
	now := time.Now()
	for c := range s.conns {
		switch {
		case c.idle.CompareAndSwap(spare, stale):
			c.noted = now
		case c.idle.Load() == stale && now.Sub(c.noted) >= staleTime && !c.dropped:
			c.dropped = true
			c.hangUp()
			return true
		}
	}
	for c, since := range s.waiting {
		if now.Sub(since) >= staleTime {
			delete(s.waiting, c)
			if secure, ok := c.(*tls.Conn); ok { // a goodbye may have to wait
				c = secure.NetConn()
			}
			c.Close()
			return true
		}
	}
	return false
}

// awaitRoom returns when another connection may be accepted.
func (s *Server) awaitRoom() {
	most := s.o.ConnectionsMax
	if most <= 0 {
		return
	}
	for {
		s.mu.Lock()
		full := !s.closed && s.crowd() >= most+min(max(most/surplusShare, 1), surplusMost)
		if full {
			s.dropIdle()
		}
		s.mu.Unlock()
		if !full {
			return
		}
		time.Sleep(acceptPause)
	}
}

// Surplus is ConnectionsMax where the request came on a connection beyond it, 0 where it did not: whatever it asks for had better cost no
// connection more.
func (w *reply) Surplus() (most int) {
	if w.c.surplus {
		most = w.c.s.o.ConnectionsMax
	}
	return most
}

// lasts says whether the connection is kept after an answer.
func (c *conn) lasts() bool { return !c.surplus && c.s.lasting.Load() }
