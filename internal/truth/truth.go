// Package truth compares what was predicted of engines' caches with what they report: how far off predictions are, whether a worker's exact
// predictions deserve to be used, and why tokens that could have come from a cache did not.
//
//	b := truth.New(truth.Options{})
//	changed := b.Note("a", 7, truth.Seen{Exact: true, Predicted: 1024, Best: 1024, Reported: 1024, BlockTokens: 16})
//	b.Trusted("a") // whether to use its exact predictions
//	b.Of("a").Loss // tokens, by cause
//
// A worker whose exact predictions fail steps down: it is placed by what it is assumed to have cached. What its events foretell is still
// compared, by the same rule, so that it climbs back once that is right again. The room is pure; its owner holds a lock around a Book.
package truth

import (
	"cmp"
	"slices"
	"time"
)

// Options of a Book. Zero fields are taken from DefaultOptions.
type Options struct {
	WorkersMax int // workers that are judged; those beyond are trusted and not counted
	// StepDown and Climb are the trust below which a worker steps down, and above which it climbs back.
	StepDown, Climb float64
	// Memory is over how many comparisons trust forgets.
	Memory int
}

// DefaultOptions are the defaults as visible values.
//
// Trust is a mean over the last 16 comparisons or so, older ones weighing less and less. From full trust it takes 11 in a row that are
// entirely wrong to get below one half, so that no single miss and no pair of them steps a worker down, while one whose tokens are wrong
// is found within as many requests. Nine right in ten are never taken for a failure, one in two always is. In between lies a worker whose
// trust wanders: at seven in ten by 0.08 to either side. The thresholds are five times that apart, so that chance alone carries it from
// one to the other hardly once in 700 comparisons. From no trust at all it takes 36 right ones to climb back.
func DefaultOptions() Options {
	return Options{WorkersMax: 1024, StepDown: 0.5, Climb: 0.9, Memory: 16}
}

// roundsMin is how many rounds of misses it takes to step down. Requests that were in flight together miss together, of one and the same
// cause: a cache that was reset, a flood that evicted all. That is one mistake, which is over when the next request is placed, and no
// failure of the way in which predictions are made.
const roundsMin = 3

// runMin is how many comparisons in a row, in which one side has nothing and the other has something, mean that keys differ.
const runMin = 3

// shareMemory is over how many reports Stats' means go.
const shareMemory = 128

// Seen is one request that reported how much of its prompt was cached. Requests that told the engine not to read its cache (as vLLM does
// for prompt logprobs) say nothing of it and are not noted.
type Seen struct {
	Exact     bool // Predicted is what the worker's events foretold
	Predicted int  // tokens expected to be cached on the chosen worker, as of the decision
	Best      int  // the most that any worker was expected to have
	Reported  int  // tokens that came from the cache

	// Told is what the worker's events foretold, made as Predicted would have been, though it was not used, as for a worker that stepped
	// down; below 0 they foretold nothing. With Exact it is Predicted.
	Told int

	TokensKnown                     bool // PromptPredicted was counted in the model's tokens
	PromptPredicted, PromptReported int  // tokens of the whole prompt; 0 unknown
	BlockTokens                     int  // of the engine; 0 counts as 1

	// Placed and Ended are when the request was placed and when its report came. Zero: it was in flight with no other.
	Placed, Ended time.Time
}

// Loss is tokens that were computed though they might have come from a cache, or that came from one unexpectedly, by what went wrong.
type Loss struct {
	// NotThere were promised and had been evicted or never stored: events lost, or an assumption too bold.
	NotThere uint64
	// Untold came from the cache and nobody foretold them. Nothing is lost on this request, but others may have been sent elsewhere.
	Untold uint64
	// MisKeyed differ between prediction and report because our prompt is not the engine's: its tokens, template, adapter or salt.
	MisKeyed uint64
	// MisRouted were held by another worker than the chosen one, by choice (a hit declined) or because it could not be chosen.
	MisRouted uint64
}

// Stats are what is known of one worker. Counts are totals as long as it is in the book, over all its incarnations; means go over the last
// 128 reports or so.
type Stats struct {
	Worker      string
	Incarnation uint64
	Trusted     bool
	Trust       float64 // 0..1: the share of what the events foretell that is right
	Compared    uint64  // exact predictions that told enough to change Trust
	StepDowns   uint64

	Requests        uint64 // that reported
	Right           uint64 // of these, predicted to the block
	PredictedTokens uint64
	ReportedTokens  uint64
	ErrorTokens     uint64 // sum of the absolute differences
	PromptsDiffer   uint64 // requests whose prompt has another number of tokens than the engine says
	Loss            Loss

	MeanErrorTokens float64 // mean absolute difference
	MeanErrorShare  float64 // sum of the absolute differences over that of the larger of each two, 0..1
	BiasTokens      float64 // mean of predicted less reported: above 0 too much is promised
}

// Book keeps the comparisons of all workers.
type Book struct {
	o       Options
	workers map[string]*record
}

type record struct {
	Stats
	means  means
	rounds int       // of misses, since trust was last high
	round  time.Time // when the first miss of the last round was reported
	run    int       // comparisons in a row in which one side had nothing: below 0 ours
}

// means are decayed sums of the last reports.
type means struct{ n, off, abs, larger float64 }

