// Package checkup looks at workers the way the router would, with the same client and the same telemetry, and says of each part how
// well it works and which flag of the engine gains more.
//
//	reports := checkup.All(ctx, []checkup.Worker{{ID: "a", URL: "http://gpu-1:8000"}}, checkup.DefaultOptions())
//	for _, c := range reports[0].Checks {
//		fmt.Println(c.Part, c.Level, c.Found, c.Gain)
//	}
//
// It sends at most three small chat requests to a worker, one for each of: a stream, the same prompt again, a client that leaves.
package checkup

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/telemetry"
	"github.com/warmpath/warmpath/internal/upstream"
)

// Level is how well a part works.
type Level string

// The levels. Only Broken must be mended: the router does without the rest.
const (
	Full   Level = "full"   // all that the router can use
	Partly Level = "partly" // less than engines can give
	None   Level = "none"   // not there
	Unseen Level = "unseen" // could not be seen, or was not asked for
	Broken Level = "broken"
)

// Check is what was found of one part.
type Check struct {
	Part    string `json:"part"`
	Level   Level  `json:"level"`
	Found   string `json:"found"`
	Without string `json:"without,omitempty"` // what the router does, or cannot do, at this level
	Gain    string `json:"gain,omitempty"`    // what gains the next level
}

// Model is a model that a worker serves.
type Model struct {
	ID            string `json:"id"`
	ContextTokens int    `json:"context_tokens,omitempty"` // 0: not told
}

// Report is one worker, looked at.
type Report struct {
	ID       string  `json:"id"`
	URL      string  `json:"url"`
	Engine   string  `json:"engine,omitempty"`
	Version  string  `json:"version,omitempty"`
	Models   []Model `json:"models,omitempty"`
	Verdict  string  `json:"verdict"` // good, improvable, broken
	Requests int     `json:"requests_sent"`
	Checks   []Check `json:"checks"`

	Info fleet.Info `json:"-"` // what the engine says of itself
}

// The verdicts on a worker.
const (
	VerdictGood       = "good"
	VerdictImprovable = "improvable" // it works, and a flag would gain something
	VerdictBroken     = "broken"
)

// Worker is whom to look at.
type Worker struct {
	ID, URL string
	Key     string // bearer credential; "" none
	Model   string // served by an engine that does not tell; "" asked from the engine

	Ranks      int      // data-parallel ranks that are told apart; 0 all together
	GPUMetrics string   // page of its GPUs' exporter; "" none
	GPUs       []string // which GPUs of that page; nil all
}

// Options are those of the router, as far as they change what a worker is asked.
type Options struct {
	Dial        upstream.Options
	Telemetry   telemetry.Options // Timeout and bounds
	InjectUsage bool              // the router asks for the usage of streams
	Requests    bool              // chat requests may be sent
	Timeout     time.Duration     // of one chat request
	FreedWithin time.Duration     // how long a slot is waited for after its client has left
}

// DefaultOptions are those of a router without a configuration.
func DefaultOptions() Options {
	return Options{Dial: upstream.DefaultOptions(), Telemetry: telemetry.DefaultOptions(), InjectUsage: true, Requests: true,
		Timeout: 60 * time.Second, FreedWithin: 3 * time.Second}
}

// workersAtOnce bounds how many workers are looked at at a time.
const workersAtOnce = 16

// All looks at every worker, several at a time, and reports in the order given.
func All(ctx context.Context, workers []Worker, o Options) []Report {
	reports := make([]Report, len(workers))
	turn := make(chan struct{}, workersAtOnce)
	var running sync.WaitGroup
	for i, w := range workers {
		running.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			reports[i] = one(ctx, w, o)
		})
	}
	running.Wait()
	return reports
}

// one looks at one worker: first what it says of itself, then what it does.
func one(ctx context.Context, w Worker, o Options) Report {
	r := Report{ID: w.ID, URL: w.URL}
	client, err := upstream.New(w.URL, o.Dial)
	if err != nil {
		r.Checks = []Check{{Part: "health", Level: Broken, Found: err.Error()}}
		return r.judged()
	}
	defer client.Close()
	asked := telemetry.NewExaminer(telemetry.Target{ID: w.ID, URL: w.URL, Key: w.Key, GPUURL: w.GPUMetrics, GPUs: w.GPUs}, o.Telemetry)
	defer asked.Close()

	s := seen{worker: w, options: o}
	s.health = askHealth(ctx, client, w, o.Telemetry)
	s.info, s.infoErr = asked.Identify(ctx)
	if s.infoErr == nil {
		s.counts, s.info, s.countsErr = asked.Counts(ctx)
		s.ranks = asked.Ranks()
	}
	if w.GPUMetrics != "" {
		s.gpu, s.gpuErr = asked.GPU(ctx)
	}
	if model := s.model(); model != "" && o.Requests && s.health.err == nil {
		p := probe{client: client, asked: asked, worker: w, options: o, model: model, seen: &s}
		p.run(ctx)
		r.Requests = p.sent
	}
	r.Engine, r.Version, r.Info = s.info.Engine, s.info.Version, s.info
	for _, m := range s.info.Models {
		r.Models = append(r.Models, Model{m.ID, m.ContextMax})
	}
	r.Checks = s.checks()
	return r.judged()
}

// Add puts further checks to the report, and judges it anew.
func (r *Report) Add(checks ...Check) {
	r.Checks = append(r.Checks, checks...)
	*r = r.judged()
}

// judged sums the checks up.
func (r Report) judged() Report {
	r.Verdict = VerdictGood
	for _, c := range r.Checks {
		if c.Level == Broken {
			r.Verdict = VerdictBroken
			return r
		}
		if c.Gain != "" {
			r.Verdict = VerdictImprovable
		}
	}
	return r
}

// seen is all that was observed of a worker; the verdicts are drawn from it alone.
type seen struct {
	worker  Worker
	options Options

	health    healthSeen
	info      fleet.Info
	infoErr   error
	counts    fleet.Counts
	countsErr error // valid when infoErr is nil
	ranks     int   // data-parallel ranks that the engine tells apart
	gpu       fleet.Counts
	gpuErr    error

	asked  bool // chat requests were sent
	stream streamSeen
	again  againSeen
	leave  leaveSeen
}

// model is the one to send requests for: the configured one, else the first that is no adapter; "" when none is known.
func (s *seen) model() string {
	name := s.worker.Model
	for _, m := range s.info.Models {
		if m.Parent == "" {
			name = cmp.Or(name, m.ID)
		}
	}
	return name
}

// healthSeen is how GET /health went.
type healthSeen struct {
	status int
	took   time.Duration
	err    error
}
