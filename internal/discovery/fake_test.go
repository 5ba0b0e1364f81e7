package discovery

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// heard is what a source told.
type heard struct {
	t    *testing.T
	mu   sync.Mutex
	set  []Worker
	err  error
	sets int
	errs int
}

// follow follows a source until the test ends.
func follow(t *testing.T, s Source) *heard {
	h := &heard{t: t}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		s.Follow(ctx, func(set []Worker, err error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.err = err; err != nil {
				h.errs++
				return
			}
			h.set, h.sets = set, h.sets+1
		})
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return h
}

// said is the last set in words.
func said(set []Worker) string {
	var words []string
	for _, w := range set {
		text := w.URL
		if w.ID != "" {
			text = w.ID + "@" + text
		}
		if w.Instance != "" {
			text += "#" + w.Instance
		}
		if w.Leaving {
			text += "!"
		}
		words = append(words, strings.Join(append([]string{text}, w.Labels...), ","))
	}
	return strings.Join(words, " ")
}

func (h *heard) eventually(what string, is func() bool) {
	h.t.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		h.mu.Lock()
		ok := is()
		h.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-limit.C:
			h.t.Fatalf("waited a minute for %s; heard last: %q, %v", what, said(h.set), h.err)
		}
	}
}

// says waits for a set.
func (h *heard) says(want string) {
	h.t.Helper()
	h.eventually(want, func() bool { return h.err == nil && h.sets > 0 && said(h.set) == want })
}

// fails waits for an error that has a text in it, and holds the source to the set that it told before.
func (h *heard) fails(want string) {
	h.t.Helper()
	h.eventually("an error about "+want, func() bool { return h.err != nil && strings.Contains(h.err.Error(), want) })
}

// nameServer is a small real name server on loopback, over UDP and TCP.
type nameServer struct {
	address string

	mu      sync.Mutex
	records map[string][]dnsmessage.Resource // by lower-case name with its dot, and type
	code    dnsmessage.RCode
	mute    bool
	short   bool // answers over UDP are cut off
	lies    bool // an answer to another question comes first
	asked   int
}

func startNameServer(t *testing.T) *nameServer {
	t.Helper()
	s := &nameServer{records: map[string][]dnsmessage.Resource{}}
	stream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = stream.Addr().String()
	packets, err := net.ListenPacket("udp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		buffer := make([]byte, 4096)
		for {
			n, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			for _, a := range s.answer(buffer[:n], true) {
				packets.WriteTo(a, from)
			}
		}
	})
	running.Go(func() {
		for {
			conn, err := stream.Accept()
			if err != nil {
				return
			}
			s.serve(conn)
		}
	})
	t.Cleanup(func() { stream.Close(); packets.Close(); running.Wait() })
	return s
}

func (s *nameServer) serve(conn net.Conn) {
	defer conn.Close()
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return
	}
	text := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(conn, text); err != nil {
		return
	}
	for _, a := range s.answer(text, false) {
		conn.Write(binary.BigEndian.AppendUint16(nil, uint16(len(a))))
		conn.Write(a)
	}
}

// set gives a name its records.
func (s *nameServer) set(name string, ttl uint32, bodies ...dnsmessage.ResourceBody) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, name)
	for _, b := range bodies {
		h := dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName(name), Class: dnsmessage.ClassINET, TTL: ttl}
		s.records[name] = append(s.records[name], dnsmessage.Resource{Header: h, Body: b})
	}
}

func (s *nameServer) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *nameServer) answer(text []byte, datagram bool) (all [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	var q dnsmessage.Message
	if q.Unpack(text) != nil || len(q.Questions) != 1 || s.mute {
		return nil
	}
	a := dnsmessage.Message{Header: dnsmessage.Header{ID: q.ID, Response: true, RCode: s.code}, Questions: q.Questions}
	have, known := s.records[strings.ToLower(q.Questions[0].Name.String())]
	if !known && s.code == dnsmessage.RCodeSuccess {
		a.RCode = dnsmessage.RCodeNameError
	}
	for _, r := range have {
		if typeOf(r.Body) == q.Questions[0].Type || typeOf(r.Body) == dnsmessage.TypeCNAME {
			a.Answers = append(a.Answers, r)
		}
	}
	if s.short && datagram {
		a.Truncated, a.Answers = true, nil
	}
	if s.lies {
		other := a
		other.ID++
		other.Answers = nil
		if packed, err := other.Pack(); err == nil {
			all = append(all, []byte("nonsense"), packed)
		}
	}
	packed, err := a.Pack()
	if err != nil {
		panic(errors.Join(errors.New("an answer of the test"), err))
	}
	return append(all, packed)
}

func typeOf(b dnsmessage.ResourceBody) dnsmessage.Type {
	switch b.(type) {
	case *dnsmessage.AResource:
		return dnsmessage.TypeA
	case *dnsmessage.AAAAResource:
		return dnsmessage.TypeAAAA
	case *dnsmessage.SRVResource:
		return dnsmessage.TypeSRV
	}
	return dnsmessage.TypeCNAME
}

func a(last byte) dnsmessage.ResourceBody { return &dnsmessage.AResource{A: [4]byte{10, 0, 0, last}} }

func aaaa(last byte) dnsmessage.ResourceBody {
	return &dnsmessage.AAAAResource{AAAA: [16]byte{0: 0xfd, 15: last}}
}

func srv(priority, port uint16, target string) dnsmessage.ResourceBody {
	return &dnsmessage.SRVResource{Priority: priority, Port: port, Target: dnsmessage.MustNewName(target)}
}
