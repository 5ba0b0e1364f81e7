package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// RunOptions are hooks and limits of a run.
type RunOptions struct {
	// Progress is called after each request, one call at a time.
	Progress func(Progress)
	// Key is sent as the bearer token when it is not empty.
	Key string
	// AtOnce is how many chats run at the same time, the next one beginning when one ends; 0 begins them at their own times.
	AtOnce int
	// SLO is what Result.Met is counted by.
	SLO SLO
	// Client sends the requests. Default: one with a connection for every chat and no time limit of its own.
	Client *http.Client
}

// SLO is what an answer must keep: its first token, and its mean gap between tokens (an answer of one token has none).
type SLO struct{ TTFT, TPOT time.Duration }

// met also holds for an SLO that is not set.
func (s SLO) met(a answer) bool {
	return s == SLO{} || a.ttft <= s.TTFT && (len(a.gaps) == 0 || a.gapMean() <= s.TPOT)
}

// Progress is how far a run has come.
type Progress struct {
	Done, Errors, Total int
	TTFTMean            time.Duration // so far
}

// Run plays the chats against the OpenAI-compatible server at baseURL (without /v1) until all have ended or the
// context does; requests in flight are then cut off. A chat whose request failed ends there, as its user would.
func Run(ctx context.Context, baseURL string, sessions []Session, o RunOptions) Result {
	client := o.Client
	if client == nil {
		transport := &http.Transport{MaxIdleConnsPerHost: len(sessions) + 1, DisableCompression: true}
		defer transport.CloseIdleConnections()
		client = &http.Client{Transport: transport}
	}
	p := &player{
		client:   client,
		url:      strings.TrimSuffix(baseURL, "/") + "/v1/chat/completions",
		options:  o,
		progress: Progress{Total: Requests(sessions)},
		begin:    time.Now(),
	}
	var chats sync.WaitGroup
	if o.AtOnce > 0 {
		for range o.AtOnce {
			chats.Go(func() { p.takeTurns(ctx, sessions) })
		}
	} else {
		for _, s := range sessions {
			chats.Go(func() { p.play(ctx, s) })
		}
	}
	chats.Wait()
	return p.result()
}

// player is one run; its fields below mu are what the chats report into.
type player struct {
	client  *http.Client
	url     string
	options RunOptions
	begin   time.Time
	taken   atomic.Int64 // sessions, by takeTurns

	mu                   sync.Mutex
	progress             Progress
	ttft, itl, tpot, e2e []time.Duration
	ttftSum              time.Duration
	total                Result
}

// takeTurns plays one session after another, whatever their starts, until none is left that nobody has taken.
func (p *player) takeTurns(ctx context.Context, sessions []Session) {
	for ctx.Err() == nil {
		i := int(p.taken.Add(1)) - 1
		if i >= len(sessions) {
			return
		}
		s := sessions[i]
		s.Start = 0
		p.play(ctx, s)
	}
}

// play runs one chat from its start to its end.
func (p *player) play(ctx context.Context, s Session) {
	if !wait(ctx, s.Start-time.Since(p.begin)) {
		return
	}
	c := newChat(s)
	for _, turn := range s.Turns {
		if !wait(ctx, turn.Think) {
			return
		}
		a, err := p.ask(ctx, s, c.body(turn))
		if err != nil && ctx.Err() != nil {
			return
		}
		p.record(a, err)
		if err != nil {
			return
		}
		c.answered(a.text)
	}
}

// wait returns false when the context ended first.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *player) record(a answer, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.progress.Done++
	if err != nil {
		p.progress.Errors++
		if p.total.FirstError == "" {
			p.total.FirstError = err.Error()
		}
	} else {
		p.total.Requests++
		if p.options.SLO.met(a) {
			p.total.Met++
		}
		p.ttft = append(p.ttft, a.ttft)
		p.ttftSum += a.ttft
		p.e2e = append(p.e2e, a.e2e)
		p.itl = append(p.itl, a.gaps...)
		if len(a.gaps) > 0 {
			p.tpot = append(p.tpot, a.gapMean())
		}
		p.total.PromptTokens += a.usage.PromptTokens
		p.total.CachedTokens += a.usage.Details.CachedTokens
		p.total.OutputTokens += a.usage.CompletionTokens
		p.progress.TTFTMean = p.ttftSum / time.Duration(len(p.ttft))
	}
	if p.options.Progress != nil {
		p.options.Progress(p.progress)
	}
}

func (p *player) result() Result {
	r := p.total
	r.Errors = p.progress.Errors
	r.Unfinished = p.progress.Total - p.progress.Done
	r.TTFT, r.ITL, r.TPOT, r.E2E = spread(p.ttft), spread(p.itl), spread(p.tpot), spread(p.e2e)
	r.Elapsed = time.Since(p.begin)
	return r
}

// chat is a conversation as its client keeps it: the messages so far as JSON, without the closing bracket.
type chat struct {
	model    []byte
	messages bytes.Buffer
}

func newChat(s Session) *chat {
	c := &chat{model: quote(s.Model)}
	c.say("system", s.System)
	return c
}

// body adds the user's message and returns the request: everything said so far, as clients of the API send it.
func (c *chat) body(t Turn) []byte {
	c.say("user", t.User)
	head, _ := json.Marshal(t.MaxTokens)
	b := make([]byte, 0, c.messages.Len()+256)
	b = append(append(b, `{"model":`...), c.model...)
	b = append(append(b, `,"messages":[`...), c.messages.Bytes()...)
	b = append(append(b, `],"max_tokens":`...), head...)
	return append(b, `,"stream":true,"stream_options":{"include_usage":true}}`...)
}

func (c *chat) answered(text string) { c.say("assistant", text) }

func (c *chat) say(role, content string) {
	if c.messages.Len() > 0 {
		c.messages.WriteByte(',')
	}
	c.messages.WriteString(`{"role":"` + role + `","content":`)
	c.messages.Write(quote(content))
	c.messages.WriteByte('}')
}

func quote(s string) []byte {
	b, _ := json.Marshal(s) // a string always encodes
	return b
}
