// Package downstream serves HTTP/1.1 to clients, at about half of what net/http's server costs a request. It takes the requests that
// nearly all are: GET or POST, a plain head, a body whose length is told. Whatever is not plainly one of those (chunked bodies, 100
// Continue, other methods and versions, long bodies, heads that are not well formed) goes with its connection, unanswered and
// unchanged, to net/http's server, so that its ways stay what they are there; the connection ends with it. Heads that servers are known
// to read in more than one way (doubt) are refused.
//
//	s := downstream.New(downstream.Options{Handler: h, Context: ctx, BodyBytesMax: 64 << 20})
//	go s.Serve(listener)
//	...
//	s.Close()
//
// What it saves: net/http starts a goroutine for each request to notice that its client leaves. Here one watcher asks the kernel to be
// told, once for each connection (Linux only; elsewhere every connection goes to net/http). A head is one string, an answer one write,
// and a connection that waits holds no buffer.
package downstream

import (
	"bytes"
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/socket"
)

// Options of a Server. Handler and Context must be set; zero fields take the value of DefaultOptions.
type Options struct {
	Handler http.Handler
	Context context.Context // of every request; its end, with its cause, ends theirs
	Log     *slog.Logger    // panics and what net/http has to say; nil is silent

	// Listed says that the handler takes header fields as a list from the ResponseWriter's RequestFields where it has that method: the
	// requests served here then come with an empty Header.
	Listed bool

	HeadTimeout  time.Duration // for a whole request head, once it has begun
	IdleTimeout  time.Duration // between requests; it may strike up to an eighth late
	HeadBytesMax int
	// ConnectionsMax is how many connections are kept at once; 0 is no bound. A few more are accepted, and closed once answered.
	ConnectionsMax int
	// ClientConnectionsMax is how many one client may have, by its address; 0 is no bound. Requests of those beyond it are Crowded's to answer,
	// and their connections are not kept.
	ClientConnectionsMax int
	Crowded              http.HandlerFunc // must be set where ClientConnectionsMax is
	BodyBytesMax         int64            // longer bodies go to net/http, for the handler to refuse
}

// DefaultOptions: half a minute for a head of at most 64 KiB, three minutes between requests, bodies to 64 MiB.
func DefaultOptions() Options {
	return Options{HeadTimeout: 30 * time.Second, IdleTimeout: 3 * time.Minute, HeadBytesMax: 64 << 10, BodyBytesMax: 64 << 20}
}

func (o Options) withDefaults() Options {
	d := DefaultOptions()
	if o.HeadTimeout <= 0 {
		o.HeadTimeout = d.HeadTimeout
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = d.IdleTimeout
	}
	if o.HeadBytesMax <= 0 {
		o.HeadBytesMax = d.HeadBytesMax
	}
	if o.BodyBytesMax <= 0 {
		o.BodyBytesMax = d.BodyBytesMax
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Server serves one listener.
type Server struct {
	o        Options
	standard *http.Server
	handover handover
	watcher  *socket.Watcher // nil: this system has none
	running  sync.WaitGroup
	lasting  atomic.Bool // connections are kept between requests, and clients are told so
	ending   atomic.Bool // those that wait for another request are closed

	elsewhere atomic.Int64  // connections that net/http serves
	longHeads atomic.Uint64 // that it refused
	clients   clients

	mu       sync.Mutex
	listener net.Listener
	conns    map[*conn]struct{}
	waiting  map[net.Conn]time.Time // those of net/http that wait for their next request, and since when
	surplus  uint64                 // connections beyond ConnectionsMax so far
	closed   bool
	retired  bool // the listener is closed, and connections go on
}

// New makes a server.
func New(o Options) *Server {
	o = o.withDefaults()
	s := &Server{o: o, conns: map[*conn]struct{}{}, waiting: map[net.Conn]time.Time{}, handover: handover{conns: make(chan net.Conn), done: make(chan struct{})}}
	s.clients = clients{max: o.ClientConnectionsMax, held: map[netip.Addr]int{}, over: map[string]bool{}}
	s.o.Handler = s.crowding(o.Handler)
	s.standard = &http.Server{Handler: s.vetted(s.o.Handler), ReadHeaderTimeout: o.HeadTimeout, IdleTimeout: o.IdleTimeout, MaxHeaderBytes: o.HeadBytesMax,
		ConnState: s.counted, ConnContext: marked,
		BaseContext: func(net.Listener) context.Context { return o.Context }, ErrorLog: quiet(o.Log)}
	s.lasting.Store(true)
	return s
}

func quiet(l *slog.Logger) *log.Logger { return slog.NewLogLogger(l.Handler(), slog.LevelDebug) }

// Serve serves until Close and returns http.ErrServerClosed then.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return http.ErrServerClosed
	}
	s.listener, s.handover.addr = l, l.Addr()
	w, err := socket.NewWatcher()
	if err != nil {
		s.mu.Unlock()
		return err
	}
	s.watcher = w
	s.running.Go(func() { s.standard.Serve(&s.handover) })
	if w != nil {
		s.running.Go(w.Run)
	}
	s.mu.Unlock()
	for {
		s.awaitRoom()
		nc, err := l.Accept()
		if err != nil {
			if s.isOver() {
				return http.ErrServerClosed
			}
			if temporary(err) {
				time.Sleep(acceptPause)
				continue
			}
			return err
		}
		over, drop := s.clients.enter(nc.RemoteAddr())
		if drop {
			nc.Close()
			continue
		}
		limitUnsent(nc)
		tcp, plain := nc.(*net.TCPConn)
		if s.watcher == nil || !plain {
			s.handover.give(nc)
			continue
		}
		s.start(tcp, over)
	}
}

