// Package sched chooses the worker for a request: filter, score, pick, reserve, and enter the prompt in the prefix index, all in one
// call that its owner makes under its own lock. It is pure: the time is an argument, chance is seeded.
//
//	s := sched.New(f, index, book, outputs, ratio, sched.Options{Policy: "warm-cost", Seed: seed})
//	d, r, err := s.Place(now, sched.Request{Model: "m", Chain: chain, Bytes: n, PromptTokens: 900, Streamed: true, Generates: true})
//	// d says who and why, in its best 8 rows; r carries the request's cost until r.Release
//
// warm-cost, the default policy, takes the least of what the placement costs this request and the others, in seconds:
//
//	(1+min(phi,2.5)) * Q + w + phi * v   wait before its prefill, its own prefill, and what that prefill delays
//	+ G * (d0 + d1*(B+1) + d2*(KV+L))    its own decoding among those already there
//	+ G * B * (d1 + d2*L)                what its presence in the batch costs them
//	+ reuse * b*u * youth                what it displaces from the cache
//	+ min(gain, phi * wait for room)     what wears off the lure of fast workers that are full
package sched

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/room"
	"github.com/warmpath/warmpath/internal/tie"
)

// RowsMax is how many candidates a Decision keeps.
const RowsMax = 8

// Options of a Scheduler.
type Options struct {
	Policy string // a key of Policies; "" is DefaultPolicy
	Seed   uint64 // of the chance that decides ties
	// Without are terms of the default policy that are left out, to measure what they are good for; 0 none.
	Without Terms
	// EnterMax bounds the blocks of a prompt that Place enters in the index; 0 is all. What is left is for its owner to enter, see
	// Decision.Entered.
	EnterMax int
	Room     room.Limits // for requests that may wait
}

// Request is what choosing needs to know.
type Request struct {
	Model        string // "" is any worker
	Adapter      string // must be loaded beside the model; "" none
	Tenant       string
	Chain        prefix.Chain // empty: routed by load
	Held         []int32      // leading blocks of Chain on each worker, by slot, where that is known exactly; nil asks the index
	Known        []Known      // the same by the prompt's own tokens and the workers' own word, one for each size of blocks; nil: not known
	Bytes        int          // of the prompt; 0 is the chain's length
	PromptTokens int          // estimate
	MaxTokens    int          // the request's own limit on its answer; 0 unsaid
	SessionKey   uint64       // 0 none
	Streamed     bool
	Needs        llmapi.Needs // what it asks of its model besides text, which tells answers' lengths
	Prompts      int          // independent ones, and answers to each of them, 0 is 1
	Answers      int
	Generates    bool                     // an answer is decoded; false for embeddings, token counts and the like
	Tried        []*fleet.Worker          // never chosen again
	Only         string                   // id of the one worker that can serve, as the owner of a response id
	Among        func(*fleet.Worker) bool // who may serve it at all, as a pool's workers; nil: everybody
	Rows         []Row                    // memory for those of the decision; may be nil
	MayWait      bool                     // ErrNoRoom is wanted rather than a place in an engine's queue
	Waited       bool                     // it has waited for room, and goes where that is
	Heavy        bool                     // its prefill is out of all proportion: it takes one of few lanes
	Overdue      bool                     // it has waited for longer than its prefill takes
	AtOnce       bool                     // it is not put behind others in an engine, see room.Ask
	Yields       bool                     // it leaves room to others who would go before it, see room.Ask
}

// Hit says what a decision made of the warm prefixes it found.
type Hit uint8

// The hits. Declined goes before the others: the chosen worker may hold a part.
const (
	Miss     Hit = iota // the chosen worker holds nothing of the prompt
	Partial             // something
	Full                // at least 80 % of it
	Declined            // another worker that could have served holds clearly more
)

// String is the hit's name in logs and metrics.
func (h Hit) String() string {
	return [...]string{"miss", "partial", "hit", "declined"}[min(h, Declined)]
}

