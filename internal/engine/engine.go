// Package engine is a simulated inference engine: it batches, caches and queues like a real one and answers over the same
// HTTP interface, but its text is made up and its times come from a published profile instead of a GPU.
//
// Core (step.go, blocks.go) is pure and runs in virtual time, so that a replay can drive thousands of hours of it:
//
//	c := engine.NewCore(cost.Profiles["h100-8b"])
//	c.Submit(&engine.Sequence{PromptTokens: 1000, OutputTokens: 20}, 0)
//	end, _ := c.Begin(0) // a step is planned: its prefills, its decodes and when it will end
//	for _, e := range c.End() { fmt.Println(e.Sequence.Generated, "tokens after", end) }
//
// Server puts a Core behind a socket and lets wall time run it, TimeScale times faster than the profile:
//
//	s := engine.New(engine.Options{Profile: cost.Profiles["h100-8b"], Model: "sim-8b", TimeScale: 10})
//	go http.Serve(listener, s.Handler())
//	err := s.Run(ctx)
//
// It follows vLLM's scheduler where the two can be compared: running sequences before waiting ones, first come first
// served, prompts cut into chunks that share one token budget with the decodes, full blocks cached by a chained key and
// evicted least recently used first, preemption by recomputation when the cache is full. Metric names, labels and error
// shapes are vLLM's too. Every answer says that it is simulated (Server header, system_fingerprint).
package engine

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/dialog"
	"github.com/warmpath/warmpath/internal/prefix"
)

// Options describe one simulated engine; the zero value of every field but Profile has a default.
type Options struct {
	// Profile is the engine's timing and limits, from cost.Profiles.
	Profile cost.Profile
	// Model is the only model served. Default "sim".
	Model string
	// TimeScale makes the engine that many times faster than its profile. All times it reports are wall time. Default 1.
	TimeScale float64
	// ContextMax is max_model_len in tokens. Default 131,072, never more than the profile's KV cache.
	ContextMax int
	// OutputMean is the mean length in tokens of an answer that is not cut by max_tokens. Default 256.
	OutputMean int
	// Seed makes answers: the same seed, prompt and request seed give the same text and length. Default 0.
	Seed uint64
	// WaitingMax bounds the waiting queue; what comes beyond it gets 503. Default 16,384.
	WaitingMax int
	// BodyBytesMax bounds a request body. Default 64 MiB.
	BodyBytesMax int64
	// ResponsesMax is how many answers of /v1/responses are kept, the oldest going first. Default 1,024.
	ResponsesMax int
	// Events is told what happens to the cache; nil: nobody is.
	Events *Events
}

// Events is who publishes what happens to the cache. The funcs are called under the engine's lock and must not call the engine.
type Events struct {
	// Begin says that a sequence of these tokens, with these keys of its full blocks, may store them until end is called.
	Begin func(salt string, tokens []uint32, keys []prefix.Key) (end func())
	Block func(key prefix.Key, stored bool) // a block became findable, or was given up
	Step  func()                            // a step ended: what it changed may leave
	// Sources answers GET /kv_event_sources.
	Sources http.Handler
}

// Defaults of Options.
const (
	defaultContextMax   = 131_072
	defaultOutputMean   = 256
	defaultWaitingMax   = 16_384
	defaultBodyBytesMax = 64 << 20
	defaultResponsesMax = 1024
)

// Server is one simulated engine. Its methods may be called from any goroutine.
type Server struct {
	options     Options
	fingerprint string
	start       time.Time
	wake        chan struct{} // capacity 1: work was submitted
	stopped     chan struct{} // closed when Run returns
	responses   *dialog.Kept

	mu     sync.Mutex // guards the fields below; held for one plan, settlement or snapshot, never across I/O
	core   *Core
	meters *meters
	slip   time.Duration
}

// Stats is a consistent snapshot of one engine. Tokens are totals since the start.
type Stats struct {
	Running, Waiting int
	// ContextTokens is the sum of the contexts of running sequences, generated tokens included.
	ContextTokens int
	// KVUsage is the share of cache blocks held by running sequences, 0..1.
	KVUsage float64
	Counts
	// Slip is the wall time by which the engine ran late because the machine could not keep up; 0 on a machine that can.
	Slip time.Duration
}

// New makes an engine. It answers requests once Run steps it.
func New(o Options) *Server {
	o = o.withDefaults()
	s := &Server{
		options:     o,
		fingerprint: "warmpath-sim-" + o.Profile.Name,
		start:       time.Now(),
		wake:        make(chan struct{}, 1),
		stopped:     make(chan struct{}),
		responses:   dialog.NewKept(o.ResponsesMax),
		core:        NewCore(o.Profile),
		meters:      newMeters(),
	}
	if o.Events != nil {
		s.core.OnBlock(o.Events.Block)
	}
	return s
}

func (o Options) withDefaults() Options {
	if o.Model == "" {
		o.Model = "sim"
	}
	if o.TimeScale <= 0 {
		o.TimeScale = 1
	}
	if o.ContextMax <= 0 {
		o.ContextMax = defaultContextMax
	}
	o.ContextMax = min(o.ContextMax, o.Profile.KVTokensMax)
	if o.OutputMean <= 0 {
		o.OutputMean = defaultOutputMean
	}
	if o.WaitingMax <= 0 {
		o.WaitingMax = defaultWaitingMax
	}
	if o.BodyBytesMax <= 0 {
		o.BodyBytesMax = defaultBodyBytesMax
	}
	if o.ResponsesMax <= 0 {
		o.ResponsesMax = defaultResponsesMax
	}
	return o
}

// Stats returns the engine's counts as they are now.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats()
}

// stats is Stats for a caller that holds mu.
func (s *Server) stats() Stats {
	return Stats{
		Running: s.core.Running(), Waiting: s.core.Waiting(),
		ContextTokens: s.core.ContextTokens(), KVUsage: s.core.KVUsage(),
		Counts: s.core.Counts(), Slip: s.slip,
	}
}

// Handler serves the engine's HTTP interface.
func (s *Server) Handler() http.Handler {
	return s.routes()
}

// String names the engine in logs: profile, model and speed.
func (s *Server) String() string {
	return fmt.Sprintf("%s serving %s at %gx", s.options.Profile.Name, s.options.Model, s.options.TimeScale)
}
