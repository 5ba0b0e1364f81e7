package render

import (
	"context"
	json "encoding/json/v2"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/chat"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/tokenask"
)

// worker is one engine that is asked. Its goroutine asks it about the conversations when it came, and again when there is a reason to.
type worker struct {
	m      *Manager
	target engine
	names  []string // of its own models, adapters left out
	caller *tokenask.Caller
	broken circuit        // opened by questions for requests that got no answer
	slow   [sizes]circuit // opened by questions of that size whose answer was late
	cancel context.CancelFunc
	poke   chan struct{} // ask again now

	// Guarded by m.mu.
	models   []fleet.Model
	heard    *heard // nil: nothing yet
	err      error  // why not
	verdicts map[*files]verdict
	live     []chat.Feature // of requests that came out differently
	liveText bool
	liveWhy  string
}

func newWorker(m *Manager, t Target, cancel context.CancelFunc) *worker {
	return &worker{m: m, target: t.engine(), names: baseNames(t.Models), models: t.Models, caller: tokenask.NewCaller(t.URL, t.Key, m.o.Client), cancel: cancel, poke: make(chan struct{}, 1), verdicts: map[*files]verdict{}}
}

// again has it asked anew, soon.
func (w *worker) again() {
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// Bounds of a question that no request waits for. A served one waits for its turn in the engine.
const (
	talkTimeout   = 10 * time.Second
	servedTimeout = time.Minute
)

// outcome is how a talk ended.
type outcome uint8

const (
	failed   outcome = iota // it is tried again, after a while that doubles
	differed                // it is tried again after the longest while
	settled                 // it is tried again when there is a reason
)

// run talks to the worker until ctx ends.
func (w *worker) run(ctx context.Context) {
	wait := w.m.o.BackoffMin
	for {
		var after <-chan time.Time
		switch w.talk(ctx) {
		case failed:
			after, wait = time.After(wait), min(2*wait, w.m.o.BackoffMax)
		case differed:
			after, wait = time.After(w.m.o.BackoffMax), w.m.o.BackoffMin
		case settled:
			wait = w.m.o.BackoffMin
		}
		select {
		case <-ctx.Done():
			return
		case <-w.poke:
		case <-after:
		}
	}
}

// talk asks about all conversations and compares what comes with what we make of them.
func (w *worker) talk(ctx context.Context) outcome {
	select {
	case w.m.talks <- struct{}{}:
	case <-ctx.Done():
		return failed
	}
	defer func() { <-w.m.talks }()
	h, err := w.interview(ctx)
	if ctx.Err() != nil {
		return failed
	}
	verdicts, end := map[*files]verdict{}, settled
	if err == nil {
		for _, name := range w.names {
			f := w.m.filesOf(name, w)
			ours := f.ours()
			if ours == nil {
				continue
			}
			w.m.mu.Lock()
			before := w.verdicts[f].calendar
			w.m.mu.Unlock()
			verdicts[f] = judge(ours, h, before)
			if verdicts[f].differed > 0 {
				end = differed
			}
		}
	}
	var refusal *tokenask.StatusError
	alone := errors.Is(err, errUnasked) || errors.As(err, &refusal) && (refusal.Absent() || refusal.Keyless())
	if err != nil && !alone {
		end = failed
	}
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	w.heard, w.err, w.verdicts = h, err, verdicts
	w.m.wake()
	return end
}

// engine is what of a Target makes another engine of it.
type engine struct {
	id, kind, path, url, key string
	incarnation              uint64
}

func (t Target) engine() engine {
	return engine{t.ID, t.Engine, t.ModelPath, t.URL, t.Key, t.Incarnation}
}

func baseNames(models []fleet.Model) (names []string) {
	for _, model := range models {
		if model.Parent == "" {
			names = append(names, model.ID)
		}
	}
	return names
}

var (
	errUnasked = errors.New("no way is known to ask this engine for tokens")
	errUseless = errors.New("the engine refuses the plainest chat and text")
)

// interview asks the engine about every conversation, in the most telling form that it has.
func (w *worker) interview(ctx context.Context) (*heard, error) {
	if len(tokenask.Forms[w.target.kind]) == 0 || len(w.names) == 0 {
		return nil, errUnasked
	}
	var err error
	for i := range tokenask.Forms[w.target.kind] {
		f := &tokenask.Forms[w.target.kind][i]
		var h *heard
		if h, err = w.ask(ctx, f, w.names[0]); err == nil {
			return h, nil
		}
		var refusal *tokenask.StatusError
		if !errors.As(err, &refusal) || !refusal.Absent() {
			break
		}
	}
	return nil, err
}

func (w *worker) ask(ctx context.Context, f *tokenask.Form, model string) (*heard, error) {
	h := &heard{form: f, answers: make([][]uint32, len(chat.Conversations)), at: w.m.o.Now()}
	some := false
	for i, c := range chat.Conversations {
		r := c.Request()
		if r.Features&f.Blind != 0 {
			continue
		}
		ids, err := w.askOne(ctx, f, model, r)
		var refusal *tokenask.StatusError
		switch {
		case err == nil:
			h.answers[i], some = ids, true
		case errors.As(err, &refusal) && refusal.Refused(f):
		default:
			return nil, err
		}
	}
	if !some {
		return nil, errUseless
	}
	h.digest = digestOf(h.answers)
	if chats, _ := h.offers(); chats && f.Partial {
		if err := w.serve(ctx, h, model); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func (w *worker) askOne(ctx context.Context, f *tokenask.Form, model string, a chat.Request) ([]uint32, error) {
	question, err := a.Question(model)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, talkTimeout)
	defer cancel()
	return f.Tokens(ctx, w.caller, question, a)
}

// serve has the engine serve one token of the first conversation, and compares what it says its prompt was with what it said before: vLLM
// renders some models in another way than its /tokenize does. What /tokenize does not heed is asked about in the same way.
func (w *worker) serve(ctx context.Context, h *heard, model string) error {
	at := 0
	for h.answers[at] == nil { // some chat has an answer, and chats come first
		at++
	}
	ids, count, err := w.served(ctx, chat.Conversations[at], model)
	switch {
	case err != nil:
		return err
	case ids != nil && !slices.Equal(ids, h.answers[at]):
		h.unserved = fmt.Sprintf("%s makes other tokens of a chat than POST /v1/chat/completions does", h.form.Name)
	case count != len(h.answers[at]):
		h.unserved = fmt.Sprintf("%s makes %d tokens of a chat of which POST /v1/chat/completions makes %d", h.form.Name, len(h.answers[at]), count)
	case ids != nil:
		for i, c := range chat.Conversations {
			if c.Request().Features&h.form.Blind == 0 {
				continue
			}
			if ids, _, err := w.served(ctx, c, model); err == nil {
				h.answers[i] = ids
			}
		}
	}
	return ctx.Err()
}

// served are the tokens of a conversation as the engine serves it, and how many they are; ids is nil where it does not tell them.
func (w *worker) served(ctx context.Context, c chat.Conversation, model string) (ids []uint32, count int, err error) {
	question, err := c.Served(model)
	if err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, servedTimeout)
	defer cancel()
	answer, err := w.caller.Post(ctx, "/v1/chat/completions", question)
	if err != nil {
		return nil, 0, err
	}
	if ids, err = tokenask.ReadTokens(answer, "prompt_token_ids"); err == nil {
		return ids, len(ids), nil
	}
	var said struct {
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(answer, &said, tokenask.ReadOptions); err != nil {
		return nil, 0, errors.New("POST /v1/chat/completions: the answer is no JSON object")
	}
	return nil, said.Usage.Prompt, nil
}
