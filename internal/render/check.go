package render

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/chat"
)

// checkBytesMax bounds the requests that are compared with an engine.
const checkBytesMax = 256 << 10

// sample is the question about a request that is to be compared with what an engine makes of it; nil for most requests.
func (m *Manager) sample(v *view, a chat.Request, name string, now time.Time) []byte {
	last := v.counts.sampled.Load()
	if now.UnixNano()-last < int64(m.o.SampleEvery) || a.Bytes > checkBytesMax || len(v.engines) == 0 || a.Features&v.form.Blind != 0 {
		return nil
	}
	if a.Chat != nil && !v.chats || a.Chat == nil && !v.texts || !v.counts.sampled.CompareAndSwap(last, now.UnixNano()) {
		return nil
	}
	question, err := a.Question(name)
	if err != nil {
		return nil
	}
	return question
}

// check compares a request's tokens with an engine's, later and elsewhere: the request does not wait.
func (m *Manager) check(v *view, a chat.Request, name string, question []byte, ours []uint32) {
	w := v.pick(m.o.Now(), a.Bytes)
	if w == nil {
		return
	}
	ours = slices.Clone(ours)
	m.spawn(func() {
		select {
		case m.talks <- struct{}{}:
		default:
			return
		}
		defer func() { <-m.talks }()
		ctx, cancel := context.WithTimeout(m.ctx, talkTimeout)
		defer cancel()
		theirs, err := v.form.Tokens(ctx, w.caller, question, a)
		if _, known := v.calendar.at(m.o.Now()); err != nil || !known {
			return
		}
		v.counts.checks.Add(1)
		if slices.Equal(ours, theirs) {
			return
		}
		v.counts.mismatches.Add(1)
		at := 0
		for at < len(ours) && at < len(theirs) && ours[at] == theirs[at] {
			at++
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		w.liveWhy = fmt.Sprintf("a request came out differently at token %d (%d tokens of ours, %d of the engine's)", at+1, len(ours), len(theirs))
		if a.Chat == nil {
			w.liveText = true
		} else if !slices.Contains(w.live, a.Features) {
			w.live = append(w.live, a.Features)
		}
		m.wake()
	})
}

// again has an engine asked about the conversations because its date is not known.
func (m *Manager) again(v *view, now time.Time) {
	last := v.counts.pointed.Load()
	if len(v.engines) == 0 || now.UnixNano()-last < int64(dateEvery) || !v.counts.pointed.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	for _, w := range v.engines {
		w.again()
	}
}
