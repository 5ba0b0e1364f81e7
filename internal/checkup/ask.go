package checkup

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/header"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/telemetry"
	"github.com/warmpath/warmpath/internal/upstream"
)

// Sizes of the requests, in tokens; a word is about one.
const (
	streamTokens = 8   // generated for the stream
	leaveTokens  = 256 // asked for by the client that leaves at the first of them
	wordsLeast   = 80
	wordsMost    = 1200
)

// answerBytesMax bounds how much of a whole answer is read.
const answerBytesMax = 1 << 20

// streamSeen is how the streamed request went.
type streamSeen struct {
	err      error
	status   int
	refusal  string // what an answer other than 200 says
	form     string // content type
	oneBlock bool   // head and whole body were there at once
	watched  llmapi.Stream
}

// againSeen is how the same prompt went once more, not streamed.
type againSeen struct {
	asked         bool
	err           error
	status        int
	usage         llmapi.Usage
	before, after fleet.Counts
}

// leaveSeen is what a client that left did to the engine's count of running requests.
type leaveSeen struct {
	asked  bool
	err    error
	over   bool // the answer had ended by itself
	shown  bool // the engine's count showed the request
	freed  bool
	took   time.Duration // until it was freed
	before int           // running before
	still  int           // running at the end
}

func askHealth(ctx context.Context, client upstream.Client, w Worker, o telemetry.Options) healthSeen {
	limit := o.Timeout
	if limit <= 0 {
		limit = telemetry.DefaultOptions().Timeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v (telemetry timeout)", limit))
	defer cancel()
	began := time.Now()
	answer, err := client.Do(ctx, &upstream.Request{Method: http.MethodGet, Path: "/health", Header: headers(w)})
	if err != nil {
		return healthSeen{err: err}
	}
	defer answer.Body.Close()
	return healthSeen{status: answer.Status, took: time.Since(began)}
}

func headers(w Worker) header.Fields {
	h := header.Fields{{Name: "User-Agent", Value: "warmpath"}}
	if w.Key != "" {
		h.Add("Authorization", "Bearer "+w.Key)
	}
	return h
}

// probe sends the chat requests to one worker, one after the other.
type probe struct {
	client  upstream.Client
	asked   *telemetry.Examiner
	worker  Worker
	options Options
	model   string
	seen    *seen
	prompt  string
	sent    int
}

func (p *probe) run(ctx context.Context) {
	p.prompt = prompt(p.seen.info)
	p.seen.asked = true
	p.seen.stream = p.streamOnce(ctx)
	if p.seen.stream.status != http.StatusOK || p.seen.stream.err != nil {
		return // what does not chat need not be asked twice
	}
	p.seen.again = p.askAgain(ctx)
	if p.seen.counts.Has&fleet.HasRunning != 0 {
		p.seen.leave = p.leaveEarly(ctx)
	}
}

// prompt is like no other, so that nothing of it is cached, and long enough for some of its blocks to be cached afterwards.
func prompt(info fleet.Info) string {
	words := min(max(2*info.BlockTokens+32, wordsLeast), wordsMost)
	for _, m := range info.Models {
		if m.ContextMax > 0 {
			words = min(words, m.ContextMax/4)
		}
	}
	list := []string{"one", "two", "three", "four", "five", "six", "seven", "eight"}
	var b strings.Builder
	b.WriteString(rand.Text())
	for i := range words {
		b.WriteString(" " + list[i%len(list)])
	}
	return b.String() + " and so on"
}

// send asks for a chat completion; more goes into the body.
func (p *probe) send(ctx context.Context, tokens int, more map[string]any) (*upstream.Response, error) {
	body := map[string]any{"model": p.model, "max_tokens": tokens, "temperature": 0,
		"messages": []map[string]string{{"role": "user", "content": p.prompt}}}
	for k, v := range more {
		body[k] = v
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	h := headers(p.worker)
	h.Add("Content-Type", "application/json")
	p.sent++
	return p.client.Do(ctx, &upstream.Request{Method: http.MethodPost, Path: "/v1/chat/completions", Header: h, Body: text})
}

func (p *probe) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, p.options.Timeout, fmt.Errorf("no whole answer within %v (--timeout)", p.options.Timeout))
}

