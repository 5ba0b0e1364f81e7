package engine

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"
)

// job is one request in the engine: one or more choices, each a sequence, and the handler that waits for them.
type job struct {
	choices []*choice
	// progress holds one notice at most: a handler that is slow finds several tokens at once, and the engine never waits.
	progress chan struct{}
	stream   bool
	params   limits
}

// choice is one answer being generated. The step loop writes, the handler reads.
type choice struct {
	job      *job
	sequence Sequence
	answer   answer
	produced atomic.Int64
	done     atomic.Bool
	last     time.Duration // virtual time of the latest token; the step loop's own
}

// newJob makes the choices: n of every prompt, as with n in OpenAI's interface. tokensMax 0 only prefills.
func (s *Server) newJob(prompts []prompt, n int, l limits, stream bool) *job {
	j := &job{progress: make(chan struct{}, 1), stream: stream, params: l}
	for _, p := range prompts {
		for i := range n {
			c := &choice{job: j}
			if l.tokensMax > 0 {
				c.answer = newAnswer(p, i, l, s.options.OutputMean, s.options.Seed)
			}
			c.sequence = Sequence{
				PromptTokens: p.tokens, OutputTokens: c.answer.tokens,
				Keys: c.answer.keysThrough(p), Owner: c,
			}
			j.choices = append(j.choices, c)
		}
	}
	return j
}

// submit queues all choices of a job or none.
func (s *Server) submit(j *job) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if waiting := s.core.Waiting(); waiting+len(j.choices) > s.options.WaitingMax {
		return failf(http.StatusServiceUnavailable, "ServiceUnavailableError", "",
			"%d requests are waiting and %d more would pass the limit of %d (waiting_max)", waiting, len(j.choices), s.options.WaitingMax)
	}
	now := s.virtual(time.Now())
	for i, c := range j.choices {
		if err := s.core.Submit(&c.sequence, now); err != nil {
			for _, earlier := range j.choices[:i] {
				s.core.Abort(&earlier.sequence)
			}
			return failf(http.StatusBadRequest, "BadRequestError", "", "%v", err)
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
		if s.core.Abort(&c.sequence) {
			s.meters.aborted.Inc()
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
func (s *Server) deliver(out []Emission) {
	for _, e := range out {
		c := e.Sequence.Owner.(*choice)
		now := s.core.end
		if e.First {
			s.meters.firstToken.Observe(s.span(now - e.Sequence.Arrived).Seconds())
		} else {
			s.meters.tokenGap.Observe(s.span(now - c.last).Seconds())
		}
		c.last = now
		c.produced.Store(int64(e.Sequence.Generated))
		if e.Finished {
			s.meters.finished(s, c)
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

// finished says that every choice is complete.
func (j *job) finished() bool {
	for _, c := range j.choices {
		if !c.done.Load() {
			return false
		}
	}
	return true
}

// usage is what a job cost so far, in tokens. Prompts count once however many choices share them, like the real ones'.
type usage struct {
	prompt, cached, completion int
}

func (j *job) usage(n int) usage {
	var u usage
	for i, c := range j.choices {
		if i%n == 0 {
			u.prompt += c.sequence.PromptTokens
			u.cached += c.sequence.CachedTokens
		}
		u.completion += int(c.produced.Load())
	}
	return u
}
