package digest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/sketch"
)

// Bounds: how many names are counted apart, how many are told of, and in how many steps the time is cut.
const (
	namesMax  = 10_000
	listedMax = 20
	stepsMax  = 48
	errorMax  = 120
)

// beginBlocks is how many blocks two prompts share that begin alike: a kibibyte where blocks are of 64 bytes.
const beginBlocks = 16

// others is the name of all that go beyond a bound.
const others = "others"

// stepSizes are those that the time is cut in: the first that makes no more than stepsMax.
var stepSizes = []time.Duration{time.Second, 10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}

// Builder takes records in.
type Builder struct {
	d                                 Digest
	boots, policies, outcomes         map[string]int
	hits                              map[string]*hit
	steps                             map[time.Time]*step
	stepSize                          int // of stepSizes
	tenants, prompts, models, workers users
	tries                             map[string]int // by worker
	errors, classes                   map[string]*Fault
	forecasts                         []guess
	waited                            sketch.Distribution
	reported, cached, reachable       int64
}

type hit struct {
	Hit
	ttft, itl, e2e sketch.Distribution
}

type step struct {
	Step
	ttft sketch.Distribution
}

type user struct {
	User
	ttft sketch.Distribution
}

type users map[string]*user

// New makes one that knows nothing yet.
func New() *Builder {
	return &Builder{boots: map[string]int{}, policies: map[string]int{}, outcomes: map[string]int{}, hits: map[string]*hit{}, steps: map[time.Time]*step{},
		tenants: users{}, prompts: users{}, models: users{}, workers: users{}, tries: map[string]int{}, errors: map[string]*Fault{}, classes: map[string]*Fault{}, forecasts: newGuesses()}
}

// Add takes in a record, which is the caller's again when it returns.
func (b *Builder) Add(r *declog.Record) {
	d := &b.d
	end := r.Time.Add(seconds(r.E2ESeconds))
	if d.Requests == 0 || r.Time.Before(d.From) {
		d.From = r.Time
	}
	if end.After(d.To) {
		d.To = end
	}
	d.Requests++
	count(b.boots, r.Boot)
	count(b.outcomes, cmp.Or(r.Outcome, "unknown"))
	if r.Policy != "" {
		count(b.policies, r.Policy)
	}
	t := tokensOf(r)
	d.add(t)
	d.Money += r.Money
	if r.Metered && r.CachedReported {
		d.CacheReported++
		b.reported += int64(r.PromptTokens)
		b.cached += int64(r.CachedTokens)
		b.reachable += int64(min(max(r.BestMatchedTokens, r.CachedTokens), r.PromptTokens))
	}
	if r.Hit == "declined" {
		d.Declined++
		d.DeclinedTokens += int64(max(0, r.BestMatchedTokens-r.CachedTokensEst))
	}
	if r.WaitedSeconds > 0 {
		b.waited.Add(r.WaitedSeconds)
	}
	b.times(r)
	b.step(r, t)
	b.users(r, t)
	b.faults(r)
	b.guesses(r)
}