// Row is one candidate as it was scored. The seconds are engine time, worked out under every policy alike.
type Row struct {
	Worker           *fleet.Worker `json:"-"`
	ID               string        `json:"worker"`
	MatchedTokens    int           `json:"matched_tokens"`
	QueuedSeconds    float64       `json:"queued_seconds"`     // Q
	WaitPriceSeconds float64       `json:"wait_price_seconds"` // min(phi, 2.5) * Q
	TollSeconds      float64       `json:"toll_seconds"`
	PrefillSeconds   float64       `json:"prefill_seconds"` // w
	DelaySeconds     float64       `json:"delay_seconds"`   // v
	Price            float64       `json:"price"`           // phi
	DecodeSeconds    float64       `json:"decode_seconds"`
	BatchSeconds     float64       `json:"batch_seconds"`
	DisplacedSeconds float64       `json:"displaced_seconds"`
	TotalSeconds     float64       `json:"total_seconds"`
	Score            float64       `json:"score"` // by the policy in force; the least wins
	InFlight         int           `json:"in_flight"`
	Load             float64       `json:"load"`                    // the same, foreign requests included
	LoadedTokens     int           `json:"loaded_tokens,omitempty"` // of those matched, from slower memory
	Pressure         float64       `json:"pressure,omitempty"`      // what was put into its cache lately for its size
	BurdenSeconds    float64       `json:"burden_seconds"`          // the part of the total that is due to others there
	ByEvents         bool          `json:"by_events,omitempty"`     // matched is what the worker told, and not what is assumed of it
	Why              string        `json:"why,omitempty"`           // the filter that put it out
}

// Decision says who was chosen and why. It is the caller's to keep.
type Decision struct {
	Policy            string        `json:"policy"`
	Worker            *fleet.Worker `json:"-"`
	Rows              []Row         `json:"rows"` // at most RowsMax, the chosen one first
	Hit               Hit           `json:"-"`
	MatchedTokens     int           `json:"matched_tokens"` // on the chosen worker
	MatchedBlocks     int32         `json:"-"`              // the same in blocks of the request's chain, before it was entered
	Entered           int           `json:"-"`              // leading blocks of the chain that are in the index as expected there
	BestMatchedTokens int           `json:"best_matched_tokens"`
	ByEvents          bool          `json:"by_events,omitempty"` // matched is what the chosen worker told
	ToldTokens        int           `json:"-"`                   // what it told, also where that is doubted; -1 when it told nothing
	BlockTokens       int           `json:"-"`                   // of its engine; 0 unknown
	OutputTokens      float64       `json:"output_tokens"`       // expected
	Relaxed           string        `json:"relaxed,omitempty"`   // soft filters that would have left nobody
	Reason            string        `json:"reason"`

	Tie      tie.Rule     `json:"-"` // by which it was taken of those with the least score
	Cost     Cost         `json:"-"` // of it there
	expected []prefix.Key // what withdraws the prompt from those expected on the worker
}

// ErrNoModel says that no worker serves the model. It is the client's mistake.
type ErrNoModel struct {
	Model, Adapter string
	Known          []string // the models that are served, sorted
}

func (e *ErrNoModel) Error() string {
	name := e.Model
	if e.Adapter != "" {
		name += " with adapter " + e.Adapter
	}
	return fmt.Sprintf("no worker serves the model %q; served are: %s", name, strings.Join(e.Known, ", "))
}

// ErrContext says that the prompt is longer than any worker takes. It is the client's mistake.
type ErrContext struct {
	Model        string
	PromptTokens int // estimate
	ContextMax   int // of the roomiest worker
}

func (e *ErrContext) Error() string {
	return fmt.Sprintf("the prompt has about %d tokens; the longest context that workers of model %q take is %d tokens", e.PromptTokens, e.Model, e.ContextMax)
}

// ErrNoWorker says that workers serve the model, or might, but none can take the request now. It is worth trying again.
type ErrNoWorker struct {
	Model string
	Why   string        // the filters that put the workers out, with counts
	After time.Duration // until the first of those that are out is tried; 0: none is, or now
}

func (e *ErrNoWorker) Error() string {
	if e.Why == "" {
		return "no worker is in the fleet (setting workers, flag --worker)"
	}
	return fmt.Sprintf("no worker of model %q can take the request now: %s", e.Model, e.Why)
}

// Scheduler places requests. It is not synchronised: its owner's lock guards it together with the fleet and the index.
type Scheduler struct {
	fleet   *fleet.Fleet
	index   *prefix.Index
	book    *cost.Book
	outputs *cost.Outputs
	ratio   *cost.Ratio
	policy  string
	pick    Policy
	// enterMax is Options.EnterMax, and the largest int for all.
	enterMax int
	without  Terms
	room     room.Limits
	chance   *rand.Rand

	// Reused from one decision to the next.
	req     Request
	cands   []candidate
	depth   []int32
	doubted bool // a candidate that is in was put out, and its time is up
	softs   softs
	ties    []tie.Standing // of candidates with the least score, see least
	rule    tie.Rule       // by which one of them was taken

	slots    []slot
	turn     uint64
	seen     means
	turnover float64 // of the fleet's caches, see filled
}

