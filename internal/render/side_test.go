package render

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/llmapi"
)

// stall makes an engine answer only when open is called; before is what it still answers at once, by the question's text.
func stall(e *teller, before func(body string) bool) (open func()) {
	gate := make(chan struct{})
	e.with(func() {
		e.fault = func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
			if !before(string(body)) {
				select {
				case <-gate:
				case <-r.Context().Done():
				}
			}
			return false
		}
	})
	return sync.OnceFunc(func() { close(gate) })
}

func never(string) bool { return false }

func TestAStalledEngineSlowsNoRequestByMoreThanTheDeadline(t *testing.T) {
	e := newTeller(t, house(t, chatML))
	s := start(t, func(o *Options) { o.Deadline, o.LateMax, o.InFlightMax = 10*time.Millisecond, time.Minute, 2 })
	s.Follow(e.target("a", "warmpath"))
	s.mode(EngineSide)
	open := stall(e, never)
	defer open()
	// The engine answers nothing until open: that these calls return at all is the deadline's doing.
	for i := range 4 {
		if _, ok := s.ask(llmapi.Chat, fmt.Sprintf(`{"messages":[{"role":"user","content":"question %d"}]}`, i)); ok {
			t.Error("told by an engine that tells nothing")
		}
	}
	if state := s.state(); state.Late != 2 || state.Full != 2 || state.Asked != 2 {
		t.Errorf("of four requests two may be asked about at a time: %+v", state)
	}
	open()
	s.until("the late answers to be of use", func(State) bool {
		ids, ok := s.ask(llmapi.Chat, `{"messages":[{"role":"user","content":"question 0"}]}`)
		return ok && len(ids) > 0
	})
	s.ask(llmapi.Chat, `{"messages":[{"role":"user","content":"question 0"}]}`)
	if state := s.state(); state.Cached == 0 || state.Told < 2 {
		t.Errorf("%+v", state)
	}
}

func TestAClientThatLeavesWaitsNoLonger(t *testing.T) {
	e := newTeller(t, house(t, chatML))
	s := start(t, func(o *Options) { o.Deadline, o.LateMax = time.Hour, time.Minute })
	s.Follow(e.target("a", "warmpath"))
	s.mode(EngineSide)
	defer stall(e, never)()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var req llmapi.Request
	if err := req.Scan(llmapi.Chat, []byte(hello)); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Tokens(ctx, Ask{Model: "m", API: llmapi.Chat, Req: &req, Body: []byte(hello)}, nil); ok {
		t.Error("told by a stalled engine")
	}
}

func TestRequestsThatAskTheSameAreOneQuestion(t *testing.T) {
	e := newTeller(t, house(t, chatML))
	s := start(t, nil)
	s.Follow(e.target("a", "warmpath"))
	s.mode(EngineSide)
	before := e.count("/tokenize")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			body := fmt.Sprintf(`{"model":"m","seed":%d,"max_tokens":%d,"stream":true,"user":"u%d","messages":[{"role":"user","content":"the same"}]}`, i, i+1, i)
			var req llmapi.Request
			if err := req.Scan(llmapi.Chat, []byte(body)); err != nil {
				t.Error(err)
			}
			if ids, ok := s.Tokens(context.Background(), Ask{Model: "m", API: llmapi.Chat, Req: &req, Body: []byte(body)}, nil); !ok || len(ids) == 0 {
				t.Error(ids, ok)
			}
		})
	}
	all.Wait()
	if n := e.count("/tokenize") - before; n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestAnEngineThatDoesNotAnswerInTimeIsLeftAloneForAWhile(t *testing.T) {
	e := newTeller(t, house(t, chatML))
	var c clock
	s := start(t, func(o *Options) { o.Now = c.now })
	s.Follow(e.target("a", "warmpath"))
	s.mode(EngineSide)
	e.with(func() {
		e.fault = func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
			w.WriteHeader(http.StatusBadGateway)
			return true
		}
	})
	before := e.count("/tokenize")
	ask := func(i int) bool {
		_, ok := s.ask(llmapi.Completions, fmt.Sprintf(`{"model":"m","prompt":"number %d"}`, i))
		return ok
	}
	for i := range 20 {
		ask(i)
	}
	if n := e.count("/tokenize") - before; n != circuitBads {
		t.Errorf("asked %d times", n)
	}
	e.with(func() { e.fault = nil })
	c.pass(circuitLongest)
	if !ask(100) || !ask(101) {
		t.Error("an engine that answers again is not asked")
	}
}

