package sched

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

// contextSlack is how far beyond the longest context an estimate may lie before the request is refused here: tokens are estimated
// from bytes, runs of blanks are several times denser than text, and the engine that counts them is the better judge.
const contextSlack = 2

// A worker has more than its share when it has crowdShare times the mean in flight and crowdSlack more.
const crowdShare, crowdSlack = 1.5, 4

// verdict says which filter put a candidate out. Hard filters come first; from softened on they are soft and relax.
type verdict uint8

const (
	in verdict = iota
	outModel
	outOnly
	outPool
	outTried
	outDraining
	outDown
	outLoading
	outEjected
	outContext
	softened // the first soft one
	outAnswer
	outRising
	outRoom
	outFull
	outCrowd
	outBusy
	outDoubted
	outLater
)

// Words of rows that more can be said about.
const (
	WhyEjected = "ejected"
	WhyRising  = "in its slow start"
)

var verdicts = [...]string{
	outModel:    "other model",
	outPool:     "not in the pool",
	outOnly:     "not the owner",
	outTried:    "tried",
	outDraining: "draining",
	outDown:     "down",
	outLoading:  "loading",
	outEjected:  WhyEjected,
	outContext:  "context too short",
	outAnswer:   "context too short for the answer",
	outRising:   WhyRising,
	outRoom:     "no KV room",
	outFull:     "in-flight cap",
	outCrowd:    "more than its share",
	outBusy:     "said it is busy",
	outDoubted:  "was out, and this is a retry",
	outLater:    "no room at present",
}

func (v verdict) String() string { return verdicts[v] }

// filter lays out the candidates and applies the hard filters. It fails when nobody is left.
func (s *Scheduler) filter(now time.Time, req *Request) error {
	if req.PromptTokens <= 0 && req.Bytes > 0 && s.ratio != nil {
		req.PromptTokens = s.ratio.Tokens(req.Model, req.Bytes)
	}
	workers := s.fleet.Workers()
	s.cands = slices.Grow(s.cands[:0], len(workers))[:len(workers)]
	contextMax, served := s.serving(workers, req)
	if !served {
		return s.refuse(req)
	}
	if contextMax > 0 && req.PromptTokens > contextSlack*contextMax {
		return &ErrContext{Model: req.Model, PromptTokens: req.PromptTokens, ContextMax: contextMax}
	}
	standing := false
	s.doubted, s.softs = false, softs{level: bits.UintSize}
	for i := range s.cands {
		c := &s.cands[i]
		if c.out != in {
			continue
		}
		stands := c.worker.Standing()
		standing = standing || stands
		if c.out = hard(now, c, req, contextMax); c.out != in {
			*c = candidate{worker: c.worker, out: c.out, contextMax: c.contextMax}
			continue
		}
		s.doubted = s.doubted || !stands
		s.softs.look(now, c, req)
	}
	if s.softs.left == 0 && !standing && !s.fleet.Options().Strict {
		s.recall(now, req)
	}
	if s.softs.left == 0 {
		why, after := fleet.FirstBack(now, workers, func(i int) bool { return s.cands[i].out == outEjected })
		return &ErrNoWorker{Model: req.Model, Why: s.census() + why, After: after}
	}
	return nil
}

// serving marks who serves the model. A worker that has not told its models may serve any, but is asked only when nobody is known to.
// contextMax is the longest context among them, 0 when one of them has not told its own.
func (s *Scheduler) serving(workers []*fleet.Worker, req *Request) (contextMax int, served bool) {
	known, unknown, unlimited := false, false, false
	for i, w := range workers {
		c := &s.cands[i]
		if req.Among != nil && !req.Among(w) {
			*c = candidate{worker: w, out: outPool}
			continue
		}
		var ok bool
		if c.contextMax, ok = serves(w, req); !ok {
			*c = candidate{worker: w, out: outModel}
			unknown = unknown || !w.ModelsKnown()
			continue
		}
		if c.out = in; c.worker != w { // written only when it changed: all else of a candidate is worked out anew before it is read
			c.worker = w
		}
		known = true
		contextMax = max(contextMax, c.contextMax)
		unlimited = unlimited || c.contextMax == 0
	}
	if known {
		if unlimited {
			contextMax = 0
		}
		return contextMax, true
	}
	for i := range s.cands {
		if c := &s.cands[i]; c.out == outModel && !c.worker.ModelsKnown() {
			c.out = in
		}
	}
	return 0, unknown
}