// count counts a name, or the others where there are too many.
func count(of map[string]int, name string) {
	if _, known := of[name]; !known && len(of) >= namesMax {
		name = others
	}
	of[name]++
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// failed says that a request got no answer, which its client had not wanted.
func failed(r *declog.Record) bool { return r.Outcome != "succeeded" && r.Outcome != "cancelled" }

func tokensOf(r *declog.Record) (t Tokens) {
	if r.Metered {
		cached := r.CachedTokens
		if !r.CachedReported {
			cached = min(r.CachedTokensEst, r.PromptTokens)
		}
		return Tokens{int64(r.PromptTokens), int64(cached), int64(r.CompletionTokens)}
	}
	if r.StreamedTokenCount == 0 && r.Outcome != "succeeded" { // no engine is known to have computed it
		return t
	}
	return Tokens{int64(r.PromptTokensEst), int64(min(r.CachedTokensEst, r.PromptTokensEst)), int64(r.StreamedTokenCount)}
}

func (t *Tokens) add(o Tokens) {
	t.PromptTokens += o.PromptTokens
	t.CachedTokens += o.CachedTokens
	t.AnswerTokens += o.AnswerTokens
}

// times takes in what the client waited.
func (b *Builder) times(r *declog.Record) {
	for _, name := range []string{"all", r.Hit} {
		if !slices.Contains(hitOrder, name) {
			continue
		}
		h := b.hits[name]
		if h == nil {
			h = &hit{Hit: Hit{Name: name}}
			b.hits[name] = h
		}
		h.Requests++
		h.PromptTokens += tokensOf(r).PromptTokens
		if r.Stream && r.TTFTSeconds > 0 {
			h.ttft.Add(r.TTFTSeconds)
		}
		if r.ITLP50Seconds > 0 {
			h.itl.Add(r.ITLP50Seconds)
		}
		if r.Outcome == "succeeded" {
			h.e2e.Add(r.E2ESeconds)
		}
	}
}

// step takes a record into the piece of time in which it came. When there are too many pieces they are made longer, and merged.
func (b *Builder) step(r *declog.Record, t Tokens) {
	at := r.Time.Truncate(stepSizes[b.stepSize])
	s := b.steps[at]
	if s == nil {
		s = &step{Step: Step{Start: at}}
		b.steps[at] = s
	}
	s.Requests++
	if failed(r) {
		s.Failed++
	}
	s.add(t)
	s.EngineSeconds += r.EngineSecondsEst
	if r.Stream && r.TTFTSeconds > 0 {
		s.ttft.Add(r.TTFTSeconds)
	}
	first, last := b.d.From, r.Time
	for at := range b.steps {
		if at.After(last) {
			last = at
		}
	}
	for b.stepSize < len(stepSizes)-1 && int(last.Sub(first)/stepSizes[b.stepSize]) >= stepsMax {
		b.stepSize++
		b.merge()
	}
}

func (b *Builder) merge() {
	merged := map[time.Time]*step{}
	for _, at := range slices.SortedFunc(maps.Keys(b.steps), time.Time.Compare) {
		s, to := b.steps[at], at.Truncate(stepSizes[b.stepSize])
		m := merged[to]
		if m == nil {
			m = &step{Step: Step{Start: to}}
			merged[to] = m
		}
		m.Requests, m.Failed, m.EngineSeconds = m.Requests+s.Requests, m.Failed+s.Failed, m.EngineSeconds+s.EngineSeconds
		m.add(s.Tokens)
		m.ttft.Merge(&s.ttft)
	}
	b.steps = merged
}

func (b *Builder) users(r *declog.Record, t Tokens) {
	b.tenants.add(cmp.Or(r.Tenant, "(none)"), "", r, t)
	b.models.add(cmp.Or(r.Model, "(none)"), "", r, t)
	if r.Worker != "" {
		b.workers.add(r.Worker, "", r, t)
	}
	if n, ok := beginning(r); ok {
		b.prompts.add(r.Boot+" "+strconv.FormatUint(n, 10), r.ID, r, t)
	}
}

// beginning is the number of the block up to which prompts are alike that count as one; false of one that is shorter.
func beginning(r *declog.Record) (number uint64, ok bool) {
	left := uint64(beginBlocks)
	for _, run := range r.Blocks {
		if uint64(run.Count) >= left {
			return run.First + left - 1, true
		}
		left -= uint64(run.Count)
	}
	return 0, false
}

func (u users) add(key, name string, r *declog.Record, t Tokens) {
	if _, known := u[key]; !known && len(u) >= namesMax {
		key, name = others, others
	}
	one := u[key]
	if one == nil {
		one = &user{User: User{Name: cmp.Or(name, key)}}
		u[key] = one
	}
	one.Requests++
	if failed(r) {
		one.Failed++
	}
	one.Tokens.add(t)
	one.EngineSeconds += r.EngineSecondsEst
	if r.Stream && r.TTFTSeconds > 0 {
		one.ttft.Add(r.TTFTSeconds)
	}
}

func (b *Builder) faults(r *declog.Record) {
	var failures, moved, preempted int
	for _, t := range r.Tries {
		switch t.TakenBack() {
		case declog.TryMoved:
			moved = 1
			continue
		case declog.TryPreempted:
			preempted = 1
			continue
		}
		failures = 1
		count(b.tries, t.Worker)
		name := t.Class
		if t.Status > 0 {
			name += " " + strconv.Itoa(t.Status)
		}
		note(b.classes, name, r.ID)
	}
	b.d.Retried, b.d.Moved, b.d.Preempted = b.d.Retried+failures, b.d.Moved+moved, b.d.Preempted+preempted
	if r.Outcome == "succeeded" {
		b.d.RetriedSucceeded += failures
	}
	if failed(r) {
		text := cmp.Or(r.Refused, r.Error)
		note(b.errors, fmt.Sprintf("%s %d: %s", r.Outcome, r.Status, text[:min(len(text), errorMax)]), r.ID)
	}
}

func note(of map[string]*Fault, name, id string) {
	if of[name] == nil && len(of) >= namesMax {
		name = others
	}
	if of[name] == nil {
		of[name] = &Fault{Name: name, Example: id}
	}
	of[name].Requests++
}

// guess sums up what was predicted of one thing.
type guess struct {
	Forecast
	off    float64
	within int
	of     func(*declog.Record) (predicted, actual float64, known bool)
}

// near is how far off a prediction may be to count as right.
const near = 0.2

func newGuesses() []guess {
	return []guess{
		{Forecast: Forecast{Name: "cached tokens", Unit: "tokens"}, of: func(r *declog.Record) (float64, float64, bool) {
			return float64(min(r.CachedTokensEst, r.PromptTokens)), float64(r.CachedTokens), r.Metered && r.CachedReported && r.Worker != ""
		}},
		{Forecast: Forecast{Name: "prompt's length", Unit: "tokens"}, of: func(r *declog.Record) (float64, float64, bool) {
			return float64(r.PromptTokensEst), float64(r.PromptTokens), r.Metered && r.PromptTokens > 0
		}},
		{Forecast: Forecast{Name: "answer's length", Unit: "tokens"}, of: func(r *declog.Record) (float64, float64, bool) {
			return r.OutputTokensEst, float64(r.CompletionTokens), r.Metered && r.OutputTokensEst > 0 && r.Outcome == "succeeded"
		}},
		{Forecast: Forecast{Name: "until the first token, once placed", Unit: "s"}, of: func(r *declog.Record) (float64, float64, bool) {
			if len(r.Rows) == 0 || r.Rows[0].Worker != r.Worker || len(r.Tries) > 0 {
				return 0, 0, false
			}
			return r.Rows[0].QueuedSeconds + r.Rows[0].PrefillSeconds, r.TTFTSeconds - r.QueueSeconds, r.Stream && r.TTFTSeconds > 0
		}},
		{Forecast: Forecast{Name: "from the first token to the last", Unit: "s"}, of: func(r *declog.Record) (float64, float64, bool) {
			return r.DecodeSecondsEst, r.E2ESeconds - r.TTFTSeconds, r.Stream && r.TTFTSeconds > 0 && r.DecodeSecondsEst > 0 && r.Outcome == "succeeded"
		}},
	}
}

func (b *Builder) guesses(r *declog.Record) {
	for i := range b.forecasts {
		g := &b.forecasts[i]
		predicted, actual, known := g.of(r)
		if !known {
			continue
		}
		g.Requests++
		g.Predicted += predicted
		g.Actual += actual
		g.off += math.Abs(predicted - actual)
		if math.Abs(predicted-actual) <= near*predicted {
			g.within++
		}
	}
}
