//go:build e2evllm

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// crowd are the users: chats that take turns at random, so that most are away while others displace what they had cached.
type crowd struct {
	url    string
	seed   uint64
	apps   applications
	direct bool // without warmpath, which has streams tell their usage; and only in APIs that tell the prompt's tokens

	mu     sync.Mutex // guards the fields below
	chance *rand.Rand
	away   []*chat
	begun  int // chats
	clock  int // of starts, ends and clearings
	phase  string
	asked  []*asked
	clears []cleared
}

// asked is one request and what came of it.
type asked struct {
	id, phase    string
	prompt, said []uint32 // tokens, as the engine tells them
	usage        usage
	begun, ended int // by crowd.clock
	failed       string
	streamed     bool
	salt         string

	// What judge finds.
	decided   *decided
	unbounded int  // tokens that a cache without a bound would have had on the same worker
	alone     bool // no other request was under way there at any time between its begin and its end
	first     bool // on a worker whose cache was cleared while it was idle: it tells so only with its next step
}

// cleared is the moment at which a worker's cache was emptied.
type cleared struct {
	worker string
	at     int
}

type usage struct {
	PromptTokens int `json:"prompt_tokens"`
	Details      *struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

func newCrowd(url string, seed uint64, direct bool, away int) *crowd {
	r := rand.New(rand.NewPCG(seed, 0))
	c := &crowd{url: url, seed: seed, direct: direct, apps: newApplications(r), chance: r}
	for range away {
		c.begin()
	}
	return c
}

func (c *crowd) begin() {
	for {
		c.begun++
		if chat := newChat(c.begun, c.seed, c.apps); !c.direct || chat.tellsTokens() {
			c.away = append(c.away, chat)
			return
		}
	}
}

// run has the crowd ask so many times, some at once.
func (c *crowd) run(ctx context.Context, phase string, requests, atOnce int) {
	c.mu.Lock()
	c.phase = phase
	c.mu.Unlock()
	var users sync.WaitGroup
	turns := make(chan struct{}, requests)
	for range requests {
		turns <- struct{}{}
	}
	close(turns)
	for range atOnce {
		users.Go(func() {
			for range turns {
				c.turn(ctx)
			}
		})
	}
	users.Wait()
}

func (c *crowd) tick() int {
	c.clock++
	return c.clock
}

// cleared notes that a worker's cache is empty now.
func (c *crowd) cleared(w *worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clears = append(c.clears, cleared{w.id(), c.tick()})
}

// turn is one turn of a chat that is away.
func (c *crowd) turn(ctx context.Context) {
	c.mu.Lock()
	i := c.chance.IntN(len(c.away))
	chat := c.away[i]
	c.away[i] = c.away[len(c.away)-1]
	c.away = c.away[:len(c.away)-1]
	a := &asked{id: fmt.Sprintf("chat-%d-%d", chat.n, chat.turn), phase: c.phase, begun: c.tick()}
	c.asked = append(c.asked, a)
	c.mu.Unlock()

	said, err := a.ask(ctx, c, chat)

	c.mu.Lock()
	defer c.mu.Unlock()
	a.ended = c.tick()
	if err != nil {
		a.failed = err.Error()
	}
	if err == nil && chat.heard(said) && len(a.prompt) < contextMax/2 {
		c.away = append(c.away, chat)
	} else {
		c.begin()
	}
}

// reply is an answer, or one event of its stream, of all APIs.
type reply struct {
	PromptTokenIDs []uint32 `json:"prompt_token_ids"`
	Choices        []struct {
		Text           string
		Message, Delta struct{ Content string }
		TokenIDs       []uint32 `json:"token_ids"`
		PromptTokenIDs []uint32 `json:"prompt_token_ids"`
	}
	Content []struct{ Text string } // of messages
	Delta   struct{ Text string }   // of their streams
	Output  []struct {              // of responses
		Content []struct{ Text string }
	}
	Usage *usage
	Error any
}

// take adds an event to what was heard before.
func (a *asked) take(data []byte) (text string, err error) {
	var r reply
	if err := json.Unmarshal(data, &r); err != nil {
		return "", fmt.Errorf("%w in %.200s", err, data)
	}
	if r.Error != nil {
		return "", fmt.Errorf("error %v", r.Error)
	}
	if r.Usage != nil {
		a.usage = *r.Usage
	}
	a.prompt = append(a.prompt, r.PromptTokenIDs...)
	for _, choice := range r.Choices {
		a.prompt, a.said = append(a.prompt, choice.PromptTokenIDs...), append(a.said, choice.TokenIDs...)
		text += choice.Text + choice.Message.Content + choice.Delta.Content
	}
	for _, part := range r.Content {
		text += part.Text
	}
	for _, item := range r.Output {
		for _, part := range item.Content {
			text += part.Text
		}
	}
	text += r.Delta.Text
	return text, nil
}

// ask sends the chat's next request and reads what comes.
func (a *asked) ask(ctx context.Context, of *crowd, c *chat) (said string, err error) {
	path, body := c.next()
	a.salt = c.salt
	if _, a.streamed = body["stream"]; a.streamed && of.direct {
		body["stream_options"] = map[string]any{"include_usage": true}
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, of.url+path, bytes.NewReader(encoded))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Request-Id", a.id)
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK || !a.streamed {
		whole, err := io.ReadAll(reply.Body)
		if err == nil && reply.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %.200s", reply.Status, whole)
		}
		if err != nil {
			return "", err
		}
		return a.take(whole)
	}
	lines := bufio.NewScanner(reply.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok || string(data) == "[DONE]" {
			continue
		}
		more, err := a.take(data)
		if err != nil {
			return "", err
		}
		said += more
	}
	return said, lines.Err()
}