// serves reports whether a worker is known to serve the request's model and adapter, and that model's context length.
func serves(w *fleet.Worker, req *Request) (contextMax int, ok bool) {
	if req.Model == "" && req.Adapter == "" {
		if models := w.Info().Models; len(models) == 1 {
			return models[0].ContextMax, true
		}
		return 0, true
	}
	m, ok := w.Model(req.Model)
	if req.Adapter == "" || (ok && m.ID == req.Adapter) {
		if !ok {
			return 0, false
		}
		return m.ContextMax, true
	}
	a, loaded := w.Model(req.Adapter)
	if !loaded || (req.Model != "" && (!ok || (a.Parent != "" && a.Parent != m.ID))) {
		return 0, false
	}
	return a.ContextMax, true
}

func hard(now time.Time, c *candidate, req *Request, contextMax int) verdict {
	w := c.worker
	switch {
	case req.Only != "" && w.ID != req.Only:
		return outOnly
	case slices.Contains(req.Tried, w):
		return outTried
	case w.Draining():
		return outDraining
	case !w.Healthy(now):
		if _, ejected := w.Ejection(); ejected {
			return outEjected
		}
		if w.State() == "loading" {
			return outLoading
		}
		return outDown
	case c.contextMax > 0 && req.PromptTokens > c.contextMax && (contextMax == 0 || c.contextMax < contextMax):
		return outContext
	}
	return in
}

// recall lets the ejected back in when removals or draining took the last worker that stood.
func (s *Scheduler) recall(now time.Time, req *Request) {
	for i := range s.cands {
		if c := &s.cands[i]; c.out == outEjected {
			c.out = in
			s.softs.look(now, c, req)
		}
	}
}

// refuse is the error for a model that nobody serves.
func (s *Scheduler) refuse(req *Request) error {
	var known []string
	for _, w := range s.fleet.Workers() {
		for _, m := range w.Info().Models {
			known = append(append(known, m.ID), m.Aliases...)
		}
	}
	if len(known) == 0 {
		return &ErrNoWorker{Model: req.Model, Why: s.census()}
	}
	slices.Sort(known)
	return &ErrNoModel{Model: req.Model, Adapter: req.Adapter, Known: slices.Compact(known)}
}

// census counts the candidates by the filter that put them out: "2 of 3 ejected, 1 of 3 draining". Other models' workers are left out.
func (s *Scheduler) census() string {
	var n [len(verdicts)]int
	for i := range s.cands {
		n[s.cands[i].out]++
	}
	all := len(s.cands) - n[outModel]
	var parts []string
	for v := outPool; v < softened; v++ {
		if n[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d of %d %s", n[v], all, v))
		}
	}
	if len(parts) == 0 && n[outOnly] > 0 {
		return "the one that holds what it refers to is gone"
	}
	return strings.Join(parts, ", ")
}

// softs is what the soft filters say of those that passed the hard ones.
type softs struct {
	left, flights int   // candidates, and requests in flight there
	rising        int   // of these, those in their slow start
	any           uint8 // the soft filters that put out anybody
	level         int   // of the candidate that fails least: the highest filter that must be relaxed
}

// look takes a candidate's load, and asks the soft filters.
func (f *softs) look(now time.Time, c *candidate, req *Request) {
	c.load = c.worker.Load(now)
	c.soft = soft(now, c, req)
	f.left++
	if c.worker.Rising(now) < 1 {
		f.rising++
	}
	f.flights += c.load.InFlight
	f.any |= c.soft
	f.level = min(f.level, bits.Len8(c.soft))
}

