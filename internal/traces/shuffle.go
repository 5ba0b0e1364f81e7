package traces

import (
	"io"
	"math/rand/v2"
	"time"
)

// A file of sessions tells in what order they came, and nothing about which ran side by side: a seed draws one of the orders there could
// have been. Thinking varies by thinkSpread either way. shuffleBytesMax is the most memory of sessions that are drawn from: a file
// larger than that keeps its order from afar.
const (
	thinkSpread     = 0.1
	shuffleBytesMax = 64 << 20
)

// shuffle gives sessions in another order.
type shuffle struct {
	Reader
	chance  *rand.Rand
	waiting [][]Request
	bytes   int64
	now     []Request // the rest of the session that is being given
	ahead   Request   // the first of a session that was not gathered yet
	begun   bool
	ended   bool
}

func newShuffle(r Reader, seed uint64) *shuffle {
	return &shuffle{Reader: r, chance: rand.New(rand.NewPCG(seed, 0x73657373696f6e73))}
}

func (s *shuffle) Next(r *Request) error {
	if len(s.now) == 0 {
		if err := s.gather(); err != nil {
			return err
		}
		n := len(s.waiting)
		if n == 0 {
			return io.EOF
		}
		i := s.chance.IntN(n)
		s.now, s.waiting[i] = s.waiting[i], s.waiting[n-1]
		s.waiting = s.waiting[:n-1]
		for i := range s.now {
			s.bytes -= memory(&s.now[i])
		}
	}
	*r = s.now[0]
	s.now = s.now[1:]
	r.Think = time.Duration(float64(r.Think) * (1 - thinkSpread + 2*thinkSpread*s.chance.Float64()))
	return nil
}

// gather reads whole sessions until there is no room for more.
func (s *shuffle) gather() error {
	for !s.ended && (s.bytes < shuffleBytesMax || len(s.waiting) == 0) {
		if !s.begun {
			if err := s.read(); err != nil {
				return err
			}
			s.begun = true
			continue
		}
		session := []Request{s.ahead}
		for {
			if err := s.read(); err != nil {
				return err
			}
			if s.ended || !s.ahead.Follows {
				break
			}
			session = append(session, s.ahead)
		}
		for i := range session {
			s.bytes += memory(&session[i])
		}
		s.waiting = append(s.waiting, session)
	}
	return nil
}

func (s *shuffle) read() error {
	err := s.Reader.Next(&s.ahead)
	if err == io.EOF {
		s.ended = true
		return nil
	}
	return err
}

// memory is about what a request takes, in bytes.
func memory(r *Request) int64 { return requestBytes + runBytes*int64(len(r.Blocks)) }
