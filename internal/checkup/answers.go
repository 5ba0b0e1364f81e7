package checkup

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/warmpath/warmpath/internal/fleet"
)

// The verdicts on what the chat requests showed, and what is done without.
const (
	unterminated  = "a stream that broke off cannot be told from a whole one"
	assumedCached = "what is cached is assumed from what was sent there, and never corrected"
)

// unasked is the verdict on a part that no request was sent for; ok is false when one was.
func (s *seen) unasked(part string) (c Check, ok bool) {
	c = Check{Part: part, Level: Unseen}
	switch {
	case !s.options.Requests:
		c.Found = "no request was to be sent"
	case !s.asked:
		c.Found = "not asked: no model is known"
	default:
		return c, false
	}
	return c, true
}

// unanswered is the verdict on a part whose request never got as far; ok is false when it did.
func (s *seen) unanswered(part string) (c Check, ok bool) {
	c, ok = s.unasked(part)
	if !ok && (s.stream.err != nil || s.stream.status != http.StatusOK) {
		c.Found, ok = "the chat request failed", true
	}
	return c, ok
}

func (s *seen) streamCheck() Check {
	c, ok := s.unasked("stream")
	if ok {
		return c
	}
	r := &s.stream
	switch {
	case r.err != nil:
		c.Level, c.Found = Broken, r.err.Error()
	case r.status == http.StatusUnauthorized || r.status == http.StatusForbidden:
		c.Level, c.Found, c.Gain = Broken, fmt.Sprintf("a chat request is refused with %d", r.status), needsKey
	case r.status == http.StatusTooManyRequests:
		c.Found = "the engine is busy (429): try again later"
	case r.status/100 == 4 || r.status == http.StatusNotImplemented:
		c.Found = fmt.Sprintf("a chat request is refused with %d %s: the model may be made for something else", r.status, r.refusal)
	case r.status != http.StatusOK:
		c.Level, c.Found = Broken, fmt.Sprintf("a chat request is answered with %d %s", r.status, r.refusal)
	case !strings.HasPrefix(r.form, "text/event-stream"):
		c.Level, c.Found = None, fmt.Sprintf("a stream was asked for, the answer came whole (%s)", r.form)
		c.Without = "clients that stream may not understand it, and wait for the whole answer"
	case r.watched.Err != "":
		c.Level, c.Found = Broken, "the stream tells an error: "+r.watched.Err
	case r.watched.Tokens == 0:
		c.Level, c.Found = Broken, fmt.Sprintf("%d events, none with content", r.watched.Events)
	case !r.watched.Done:
		c.Level, c.Found = Partly, fmt.Sprintf("%d events, but no [DONE] at the end", r.watched.Events)
		c.Without = unterminated
	case r.oneBlock:
		c.Level, c.Found = Partly, fmt.Sprintf("%d events, all of them at once", r.watched.Events)
		c.Without, c.Gain = "clients wait for the whole answer", "turn off buffering in what stands before the engine"
	default:
		c.Level, c.Found = Full, fmt.Sprintf("%d events, ended by [DONE]", r.watched.Events)
	}
	return c
}

func (s *seen) usageCheck() Check {
	c, ok := s.unanswered("usage")
	if ok {
		return c
	}
	if u := s.stream.watched.Usage; u.HasPrompt {
		c.Level, c.Found = Full, fmt.Sprintf("a stream tells %d prompt and %d generated tokens", u.PromptTokens, u.CompletionTokens)
		return c
	}
	untoldUsage(&c, s.options.InjectUsage, s.info.UsageOption)
	return c
}

// untoldUsage says why streams tell no tokens, given that the router asks for them, and that the engine is of a kind that may be asked.
func untoldUsage(c *Check, inject, option bool) {
	c.Level, c.Without = None, "the tokens of streams are estimated, and what was cached is not learned from them"
	switch {
	case !inject:
		c.Found, c.Gain = "streams tell none unless their client asks", "set inject_usage: true"
	case !option:
		c.Found = "this kind of engine is not asked for it"
	default:
		c.Found = "asked for, and not told"
	}
}

func (s *seen) cachedCheck() Check {
	c, ok := s.unanswered("cached tokens")
	if ok {
		return c
	}
	r := &s.again
	looked := r.before.Has&r.after.Has&fleet.HasPrefixCache != 0
	switch u := r.usage; {
	case r.err != nil:
		c.Level, c.Found = Broken, "an answer that is not streamed: "+r.err.Error()
	case r.status != http.StatusOK:
		c.Level, c.Found = Unseen, fmt.Sprintf("the second request was answered with %d", r.status)
	case u.HasCached && u.CachedTokens > 0:
		c.Level, c.Found = Full, fmt.Sprintf("%d of %d tokens, the second time", u.CachedTokens, u.PromptTokens)
	case looked && r.after.PrefixHits <= r.before.PrefixHits:
		c.Level, c.Found = None, "the same prompt again found nothing cached, by the engine's own count"
		c.Without, c.Gain = "without a prefix cache there is nothing warm to route to", s.gain("prefix cache")
	case u.HasCached:
		c.Level, c.Found = Partly, "told, but 0 for the same prompt again"
		c.Without, c.Gain = "without a prefix cache there is nothing warm to route to", s.gain("prefix cache")
	case looked:
		c.Level, c.Found, c.Without, c.Gain = None, "cached by the engine's own count, not told in its answers", assumedCached, s.gain("cached tokens")
	default:
		c.Level, c.Found, c.Without, c.Gain = None, "not told", assumedCached, s.gain("cached tokens")
	}
	return c
}

func (s *seen) leaveCheck() Check {
	c, ok := s.unanswered("cancellation")
	if ok {
		return c
	}
	switch r := &s.leave; {
	case !r.asked:
		c.Found = "the engine does not tell what runs"
	case r.err != nil:
		c.Found = r.err.Error()
	case r.over:
		c.Found = "the answer was over before its client could leave"
	case !r.shown:
		c.Found = "the engine's counts did not show the request"
	case r.freed:
		c.Level, c.Found = Full, fmt.Sprintf("free again %s after the client left", short(r.took))
	default:
		c.Level, c.Found = None, fmt.Sprintf("%d still running %s after the client left, %d before", r.still, short(r.took), r.before)
		c.Without = "an engine that goes on for a client that has left keeps its slot; others' requests may also be the cause"
	}
	return c
}
