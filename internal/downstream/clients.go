package downstream

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/warmpath/warmpath/internal/socket"
)

// clientNetBits is what counts as one client of IPv6: its addresses come by networks of that size (RFC 6177).
const clientNetBits = 64

// toldMost is how many connections of one client beyond its bound are answered at one time. Those beyond it are closed at once: to answer a
// flood would cost what the bound is to save.
const toldMost = 8

// clients counts the connections of each client address, where there is a bound of them.
type clients struct {
	max int // 0: no bound, and nothing is counted

	mu      sync.Mutex
	held    map[netip.Addr]int
	over    map[string]bool // connections beyond the bound, by address and port
	refused uint64
}

// clientOf is what counts as one client.
func clientOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	at := tcp.AddrPort().Addr().Unmap().WithZone("")
	if at.Is4() {
		return at
	}
	network, _ := at.Prefix(clientNetBits)
	return network.Addr()
}

// enter counts a connection. over: it is one beyond the bound; drop: and one too many even to be told.
func (c *clients) enter(a net.Addr) (over, drop bool) {
	if c.max <= 0 {
		return false, false
	}
	at := clientOf(a)
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.held[at]
	if over = n >= c.max; over {
		c.refused++
	}
	if n >= c.max+toldMost {
		return true, true
	}
	c.held[at] = n + 1
	if over {
		c.over[a.String()] = true
	}
	return over, false
}

// leave takes a connection that was counted out of the count.
func (c *clients) leave(a net.Addr) {
	if c.max <= 0 {
		return
	}
	at := clientOf(a)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[at]--; c.held[at] <= 0 {
		delete(c.held, at)
	}
	delete(c.over, a.String())
}

// beyond says that a connection is one beyond its client's bound.
func (c *clients) beyond(remote string) bool {
	if c.max <= 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over[remote]
}

// crowding answers the requests of connections beyond their client's bound, each of which is its connection's last.
func (s *Server) crowding(h http.Handler) http.Handler {
	if s.clients.max <= 0 {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.clients.beyond(r.RemoteAddr) {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		s.o.Crowded(w, r)
	})
}

// unsentBytes is how much of an answer the kernel holds for a client that does not take it, besides what is in the client's own buffer.
const unsentBytes = 128 << 10

// limitUnsent bounds it, also under TLS.
func limitUnsent(c net.Conn) {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		socket.LimitUnsent(tcp, unsentBytes)
	}
}

// Stats is how many connections there are, and what was refused.
type Stats struct {
	Connections    int
	ConnectionsMax int    // 0: no bound
	Surplus        uint64 // connections beyond it, which were answered and not kept
	ClientMost     int    // connections of the client with most; 0 where they are not counted
	ClientMax      int    // 0: no bound
	ClientRefused  uint64 // connections beyond it
	HeadBytesMax   int
	HeadsRefused   uint64 // that were longer; on ports without TLS
}

// Stats may be asked at any time.
func (s *Server) Stats() Stats {
	st := Stats{ConnectionsMax: s.o.ConnectionsMax, ClientMax: s.clients.max, HeadBytesMax: s.o.HeadBytesMax, HeadsRefused: s.longHeads.Load()}
	s.mu.Lock()
	st.Connections, st.Surplus = s.crowd(), s.surplus
	s.mu.Unlock()
	s.clients.mu.Lock()
	defer s.clients.mu.Unlock()
	st.ClientRefused = s.clients.refused
	for _, n := range s.clients.held {
		st.ClientMost = max(st.ClientMost, n)
	}
	return st
}