func TestAnEngineThatIsSlowWithLongPromptsIsStillAskedAboutShortOnes(t *testing.T) {
	e := newTeller(t, house(t, chatML))
	var c clock
	s := start(t, func(o *Options) { o.Now = c.now })
	s.Follow(e.target("a", "warmpath"))
	s.mode(EngineSide)
	e.with(func() {
		e.fault = func(_ http.ResponseWriter, _ *http.Request, body []byte) bool { // by its own clock it takes long for much
			if len(body) > 10_000 {
				c.pass(s.o.Deadline + 1)
			}
			return false
		}
	})
	before := e.count("/tokenize")
	for i := range 10 {
		s.ask(llmapi.Completions, fmt.Sprintf(`{"model":"m","prompt":"%d %s"}`, i, strings.Repeat("long ", 4000)))
	}
	if n := e.count("/tokenize") - before; n != circuitBads {
		t.Errorf("asked %d times about long prompts", n)
	}
	if _, ok := s.ask(llmapi.Completions, `{"model":"m","prompt":"short"}`); !ok {
		t.Error("a short prompt is not asked about")
	}
}

func TestQuestionsAreSpreadOverWorkers(t *testing.T) {
	dir := house(t, chatML)
	a, b := newTeller(t, dir), newTeller(t, dir)
	s := start(t, nil)
	s.Follow(a.target("a", "warmpath"))
	s.Follow(b.target("b", "warmpath"))
	s.until("both to be asked", func(s State) bool {
		return len(s.Workers) == 2 && s.Workers[0].Form != "" && s.Workers[1].Form != ""
	})
	before := []int{a.count("/tokenize"), b.count("/tokenize")}
	for i := range 10 {
		s.ask(llmapi.Completions, fmt.Sprintf(`{"model":"m","prompt":"number %d"}`, i))
	}
	if got := []int{a.count("/tokenize") - before[0], b.count("/tokenize") - before[1]}; !slices.Equal(got, []int{5, 5}) {
		t.Error(got)
	}
}

func TestHostileAnswersTellNothing(t *testing.T) {
	endless := func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"count":1,"tokens":[1`)
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat(",1", 4096)); err != nil {
				return
			}
		}
	}
	says := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }
	}
	e := newTeller(t, house(t, chatML))
	s := start(t, func(o *Options) { o.LateMax = time.Minute })
	s.Follow(e.target("a", "warmpath"))
	s.mode(EngineSide)
	n := 0
	for what, answer := range map[string]http.HandlerFunc{
		"endless": endless, "empty": says(""), "no JSON": says("<html>"), "null": says("null"), "a number": says("7"), "no tokens": says(`{"count":0}`),
		"negative": says(`{"tokens":[1,-2]}`), "too large": says(`{"tokens":[4294967296]}`), "fractions": says(`{"tokens":[1.5]}`), "texts": says(`{"tokens":["1"]}`),
		"lists": says(`{"tokens":[[1,2]]}`), "objects": says(`{"tokens":[{"id":1}]}`), "a text": says(`{"tokens":"1,2"}`), "another count": says(`{"count":3,"tokens":[1,2]}`),
		"half": says(`{"tokens":[1,2`), "deep": says(`{"tokens":` + strings.Repeat("[", 200_000)), "exponents": says(`{"tokens":[1e3]}`), "a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		},
	} {
		e.with(func() {
			e.fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool { answer(w, r); return true }
		})
		(*s.views.Load())["m"].engines[0].broken.good()
		n++
		if ids, ok := s.ask(llmapi.Completions, fmt.Sprintf(`{"model":"m","prompt":"number %d"}`, n)); ok {
			t.Errorf("%s: %.20v", what, ids)
		}
	}
	if e.count("/elsewhere") != 0 {
		t.Error("a redirect was followed, with the worker's key")
	}
	e.with(func() { e.fault = nil })
	(*s.views.Load())["m"].engines[0].broken.good()
	if _, ok := s.ask(llmapi.Completions, `{"model":"m","prompt":"and well again"}`); !ok {
		t.Error("nothing is told after all that")
	}
}

// clock is a Manager's, which goes on when it is told to.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time       { return epoch.Add(time.Duration(c.ahead.Load())) }
func (c *clock) pass(d time.Duration) { c.ahead.Add(int64(d)) }

var epoch = time.Now()