// New makes an empty Book.
func New(o Options) *Book {
	d := DefaultOptions()
	if o.WorkersMax <= 0 {
		o.WorkersMax = d.WorkersMax
	}
	if o.StepDown <= 0 {
		o.StepDown = d.StepDown
	}
	if o.Climb <= 0 {
		o.Climb = d.Climb
	}
	if o.Memory <= 0 {
		o.Memory = d.Memory
	}
	return &Book{o: o, workers: map[string]*record{}}
}

// Note takes one report. changed says that the worker's exact predictions are trusted from now on, or not any more. Another incarnation
// begins with full trust: what was wrong with the engine may be gone with it. Reports of earlier incarnations are passed over.
func (b *Book) Note(worker string, incarnation uint64, s Seen) (changed bool) {
	w := b.workers[worker]
	switch {
	case w == nil && len(b.workers) >= b.o.WorkersMax, w != nil && incarnation < w.Incarnation:
		return false
	case w == nil:
		w = &record{Stats: Stats{Worker: worker}}
		b.workers[worker] = w
		w.begin(incarnation)
	case incarnation > w.Incarnation:
		changed = !w.Trusted
		w.begin(incarnation)
	}
	s = s.fit()
	cause := w.compare(&s)
	w.count(&s, cause)
	if s.Told >= 0 {
		before := w.Trusted
		b.judge(w, &s)
		changed = changed != (before != w.Trusted)
	}
	return changed
}

// begin starts the judgement of an engine of which nothing is known.
func (w *record) begin(incarnation uint64) {
	w.Incarnation, w.Trusted, w.Trust = incarnation, true, 1
	w.means, w.rounds, w.round, w.run = means{}, 0, time.Time{}, 0
}

// fit brings both sides to what an engine can report. It computes the last token of every prompt, since it needs what follows it, and so
// the whole block in which that lies: a prompt that is cached to its end is reported one block short of it.
func (s Seen) fit() Seen {
	s.BlockTokens = max(1, s.BlockTokens)
	if s.Exact {
		s.Told = s.Predicted
	}
	prompt := s.PromptReported
	if prompt <= 0 {
		prompt = s.PromptPredicted
	}
	if prompt > 0 {
		most := (prompt - 1) / s.BlockTokens * s.BlockTokens
		s.Predicted, s.Best, s.Told = min(s.Predicted, most), min(s.Best, most), min(s.Told, most)
	}
	s.Predicted, s.Reported = max(0, s.Predicted), max(0, s.Reported)
	if s.PromptReported > 0 {
		s.Reported = min(s.Reported, s.PromptReported) // more than there is cannot have been cached, whatever the engine says
	}
	s.Best = max(s.Best, s.Predicted)
	return s
}

// promptsDiffer says that our prompt certainly is not the engine's.
func (s *Seen) promptsDiffer() bool {
	return s.TokensKnown && s.PromptPredicted > 0 && s.PromptReported > 0 && s.PromptPredicted != s.PromptReported
}

// Knows says whether anything was noted of a worker. Who notes a worker for the first time should make sure that it has not left meanwhile.
func (b *Book) Knows(worker string) bool { return b.workers[worker] != nil }

// Forget drops a worker, as when it left or its engine was replaced.
func (b *Book) Forget(worker string) { delete(b.workers, worker) }

// Kept is how far a worker's events are trusted, as it outlives a Book. It is true of the same process of its engine only.
type Kept struct {
	Trusted bool    `json:"trusted"`
	Trust   float64 `json:"trust"` // 0..1
}

// Keep writes it down; nil: nothing is known.
func (b *Book) Keep(worker string) *Kept {
	w := b.workers[worker]
	if w == nil {
		return nil
	}
	return &Kept{w.Trusted, w.Trust}
}

// Recall has a worker of which nothing was noted yet be judged from there on.
func (b *Book) Recall(worker string, incarnation uint64, k Kept) {
	if b.workers[worker] != nil || len(b.workers) >= b.o.WorkersMax || !(k.Trust >= 0 && k.Trust <= 1) {
		return
	}
	w := &record{Stats: Stats{Worker: worker}}
	w.begin(incarnation)
	w.Trusted, w.Trust = k.Trusted, k.Trust
	b.workers[worker] = w
}

// Trusted says whether a worker's exact predictions deserve to be used. One of which nothing is known is trusted: the handshake vouches for
// its tokens, and the numbers of its messages for its events.
func (b *Book) Trusted(worker string) bool {
	w := b.workers[worker]
	return w == nil || w.Trusted
}

// Of returns what is known of one worker.
func (b *Book) Of(worker string) Stats {
	if w := b.workers[worker]; w != nil {
		return w.stats()
	}
	return Stats{Worker: worker, Trusted: true, Trust: 1}
}

// All returns what is known of each worker, by name.
func (b *Book) All() []Stats {
	all := make([]Stats, 0, len(b.workers))
	for _, w := range b.workers {
		all = append(all, w.stats())
	}
	slices.SortFunc(all, func(a, b Stats) int { return cmp.Compare(a.Worker, b.Worker) })
	return all
}

func (w *record) stats() Stats {
	s, m := w.Stats, w.means
	if m.n > 0 {
		s.MeanErrorTokens, s.BiasTokens = m.abs/m.n, m.off/m.n
	}
	if m.larger > 0 {
		s.MeanErrorShare = m.abs / m.larger
	}
	return s
}