// soften applies the soft filters, each relaxed before nobody is left, the first of the verdicts first. It returns those relaxed.
func (s *Scheduler) soften(now time.Time, req *Request) string {
	if s.softs.rising > 0 && s.softs.rising < s.softs.left {
		s.rise(now)
	}
	if !req.Generates {
		s.crowd()
	}
	if s.softs.any == 0 {
		return ""
	}
	var relaxed uint8
	for i := range s.cands {
		c := &s.cands[i]
		if c.out != in {
			continue
		}
		if n := bits.Len8(c.soft); n > s.softs.level {
			c.out = softened + verdict(n)
			continue
		}
		relaxed |= c.soft
	}
	if relaxed == 0 {
		return ""
	}
	var names []string
	for v := outAnswer; v <= outDoubted; v++ {
		if relaxed&(1<<(v-outAnswer)) != 0 {
			names = append(names, v.String())
		}
	}
	return strings.Join(names, ", ")
}

// rise is the soft filter of those in their slow start, beside others that are not: each may have a part of what the others have in flight on
// the mean, that grows with time, and one request in any case. A cap holds for every policy, and bounds how many requests one that is not
// well yet can break. A cost in seconds that decays was rejected: for most policies it is no score, and where prompts are dear it bounds nothing.
func (s *Scheduler) rise(now time.Time) {
	flights, settled := 0.0, 0.0
	for i := range s.cands {
		if c := &s.cands[i]; c.out == in && c.worker.Rising(now) == 1 {
			flights, settled = flights+float64(c.load.InFlight), settled+1
		}
	}
	s.mark(outRising, func(c *candidate) bool {
		part := c.worker.Rising(now)
		return part < 1 && float64(c.load.InFlight) >= max(1, part*flights/settled)
	})
}

// mark applies a soft filter that looks at all candidates.
func (s *Scheduler) mark(filter verdict, out func(*candidate) bool) {
	s.softs.level = bits.UintSize
	for i := range s.cands {
		c := &s.cands[i]
		if c.out != in {
			continue
		}
		if out(c) {
			c.soft |= 1 << (filter - outAnswer)
			s.softs.any |= c.soft
		}
		s.softs.level = min(s.softs.level, bits.Len8(c.soft))
	}
}

// crowd is the soft filter of those that have more than their share in flight. What a request that generates nothing costs beyond its
// prefill is not known (a reranker, a transcription), so no score would spread a crowd of them: the most in flight that is fair does.
func (s *Scheduler) crowd() {
	share := crowdShare*float64(s.softs.flights)/float64(s.softs.left) + crowdSlack
	s.mark(outCrowd, func(c *candidate) bool { return float64(c.load.InFlight) > share })
}

// soft returns a bit for each soft filter but crowd that would put the candidate out, outAnswer's the lowest. Waiting for room is a matter
// of score; the room filter wants only a prompt that could ever fit, and no more than a whole cache's worth waiting.
func soft(now time.Time, c *candidate, req *Request) (bit uint8) {
	w, l := c.worker, &c.load
	if c.contextMax > 0 && req.PromptTokens+req.MaxTokens > c.contextMax {
		bit |= 1
	}
	if kv := w.KVTokensMax(); kv > 0 && (req.PromptTokens > kv || l.KVHeldTokens+req.PromptTokens > 2*kv) {
		bit |= 1 << (outRoom - outAnswer)
	}
	if most := w.InFlightMax(); most > 0 && l.InFlight >= most {
		bit |= 1 << (outFull - outAnswer)
	}
	if w.IsBusy(now) {
		bit |= 1 << (outBusy - outAnswer)
	}
	if len(req.Tried) > 0 && !w.Standing() {
		bit |= 1 << (outDoubted - outAnswer)
	}
	return bit
}