// acceptPause is how long a server that is out of descriptors waits before it tries again.
const acceptPause = 5 * time.Millisecond

// temporary tells a want of descriptors or memory, which passes, from a listener that is gone.
func temporary(err error) bool {
	return !errors.Is(err, net.ErrClosed)
}

func (s *Server) start(nc *net.TCPConn, over bool) {
	c, err := newConn(s, nc)
	if err != nil {
		s.clients.leave(nc.RemoteAddr())
		nc.Close()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		nc.Close()
		return
	}
	if c.surplus = s.admit(); c.surplus {
		s.surplus++
	}
	c.surplus = c.surplus || over
	s.conns[c] = struct{}{}
	s.running.Go(c.serve)
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

// isOver says whether no more connections are taken.
func (s *Server) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed || s.retired
}

// Part has each answer from now on be the last one of its connection, and says so in its head. Nothing is closed: who is about to ask is still
// answered, and asks elsewhere then.
func (s *Server) Part() { s.lasting.Store(false) }

// Retire takes no more connections, because somebody else listens on the same socket now, and parts with those that there are.
func (s *Server) Retire() {
	s.Part()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = true
	if s.listener != nil {
		s.listener.Close()
	}
}

// Connections is how many there are.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.crowd()
}

// EndKeepAlives closes connections that wait for another request, and every other one after its answer. A new one still gets its first
// answer: its request is on the way, and a client that is cut off instead cannot tell a router that stops from one that broke.
func (s *Server) EndKeepAlives() {
	s.Part()
	s.ending.Store(true)
	s.standard.SetKeepAlivesEnabled(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if about := c.idle.Load(); about == spare || about == stale {
			c.hangUp()
		}
	}
}

// Close ends the listener and all connections, and waits until those served here have ended: the handler must return when its request's
// context ends or its connection is closed.
func (s *Server) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	if s.listener != nil {
		s.listener.Close()
	}
	for c := range s.conns {
		c.life.End(nil)
		c.hangUp()
	}
	s.mu.Unlock()
	s.handover.close()
	s.standard.Close()
	if s.watcher != nil {
		s.watcher.Close()
	}
	s.running.Wait()
}

// handover is the listener from which net/http takes what is not served here.
type handover struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	addr  net.Addr
}

func (h *handover) give(c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.done:
		c.Close()
	}
}

// Accept implements net.Listener.
func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handover) Close() error {
	h.close()
	return nil
}

func (h *handover) close() { h.once.Do(func() { close(h.done) }) }

// Addr implements net.Listener.
func (h *handover) Addr() net.Addr { return h.addr }

// replayed is a connection of which some bytes were read already.
type replayed struct {
	*net.TCPConn
	head []byte
	s    *Server
}

// Write counts how often net/http says that a head is too long, which its handler never sees.
func (r *replayed) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, headTooLong) {
		r.s.longHeads.Add(1)
	}
	return r.TCPConn.Write(p)
}

var headTooLong = []byte("HTTP/1.1 431")

func (r *replayed) Read(p []byte) (int, error) {
	if len(r.head) > 0 {
		n := copy(p, r.head)
		r.head = r.head[n:]
		return n, nil
	}
	return r.TCPConn.Read(p)
}