// New makes a scheduler. index, outputs and ratio may be nil: no prefix is warm then, answers are of default length.
// An unknown policy panics: it is checked with SetPolicy where it comes from a user.
func New(f *fleet.Fleet, x *prefix.Index, b *cost.Book, o *cost.Outputs, r *cost.Ratio, opts Options) *Scheduler {
	s := &Scheduler{fleet: f, index: x, book: b, outputs: o, ratio: r, without: opts.Without, chance: newChance(opts.Seed)}
	if s.room = opts.Room; s.room == (room.Limits{}) {
		s.room = room.DefaultLimits()
	}
	if s.enterMax = opts.EnterMax; s.enterMax <= 0 {
		s.enterMax = math.MaxInt
	}
	if opts.Policy == "" {
		opts.Policy = DefaultPolicy
	}
	if err := s.SetPolicy(opts.Policy); err != nil {
		panic(err)
	}
	return s
}

// SetPolicy switches the policy from the next request on.
func (s *Scheduler) SetPolicy(name string) error {
	p, ok := Policies[name]
	if !ok {
		return fmt.Errorf("unknown policy %q; there are: %s (setting policy)", name, strings.Join(PolicyNames(), ", "))
	}
	s.policy, s.pick = name, p
	return nil
}

// SetRoom changes when a worker has room for requests that may wait.
func (s *Scheduler) SetRoom(l room.Limits) { s.room = l }

// Reseed begins the chance that decides ties anew.
func (s *Scheduler) Reseed(seed uint64) { s.chance = newChance(seed) }

func newChance(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x77617270617468)) }

// Policy is the name of the policy in force.
func (s *Scheduler) Policy() string { return s.policy }

// PolicyNames returns the names of all policies, sorted.
func PolicyNames() []string {
	return slices.Sorted(maps.Keys(Policies))
}

// Place chooses a worker for a request, reserves on it and enters the prompt in the index. Errors are *ErrNoModel, *ErrContext,
// *ErrNoWorker or, for a request that may wait, *ErrNoRoom; then nothing was reserved.
func (s *Scheduler) Place(now time.Time, req Request) (Decision, *fleet.Reservation, error) {
	s.req = req // a field, because a policy's argument would be allocated
	d, r, err := s.place(now, &s.req)
	s.req = Request{}
	return d, r, err
}

// CanPlace reports whether Place would find a worker now. It reserves nothing.
func (s *Scheduler) CanPlace(now time.Time, req Request) bool {
	s.req = req
	err := s.filter(now, &s.req)
	s.req = Request{}
	return err == nil
}

// weighed filters the candidates and scores them.
func (s *Scheduler) weighed(now time.Time, req *Request) (j judgement, relaxed string, err error) {
	if err = s.filter(now, req); err == nil {
		relaxed = s.soften(now, req)
		j = s.judge(req)
		s.score(j)
	}
	return j, relaxed, err
}

func (s *Scheduler) place(now time.Time, req *Request) (Decision, *fleet.Reservation, error) {
	j, relaxed, err := s.weighed(now, req)
	if err != nil {
		return Decision{Policy: s.policy}, nil, err
	}
	if req.MayWait && !s.makeRoom(now, req, j.output) {
		return Decision{Policy: s.policy}, nil, &ErrNoRoom{Model: req.Model, Cost: s.cheapest(&j)}
	}
	chosen, reason := s.choose(now, req)
	d := s.explain(chosen, reason, relaxed, j)

	c := &s.cands[chosen]
	need := c.need(j)
	need.Heavy = req.Heavy
	r := s.fleet.Reserve(c.worker, need, now)
	s.seen.add(c.uncached, c.cached, j.output)
	s.turn++
	l := s.slot(c.worker)
	l.turn = s.turn
	s.filled(c, &j)
	d.expected = s.expectBlocks(c, req)
	d.Cost = Cost{Prefill: c.booking, Decode: s.decoding(c, &j)}
	if s.index != nil && len(req.Chain.Keys) > 0 && req.Held == nil {
		d.Entered = s.index.EnterHead(c.worker.Slot, req.Chain, now.UnixNano(), s.enterMax)
	}
	return d, r, nil
}

// choose asks the policy, and overrules it for a worker that is due for a probe, on a request's first try: prompts that are warm
// elsewhere would never try it.
func (s *Scheduler) choose(now time.Time, req *Request) (int, string) {
	chosen, reason := s.pick(s, req)
	if !s.doubted || len(req.Tried) > 0 {
		return chosen, reason
	}
	for i := range s.cands {
		if c := &s.cands[i]; c.out == in && c.worker.ProbeDue(now) {
			s.rule = tie.Rule{}
			return i, reasonProbe
		}
	}
	return chosen, reason
}
