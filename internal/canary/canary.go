// Package canary sends requests of one token to workers of its own accord: to those that had nothing to do for a while, so that one that broke
// meanwhile is found by no client, and to those that are out and whose time is up, so that no client has to try them.
//
//	c := canary.New(g, canary.Options{Idle: func() time.Duration { return 30 * time.Second }})
//	err := c.Run(ctx) // until ctx is done
//
// What it costs is bounded: one request a worker at one time, AtOnceMax in all, and one in Idle for a worker that is well.
package canary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/header"
	"github.com/warmpath/warmpath/internal/intake"
	"github.com/warmpath/warmpath/internal/upstream"
)

// The outcomes of a canary.
const (
	Good    = "good"
	Failed  = "failed"
	Late    = "late"    // no answer within Timeout
	Refused = "refused" // 4xx, or 503: it says nothing
)

// RequestID begins the request id by which engines' logs tell canaries from clients' requests.
const RequestID = "warmpath-canary-"

const (
	// AtOnceMax bounds the canaries under way.
	AtOnceMax = 8
	// Timeout is how long an engine with nothing to do may take for one token. Beyond it, it counts as hung.
	Timeout = 10 * time.Second
	// lookEvery is how often workers are looked at: a worker whose time is up waits for no longer.
	lookEvery = 100 * time.Millisecond
	// formsKept bounds the workers whose form is remembered; beyond it all are asked by the first one again.
	formsKept = 4096
	// answerBytesMax is what is read of an answer.
	answerBytesMax = 64 << 10
)

// forms are the requests that are tried, one after the other until the worker takes one. Every engine that generates knows completions,
// models without a chat template as well; fronts may know chats alone.
var forms = [...]struct{ path, body string }{
	{"/v1/completions", `{"model":%s,"prompt":"1","max_tokens":1,"temperature":0}`},
	{"/v1/chat/completions", `{"model":%s,"messages":[{"role":"user","content":"1"}],"max_tokens":1,"temperature":0}`},
}

// Options of a Sender.
type Options struct {
	Idle    func() time.Duration                           // how long a worker has had nothing to do before it gets a canary; 0: there are none
	Done    func(worker *fleet.Worker, outcome string)     // each canary's end; nil: nobody wants to know
	Ejected func(worker *fleet.Worker, why fleet.Ejection) // one put its worker out; nil: nobody wants to know
}

// Sender sends canaries.
type Sender struct {
	o    Options
	gate *gate.Gate
	all  sync.WaitGroup

	mu    sync.Mutex
	under map[uint64]bool // workers with one under way, by incarnation
	form  map[uint64]int  // the one of forms that a worker is asked by, by incarnation
	sent  uint64
}

// New makes a sender. Nothing is sent before Run.
func New(g *gate.Gate, o Options) *Sender {
	if o.Done == nil {
		o.Done = func(*fleet.Worker, string) {}
	}
	if o.Ejected == nil {
		o.Ejected = func(*fleet.Worker, fleet.Ejection) {}
	}
	return &Sender{o: o, gate: g, under: map[uint64]bool{}, form: map[uint64]int{}}
}

// Run sends canaries until ctx is done, and waits for those under way. It returns nil.
func (s *Sender) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	defer s.all.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if idle := s.o.Idle(); idle > 0 {
			s.send(ctx, idle)
		}
	}
}

// send begins the canaries that are due.
func (s *Sender) send(ctx context.Context, idle time.Duration) {
	s.mu.Lock()
	under := maps.Clone(s.under)
	s.mu.Unlock()
	for _, c := range s.gate.Canaries(idle, AtOnceMax-len(under), under) {
		s.mu.Lock()
		s.under[c.Worker.Incarnation] = true
		s.sent++
		form, id := s.form[c.Worker.Incarnation], fmt.Sprint(RequestID, s.sent)
		s.mu.Unlock()
		s.all.Go(func() { s.one(ctx, c, form, id) })
	}
}

// one sends one canary and takes what comes of it.
func (s *Sender) one(ctx context.Context, c *gate.Canary, form int, id string) {
	end, outcome := ask(ctx, c, form, id)
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.under, c.Worker.Incarnation)
	}()
	s.mu.Lock()
	if end.Useless && form+1 < len(forms) {
		if len(s.form) >= formsKept {
			clear(s.form)
		}
		s.form[c.Worker.Incarnation], end.Useless = form+1, false
	}
	s.mu.Unlock()
	why, ejected := s.gate.EndCanary(c, end)
	if outcome != "" {
		s.o.Done(c.Worker, outcome)
	}
	if ejected {
		s.o.Ejected(c.Worker, why)
	}
}

// ask asks a worker for one token. An outcome of "" is none: the router stops, or could not ask.
func ask(ctx context.Context, c *gate.Canary, form int, id string) (end gate.CanaryEnd, outcome string) {
	limited, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	model, err := json.Marshal(c.Model)
	if err != nil {
		return end, ""
	}
	fields := intake.ToWorker(nil, header.Fields{{Name: "User-Agent", Value: "warmpath-canary"}, {Name: "Content-Type", Value: "application/json"}},
		intake.Toward{RequestID: id, Key: c.Key, Rank: c.Rank, KeyIsOurs: true})
	res, err := c.Client.Do(limited, &upstream.Request{Method: http.MethodPost, Path: forms[form].path, Header: fields, Body: fmt.Appendf(nil, forms[form].body, model)})
	if err != nil {
		return broken(ctx, limited, err)
	}
	defer res.Body.Close()
	switch {
	case res.Status == http.StatusTooManyRequests || res.Status == http.StatusServiceUnavailable:
		return gate.CanaryEnd{Busy: true, After: res.Header.RetryAfter(time.Now())}, Refused
	case res.Status >= http.StatusInternalServerError && res.Status != http.StatusNotImplemented:
		return gate.CanaryEnd{Faulty: true, Fault: fleet.ServerError}, Failed
	case res.Status != http.StatusOK:
		return gate.CanaryEnd{Useless: true}, Refused
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, answerBytesMax))
	if err != nil {
		return broken(ctx, limited, err)
	}
	if !json.Valid(body) || !strings.Contains(string(body), `"choices"`) {
		return gate.CanaryEnd{Faulty: true, Fault: fleet.BadShape}, Failed
	}
	return gate.CanaryEnd{Good: true}, Good
}

// broken sorts out a canary without an answer.
func broken(ctx, limited context.Context, err error) (end gate.CanaryEnd, outcome string) {
	var up *upstream.Error
	switch {
	case ctx.Err() != nil:
		return end, ""
	case limited.Err() != nil:
		return gate.CanaryEnd{Faulty: true, Fault: fleet.Timeout}, Late
	case !errors.As(err, &up):
		return gate.CanaryEnd{Faulty: true, Fault: fleet.BadShape}, Failed
	}
	switch up.Class {
	case upstream.Exhausted, upstream.Invalid, upstream.Source: // the router's own trouble
		return end, ""
	case upstream.Refused:
		end.Fault = fleet.RefusedConnection
	case upstream.Reset:
		end.Fault = fleet.Reset
	case upstream.Timeout:
		end.Fault = fleet.Timeout
	default:
		end.Fault = fleet.BadShape
	}
	end.Faulty = true
	return end, Failed
}
