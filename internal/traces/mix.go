package traces

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// Part is one of several traces that are replayed together.
type Part struct {
	Tenant string // of its requests; "" leaves them theirs
	*Trace
}

// Mix makes one trace of several, each with its own times and sessions. What one asks shares no prefix with what another asks. A trace whose
// sessions have no times of their own has no place in it. There is at least one part.
func Mix(parts []Part) (*Trace, error) {
	t := &Trace{Form: parts[0].Form, skipped: new(int)}
	var names []string
	for i, p := range parts {
		switch {
		case p.Untimed:
			return nil, fmt.Errorf("%s: its sessions have no times of their own, so that it cannot be mixed with others", p.Name)
		case i > 0 && p.BlockTokens != t.BlockTokens:
			return nil, fmt.Errorf("%s names blocks of %d tokens, %s of %d: they cannot be mixed", parts[0].Name, t.BlockTokens, p.Name, p.BlockTokens)
		case p.Synthetic():
			t.Form = synthetic // each seed makes another
		}
		t.BlockTokens, t.Sessions, t.Jitter = p.BlockTokens, t.Sessions || p.Sessions, max(t.Jitter, p.Jitter)
		names = append(names, strings.TrimPrefix(p.Tenant+"="+p.Name, "="))
	}
	t.Name = strings.Join(names, " and ")
	t.open = func(seed uint64) (Reader, error) {
		m := &merged{}
		for i, p := range parts {
			r, err := p.open(seed + uint64(i)<<32)
			if err != nil {
				return nil, errors.Join(err, m.Close())
			}
			s := &stream{Reader: r, tenant: p.Tenant}
			if i > 0 {
				s.apart = mix(uint64(i))
			}
			m.parts = append(m.parts, s)
			if err := s.advance(); err != nil {
				return nil, errors.Join(err, m.Close())
			}
		}
		return m, nil
	}
	return t, nil
}

// stream is one part under way, and its next request.
type stream struct {
	Reader
	tenant string
	apart  uint64 // added to its names, so that they are nobody else's
	next   Request
	ended  bool
}

func (s *stream) advance() error {
	err := s.Reader.Next(&s.next)
	if err == io.EOF {
		s.ended = true
		return nil
	}
	if err != nil || s.apart == 0 && s.tenant == "" {
		return err
	}
	if s.tenant != "" {
		s.next.Tenant = s.tenant
	}
	if s.next.Session != 0 {
		s.next.Session ^= s.apart
	}
	blocks := make([]Run, len(s.next.Blocks)) // what was read may be kept by the part
	for i, b := range s.next.Blocks {
		blocks[i] = Run{First: b.First + s.apart, Count: b.Count}
	}
	s.next.Blocks = blocks
	return nil
}

// merged gives the parts' requests in order of time, and what follows behind what it follows.
type merged struct {
	parts []*stream
	last  *stream
}

func (m *merged) Next(r *Request) error {
	from := m.last
	if from == nil || from.ended || !from.next.Follows {
		from = nil
		for _, s := range m.parts {
			if !s.ended && (from == nil || s.next.At < from.next.At) {
				from = s
			}
		}
	}
	if from == nil {
		return io.EOF
	}
	*r, m.last = from.next, from
	return from.advance()
}

func (m *merged) Close() (err error) {
	for _, s := range m.parts {
		err = errors.Join(err, s.Reader.Close())
	}
	return err
}
