package zmtp

import (
	"errors"
	"net"
	"os"
	"strings"
	"sync"
)

// server accepts connections and speaks with each in goroutines of its own, until it is closed.
type server struct {
	kind     Kind
	o        Options
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	conns  map[net.Conn]bool
	closed bool
}

// connectionsMax is how many peers a publisher or router has at once.
const connectionsMax = 256

func listen(endpoint string, kind Kind, o Options) (*server, error) {
	network, address, err := Address(endpoint)
	if err != nil {
		return nil, err
	}
	if network == "unix" {
		if err := os.Remove(address); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	return &server{kind: kind, o: o.withDefaults(), listener: l, conns: map[net.Conn]bool{}}, nil
}

// run accepts until the server is closed.
func (s *server) run(speak func(*Conn)) {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed || len(s.conns) >= connectionsMax {
			s.mu.Unlock()
			_ = conn.Close()
			continue
		}
		s.conns[conn] = true
		s.mu.Unlock()
		s.running.Go(func() {
			if c, err := Handshake(conn, s.kind, s.o); err == nil {
				speak(c)
			}
			_ = conn.Close()
			s.mu.Lock()
			delete(s.conns, conn)
			s.mu.Unlock()
		})
	}
}

// close ends all connections and waits for their goroutines.
func (s *server) close() {
	s.mu.Lock()
	s.closed = true
	_ = s.listener.Close()
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// Endpoint is where the server listens, as others would connect to it.
func (s *server) Endpoint() string {
	a := s.listener.Addr()
	if a.Network() == "unix" {
		return "ipc://" + a.String()
	}
	return "tcp://" + a.String()
}

// Publisher is a PUB socket that listens. A subscriber that does not keep up loses messages, as with libzmq.
type Publisher struct {
	*server
	subscribers map[*subscriber]bool // guarded by mu
}

type subscriber struct {
	topics map[string]int // guarded by the server's mu
	queue  chan [][]byte
}

// queueMax is how many messages wait for one subscriber.
const queueMax = 10_000

// Publish listens at an endpoint. Close must be called.
func Publish(endpoint string, o Options) (*Publisher, error) {
	s, err := listen(endpoint, PUB, o)
	if err != nil {
		return nil, err
	}
	p := &Publisher{server: s, subscribers: map[*subscriber]bool{}}
	s.running.Go(func() { s.run(p.speak) })
	return p, nil
}

// Send gives a message to every subscriber of its first frame. The frames must not be changed afterwards.
func (p *Publisher) Send(frames ...[]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.subscribers {
		for topic := range s.topics {
			if strings.HasPrefix(string(frames[0]), topic) {
				select {
				case s.queue <- frames:
				default:
				}
				break
			}
		}
	}
}

// Subscribers is the number of peers that subscribed to something.
func (p *Publisher) Subscribers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for s := range p.subscribers {
		if len(s.topics) > 0 {
			n++
		}
	}
	return n
}

// Close ends all connections; what was not sent is lost.
func (p *Publisher) Close() { p.close() }

func (p *Publisher) speak(c *Conn) {
	s := &subscriber{topics: map[string]int{}, queue: make(chan [][]byte, queueMax)}
	subscribe := func(n subscription) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if n.on {
			s.topics[n.topic]++
		} else if s.topics[n.topic]--; s.topics[n.topic] <= 0 {
			delete(s.topics, n.topic)
		}
	}
	c.onSubscribe = subscribe
	p.mu.Lock()
	p.subscribers[s] = true
	p.mu.Unlock()
	done := make(chan struct{})
	p.running.Go(func() {
		for {
			select {
			case <-done:
				return
			case frames := <-s.queue:
				if c.Send(frames...) != nil {
					_ = c.Close()
					return
				}
			}
		}
	})
	var frames [][]byte
	for {
		var err error
		if frames, err = c.Receive(frames[:0]); err != nil {
			break
		}
		if b := frames[0]; len(b) > 0 && b[0] <= 1 { // how subscribers of version 3.0 say it
			subscribe(subscription{string(b[1:]), b[0] == 1})
		}
	}
	close(done)
	p.mu.Lock()
	delete(p.subscribers, s)
	p.mu.Unlock()
}

// Router is a ROUTER socket that listens and answers.
type Router struct{ *server }

// Route listens at an endpoint and calls answer for every message, one at a time for each peer; reply sends to that peer. Close must be
// called, and waits for answer to return.
func Route(endpoint string, o Options, answer func(message [][]byte, reply func(frames ...[]byte) error)) (*Router, error) {
	s, err := listen(endpoint, ROUTER, o)
	if err != nil {
		return nil, err
	}
	r := &Router{s}
	s.running.Go(func() {
		s.run(func(c *Conn) {
			var frames [][]byte
			for {
				var err error
				if frames, err = c.Receive(frames[:0]); err != nil {
					return
				}
				answer(frames, c.Send)
			}
		})
	})
	return r, nil
}

// Close ends all connections.
func (r *Router) Close() { r.close() }
