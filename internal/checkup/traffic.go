package checkup

import "fmt"

// Traffic is what a router has seen of a worker while it served clients: what a request of ours would show, shown by theirs.
type Traffic struct {
	Streams      uint64 // with content, that no failure ended
	Unterminated uint64 // of these, without the event that ends a stream in their dialect
	Counted      uint64 // of these, with the engine's count of tokens

	Told                       uint64 // answers that told how many tokens were cached,
	PromptTokens, CachedTokens uint64 // and these
	Untold                     uint64 // answers with usage that did not
	Expected                   uint64 // of these, to prompts of which some was expected to be cached
	Left                       uint64 // clients that left before the end
}

// expectedMin is how many answers have to keep silent on cached tokens that were expected before that is taken for the engine's way: vLLM
// leaves the figure out where it is 0, and what is expected may have been evicted.
const expectedMin = 3

// Use puts what clients' requests showed in the place of what was not asked for, and judges the report anew.
func (r *Report) Use(t Traffic, injectUsage bool) {
	for i := range r.Checks {
		c := &r.Checks[i]
		if c.Level != Unseen {
			continue
		}
		switch c.Part {
		case "stream":
			t.stream(c)
		case "usage":
			t.usage(c, injectUsage, r.Info.UsageOption)
		case "cached tokens":
			t.cached(c, gains[r.Engine][c.Part])
		case "cancellation":
			if t.Left > 0 {
				c.Found = "clients have left; whether the engine stops for them shows where nothing else runs there"
			}
		}
	}
	*r = r.judged()
}

func (t *Traffic) stream(c *Check) {
	switch {
	case t.Streams == 0:
	case t.Unterminated > 0:
		c.Level, c.Found, c.Without = Partly, fmt.Sprintf("%d of %d streams of clients had no [DONE] at the end", t.Unterminated, t.Streams), unterminated
	default:
		c.Level, c.Found = Full, fmt.Sprintf("%d streams of clients, ended as they should be", t.Streams)
	}
}

func (t *Traffic) usage(c *Check, inject, option bool) {
	switch {
	case t.Streams == 0:
	case t.Counted > 0:
		c.Level, c.Found = Full, fmt.Sprintf("told in %d of %d streams of clients", t.Counted, t.Streams)
	default:
		untoldUsage(c, inject, option)
	}
}

func (t *Traffic) cached(c *Check, gain string) {
	switch {
	case t.CachedTokens > 0:
		c.Level, c.Found = Full, fmt.Sprintf("told in %d answers: %d of %d tokens", t.Told, t.CachedTokens, t.PromptTokens)
	case t.Told > 0:
		c.Found = "told, and 0 so far: no prompt came twice, or there is no prefix cache"
	case t.Expected >= expectedMin:
		c.Level, c.Found, c.Without, c.Gain = None, "not told, also where some were expected", assumedCached, gain
	case t.Untold > 0:
		c.Found = "not told so far: no prompt came twice, or the engine does not tell"
	}
}
