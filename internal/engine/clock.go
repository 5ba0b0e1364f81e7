package engine

import (
	"context"
	"time"
)

// lateMax is how far behind its clock the engine may run and still catch up with shorter sleeps. Beyond it the missed
// time is written off (Stats.Slip), so that a busy machine makes the engine slower, not bursty.
const lateMax = 20 * time.Millisecond

// Run steps the engine in wall time until the context ends, and returns nil. It is called once; requests that are still
// in the engine then are cut off.
func (s *Server) Run(ctx context.Context) error {
	defer close(s.stopped)
	pause, err := newPause(ctx)
	if err != nil {
		return err
	}
	defer pause.close()
	now := s.virtual(time.Now())
	for ctx.Err() == nil {
		s.mu.Lock()
		end, busy := s.core.Begin(now)
		s.mu.Unlock()
		if !busy {
			select {
			case <-ctx.Done():
			case <-s.wake:
			}
			now = s.virtual(time.Now())
			continue
		}
		// Steps follow one another on the virtual clock, not on the time the sleep returned: lateness does not add up.
		deadline := s.wall(end)
		pause.until(deadline)
		s.mu.Lock()
		s.deliver(s.core.End(), end)
		if e := s.options.Events; e != nil {
			e.Step()
		}
		now = end
		if late := time.Since(deadline); late > lateMax {
			s.slip += late
			now = s.virtual(time.Now())
		}
		s.mu.Unlock()
	}
	return nil
}

// virtual converts an instant to the engine's own time, wall does the reverse.
func (s *Server) virtual(t time.Time) time.Duration {
	return time.Duration(float64(t.Sub(s.start)) * s.options.TimeScale)
}

func (s *Server) wall(virtual time.Duration) time.Time {
	return s.start.Add(s.span(virtual))
}

// span is the wall time that a stretch of virtual time takes.
func (s *Server) span(virtual time.Duration) time.Duration {
	return time.Duration(float64(virtual) / s.options.TimeScale)
}

// sleep is the coarse way to wait: the runtime's timer.
func sleep(ctx context.Context, deadline time.Time) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
