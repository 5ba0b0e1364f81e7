package ghost

import "time"

// Work is prefill that was done, or would have been: tokens, and seconds by what is known of the workers' speed.
type Work struct{ PrefillTokens, PrefillSeconds float64 }

// Sums are of the same requests for the fleet and for every ghost.
type Sums struct {
	Requests, PromptTokens float64
	// PredictedTokens are the prompt tokens that were taken to be cached. Of the requests whose engine told what was: ReportedPromptTokens,
	// the PredictedReportedTokens of them, and ReportedTokens by its word.
	PredictedTokens, ReportedPromptTokens, PredictedReportedTokens, ReportedTokens float64
	// Real is the fleet's prefill, by what engines reported, and by what was predicted where they did not.
	Real   Work
	Ghosts [rules]Work
}

func (s *Sums) miss(rule Rule, tokens, seconds float64) { s.Ghosts[rule] = Work{tokens, seconds} }

func (s *Sums) add(o *Sums) {
	s.Requests += o.Requests
	s.PromptTokens += o.PromptTokens
	s.PredictedTokens += o.PredictedTokens
	s.ReportedPromptTokens += o.ReportedPromptTokens
	s.PredictedReportedTokens += o.PredictedReportedTokens
	s.ReportedTokens += o.ReportedTokens
	s.Real.add(o.Real)
	for i := range s.Ghosts {
		s.Ghosts[i].add(o.Ghosts[i])
	}
}

func (w *Work) add(o Work) {
	w.PrefillTokens += o.PrefillTokens
	w.PrefillSeconds += o.PrefillSeconds
}

// Of is the prefill of a ghost. An estimate from a sample may lie beyond what is possible; it is cut there.
func (s *Sums) Of(rule Rule) Work {
	w := s.Ghosts[rule]
	if most := s.PromptTokens; w.PrefillTokens > most {
		w.PrefillSeconds *= most / w.PrefillTokens
		w.PrefillTokens = most
	}
	return w
}

// Rate is the hit rate of a prefill: the share of prompt tokens that were not computed; 0 of nothing.
func (s *Sums) Rate(w Work) float64 {
	if s.PromptTokens == 0 {
		return 0
	}
	return 1 - w.PrefillTokens/s.PromptTokens
}

// Saved is the prefill that the fleet did not have to do and the ghost had to; below 0 where the ghost had less to do.
func (s *Sums) Saved(rule Rule) Work {
	w := s.Of(rule)
	return Work{w.PrefillTokens - s.Real.PrefillTokens, w.PrefillSeconds - s.Real.PrefillSeconds}
}

// Window is the time that Report.Window looks back, in steps of windowStep.
const (
	Window      = windowSteps * windowStep
	windowSteps = 60
	windowStep  = time.Minute
)

// counts are sums since the start, and for each of the last minutes.
type counts struct {
	total             Sums
	steps             [windowSteps]Sums
	step              int64 // the latest one's number since the epoch
	scratch           Sums
	now               *Sums // the step that is counted in
	dropped, unplaced uint64
}

// at makes the step of a time the one that is counted in, and returns empty sums for one request.
func (c *counts) at(nanos int64) *Sums {
	c.advance(nanos / int64(windowStep))
	c.scratch = Sums{}
	return &c.scratch
}

func (c *counts) advance(step int64) {
	if c.now == nil || step > c.step {
		for n := max(c.step+1, step-windowSteps+1); n <= step; n++ {
			c.steps[n%windowSteps] = Sums{}
		}
		c.step = step
		c.now = &c.steps[step%windowSteps]
	}
}

func (c *counts) add(s *Sums) {
	c.total.add(s)
	c.now.add(s)
}

// Report is how things stand.
type Report struct {
	Total, Window     Sums
	Rate              float64 // share of blocks that is counted
	Rising            float64 // that which caches are warmed for, before it is counted; 0: none
	Bytes             int64   // of memory
	Dropped, Unplaced uint64  // requests that came too fast, or that no worker might have taken
}

// Report tells how things stand at that time, in nanoseconds.
func (g *Ghosts) Report(now int64) Report {
	g.counts.advance(now / int64(windowStep))
	r := Report{Total: g.counts.total, Rate: g.Rate(), Bytes: g.Bytes(), Dropped: g.counts.dropped, Unplaced: g.counts.unplaced}
	if g.rise.to != 0 {
		r.Rising = rateOf(g.rise.to)
	}
	for i := range g.counts.steps {
		r.Window.add(&g.counts.steps[i])
	}
	return r
}
