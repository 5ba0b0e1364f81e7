package engine

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/dialog"
)

// job is one request in the engine: one or more choices, each a sequence, and the handler that waits for them.
type job struct {
	choices   []*choice
	perPrompt int // choices of one prompt, next to each other
	// progress holds one notice at most: a handler that is slow finds several tokens at once, and the engine never waits.
	progress chan struct{}
	stream   bool
	limits   dialog.Limits
	keep     func() // called by the handler when the answer is complete, before its last byte is sent
	opened   bool   // the handler's: something was written
}

// choice is one answer being generated. The step loop writes, the handler reads.
type choice struct {
	job      *job
	sequence Sequence
	answer   dialog.Answer
	produced atomic.Int64
	done     atomic.Bool
	last     time.Duration // virtual time of the latest token; the step loop's own
	whole    dialog.Prompt // prompt and answer
	end      func()        // Events' end; nil none
	sent     int           // tokens written to the client, -1 when all are; the handler's own
}

// newJob makes the choices: n of every prompt, as with n in OpenAI's interface. No TokensMax is a job that only prefills.
func (s *Server) newJob(prompts []dialog.Prompt, n int, l dialog.Limits, stream bool) *job {
	j := &job{perPrompt: n, progress: make(chan struct{}, 1), stream: stream, limits: l, keep: func() {}}
	for _, p := range prompts {
		for i := range n {
			c := &choice{job: j}
			if l.TokensMax > 0 {
				c.answer = dialog.NewAnswer(p, i, l, s.options.OutputMean, s.options.Seed)
			}
			c.whole = c.answer.Through(p)
			c.sequence = Sequence{PromptTokens: p.Tokens, OutputTokens: c.answer.Tokens, Keys: c.whole.Keys, Owner: c}
			j.choices = append(j.choices, c)
		}
	}
	return j
}

func (j *job) answers() []dialog.Answer {
	var list []dialog.Answer
	for _, c := range j.choices {
		list = append(list, c.answer)
	}
	return list
}

// submit queues all choices of a job or none.
func (s *Server) submit(j *job) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if waiting := s.core.Waiting(); waiting+len(j.choices) > s.options.WaitingMax {
		return dialog.Fail(http.StatusServiceUnavailable, "ServiceUnavailableError", "",
			"%d requests are waiting and %d more would pass the limit of %d (WaitingMax)", waiting, len(j.choices), s.options.WaitingMax)
	}
	now := s.virtual(time.Now())
	for i, c := range j.choices {
		if err := s.core.Submit(&c.sequence, now); err != nil {
			for _, earlier := range j.choices[:i] {
				s.core.Abort(&earlier.sequence)
			}
			return dialog.Refuse("", "%v", err)
		}
	}
	if e := s.options.Events; e != nil {
		for _, c := range j.choices {
			c.end = e.Begin(c.whole.Salt, c.whole.IDs, c.whole.Keys)
		}
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// abort takes out what is left of a job. The next step is planned without it.
func (s *Server) abort(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range j.choices {
		s.core.Abort(&c.sequence)
		if c.end != nil {
			c.end()
		}
	}
}

// errStopped ends requests that are in the engine when Run returns.
var errStopped = errors.New("the engine stopped")

// wait returns when some choice has progressed; the error is why there will be no more.
func (s *Server) wait(ctx context.Context, j *job) error {
	select {
	case <-j.progress:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stopped:
		return errStopped
	}
}

// deliver tells handlers what a step produced, and measures it. Called under mu by the step loop alone.
func (s *Server) deliver(out []Emission, now time.Duration) {
	for _, e := range out {
		c := e.Sequence.Owner.(*choice)
		if e.First {
			s.meters.firstToken.observe(s.span(now - e.Sequence.Arrived).Seconds())
		} else {
			s.meters.tokenGap.observe(s.span(now - c.last).Seconds())
		}
		c.last = now
		c.produced.Store(int64(e.Sequence.Generated))
		if e.Finished {
			s.meters.finish(s, c)
			c.done.Store(true)
		}
		if e.Finished || c.job.stream {
			select {
			case c.job.progress <- struct{}{}:
			default:
			}
		}
	}
}

// advance appends to buf what came since the last call; ended says that every choice is complete.
func (j *job) advance(buf []byte, f dialog.Form) (_ []byte, ended bool) {
	ended = true
	var word [8]byte
	for i, c := range j.choices {
		// done is read first: once it is set, produced is final.
		done, produced := c.done.Load(), int(c.produced.Load())
		if produced > 0 && !j.opened {
			buf, j.opened = f.Open(buf, j.usage()), true
		}
		for ; c.sent >= 0 && c.sent < produced; c.sent++ {
			buf = f.Token(buf, i, c.answer.Word(word[:0], c.sent))
		}
		if done && c.sent >= 0 {
			buf = f.End(buf, i)
			c.sent = -1
		}
		ended = ended && done
	}
	return buf, ended
}

// finished says that every choice is complete.
func (j *job) finished() bool {
	for _, c := range j.choices {
		if !c.done.Load() {
			return false
		}
	}
	return true
}

// usage is what the job cost so far. What was cached is known once a choice has its first token.
func (j *job) usage() dialog.Usage {
	var u dialog.Usage
	for i, c := range j.choices {
		produced := int(c.produced.Load())
		if i%j.perPrompt == 0 {
			u.Prompt += c.sequence.PromptTokens
			if produced > 0 || c.done.Load() {
				u.Cached += c.sequence.CachedTokens
			}
		}
		u.Completion += produced
	}
	return u
}