// asksUsage says whether the router would ask this engine for the usage of streams.
func (s *seen) asksUsage() bool { return s.options.InjectUsage && s.info.UsageOption }

func (p *probe) streamOnce(ctx context.Context) (out streamSeen) {
	ctx, cancel := p.limited(ctx)
	defer cancel()
	more := map[string]any{"stream": true}
	if p.seen.asksUsage() {
		more["stream_options"] = map[string]bool{"include_usage": true}
	}
	answer, err := p.send(ctx, streamTokens, more)
	if err != nil {
		return streamSeen{err: err}
	}
	defer answer.Body.Close()
	out.status, out.form = answer.Status, answer.Header.Get("Content-Type")
	if answer.Status != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, answerBytesMax))
		out.refusal = llmapi.ScanReply(llmapi.Chat, text).Err
		return out
	}
	out.watched.Reset(llmapi.Chat, false)
	out.oneBlock = true
	for {
		out.oneBlock = out.oneBlock && answer.Body.More()
		piece, err := answer.Body.Next()
		if errors.Is(err, io.EOF) {
			out.watched.Flush()
			return out
		}
		if err != nil {
			out.err = err
			return out
		}
		out.watched.Feed(piece)
	}
}

func (p *probe) askAgain(ctx context.Context) againSeen {
	out := againSeen{asked: true}
	out.before, _, _ = p.asked.Counts(ctx)
	limited, cancel := p.limited(ctx)
	defer cancel()
	answer, err := p.send(limited, 1, nil)
	if err != nil {
		out.err = err
		return out
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, answerBytesMax))
	out.err, out.status = err, answer.Status
	out.usage = llmapi.ScanReply(llmapi.Chat, text).Usage
	out.after, _, _ = p.asked.Counts(ctx)
	return out
}

// countPause is the pause between two looks at what runs.
const countPause = 25 * time.Millisecond

// leaveEarly starts a long answer, waits until the engine counts it as running, leaves, and waits until it no longer does.
func (p *probe) leaveEarly(ctx context.Context) leaveSeen {
	out := leaveSeen{asked: true}
	counts, _, err := p.asked.Counts(ctx)
	if err != nil {
		out.err = err
		return out
	}
	out.before = counts.Running
	limited, cancel := p.limited(ctx)
	defer cancel()
	more := map[string]any{"stream": true}
	if p.seen.info.Engine != "openai" && p.seen.info.Engine != "ollama" {
		more["ignore_eos"] = true // servers that nobody knows may refuse what the interface does not have
	}
	answer, err := p.send(limited, leaveTokens, more)
	if err != nil {
		out.err = err
		return out
	}
	defer answer.Body.Close()
	var watched llmapi.Stream
	watched.Reset(llmapi.Chat, false)
	for !watched.FirstContent {
		piece, err := answer.Body.Next()
		if err != nil {
			out.over = true
			return out
		}
		watched.Feed(piece)
	}
	out.shown = p.running(ctx, func(n int) bool { out.still = n; return n > out.before })
	left := time.Now()
	answer.Body.Close()
	out.freed = p.running(ctx, func(n int) bool { out.still = n; return n <= out.before })
	out.took = time.Since(left)
	return out
}

// running looks at the number of running requests until it is as wanted; false when that does not come about in time.
func (p *probe) running(ctx context.Context, wanted func(int) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, p.options.FreedWithin)
	defer cancel()
	tick := time.NewTicker(countPause)
	defer tick.Stop()
	for {
		if counts, _, err := p.asked.Counts(ctx); err == nil && wanted(counts.Running) {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}
