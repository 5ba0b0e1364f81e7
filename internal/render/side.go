package render

import (
	"context"
	"encoding/binary"
	"errors"
	"math/bits"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/chat"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/tokenask"
)

// side asks engines for the tokens of requests. What they told is remembered by the whole question: without the tokenizer nobody can say
// where a prompt may be cut, so a follow-up is asked anew.
type side struct {
	m    *Manager
	root prefix.Key // of questions' keys

	mu       sync.Mutex // Manager.mu may be taken while it is held
	underWay map[prefix.Key]*call
	memory   memory
}

// call is one question under way. ids may be read once done is closed.
type call struct {
	done chan struct{}
	ids  []uint32 // nil: not told
}

func newSide(m *Manager) *side {
	return &side{m: m, root: m.o.Seed.Root([]byte("question")), underWay: map[prefix.Key]*call{}, memory: newMemory(m.o.CacheBytes)}
}

// rememberFor bounds the age of what is remembered: a template may print the date. Midnight comes at a quarter of an hour in every zone, so
// within one nothing changes.
const rememberFor = 15 * time.Minute

// tokens appends what an engine makes of a request, told within the deadline or remembered.
func (s *side) tokens(ctx context.Context, v *view, a chat.Request, name string, into []uint32) (ids []uint32, ok bool) {
	if len(v.engines) == 0 || a.Chat != nil && (!v.chats || a.Features&(v.form.Blind|chat.Strange) != 0) || a.Chat == nil && !v.texts {
		return into, false
	}
	timer := time.NewTimer(s.m.o.Deadline)
	defer timer.Stop()
	question, err := a.Question(name)
	if err != nil {
		return into, false
	}
	now := s.m.o.Now()
	quarter := binary.LittleEndian.AppendUint64(nil, uint64(now.Unix()/int64(rememberFor.Seconds())))
	key := s.m.o.Seed.Next(s.m.o.Seed.Next(s.root, quarter), question)
	c := s.begin(v, a, question, key, now)
	if c == nil {
		return into, false
	}
	select {
	case <-c.done:
	case <-timer.C:
		v.counts.late.Add(1)
		return into, false
	case <-ctx.Done():
		return into, false
	}
	if c.ids == nil {
		return into, false
	}
	return append(into, c.ids...), true
}

// begin finds the question under way or answered, or asks it. nil: it is not asked now.
func (s *side) begin(v *view, a chat.Request, question []byte, key prefix.Key, now time.Time) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ids := s.memory.get(key); ids != nil {
		v.counts.cached.Add(1)
		c := &call{done: make(chan struct{}), ids: ids}
		close(c.done)
		return c
	}
	if c := s.underWay[key]; c != nil {
		return c
	}
	if len(s.underWay) >= s.m.o.InFlightMax {
		v.counts.full.Add(1)
		return nil
	}
	w := v.pick(now, a.Bytes)
	if w == nil {
		return nil
	}
	c := &call{done: make(chan struct{})}
	if !s.m.spawn(func() { s.ask(c, v, w, a, question, key) }) {
		return nil
	}
	s.underWay[key] = c
	v.counts.asked.Add(1)
	return c
}

// pick is the next engine in turn that can be asked about a request of that many bytes.
func (v *view) pick(now time.Time, bytes int) *worker {
	first := int(v.counts.turn.Add(1))
	for i := range v.engines {
		if w := v.engines[(first+i)%len(v.engines)]; w.broken.allows(now) && w.slow[sizeOf(bytes)].allows(now) {
			return w
		}
	}
	return nil
}

// sizes are the classes of requests by length, each four times as long as the one before: an engine that takes long for long prompts can
// still be asked about short ones.
const sizes = 8

func sizeOf(n int) int { return min(bits.Len(uint(n>>10)+1)/2, sizes-1) }

// ask asks one engine and remembers what it tells, however late.
func (s *side) ask(c *call, v *view, w *worker, a chat.Request, question []byte, key prefix.Key) {
	ctx, cancel := context.WithTimeout(s.m.ctx, s.m.o.LateMax)
	defer cancel()
	began := s.m.o.Now()
	ids, err := v.form.Tokens(ctx, w.caller, question, a)
	now := s.m.o.Now()
	var refusal *tokenask.StatusError
	switch {
	case err == nil && now.Sub(began) <= s.m.o.Deadline:
		w.broken.good()
		w.slow[sizeOf(a.Bytes)].good()
	case err == nil: // of no use to the one that waited
		w.broken.good()
		w.slow[sizeOf(a.Bytes)].bad(now)
	case errors.As(err, &refusal) && refusal.Refused(v.form):
		v.counts.failed.Add(1) // it answers
	default:
		v.counts.failed.Add(1)
		w.broken.bad(now)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		c.ids = ids
		s.memory.put(key, ids)
	}
	delete(s.underWay, key)
	close(c.done)
}
