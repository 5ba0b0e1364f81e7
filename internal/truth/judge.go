package truth

// cause is what a difference between prediction and report comes from.
type cause uint8

const (
	cacheDiffers cause = iota // what is in the cache is not what it was taken for
	keysDiffer                // what we looked for is not what the engine looked for
)

// compare finds the cause of a difference, and follows runs of one-sided comparisons.
//
// A prompt that has another number of tokens than the engine counted is another prompt: its keys are wrong from the first block that
// differs on. With the same number the content may still differ, and so may what is hashed beside the tokens: an adapter, a salt, a model's
// name. A key stands for everything before it as well, so that a wrong rule shows from the first block on: we look for what the engine
// never has, or it has what we never look for. Eviction takes ends, not beginnings; lost events are noticed by their numbers, and then there
// is no exact prediction. Siblings that finished in between do leave one side with nothing, once; hence it takes a run.
//
// Without events there is no such sign: a router that has just started assumes nothing of caches that are full.
func (w *record) compare(s *Seen) cause {
	if s.Told >= 0 && max(s.Told, s.Reported) > s.BlockTokens {
		switch {
		case s.Told == 0:
			w.run = min(w.run, 0) - 1
		case s.Reported == 0:
			w.run = max(w.run, 0) + 1
		default:
			w.run = 0
		}
	}
	oneSided := s.Exact && (s.Predicted == 0 || s.Reported == 0)
	if s.promptsDiffer() || oneSided && max(w.run, -w.run) >= runMin {
		return keysDiffer
	}
	return cacheDiffers
}

// count adds up a report.
func (w *record) count(s *Seen, c cause) {
	off := s.Predicted - s.Reported
	abs := max(off, -off)
	w.Requests++
	if abs < s.BlockTokens {
		w.Right++
	}
	if s.promptsDiffer() {
		w.PromptsDiffer++
	}
	w.PredictedTokens += uint64(s.Predicted)
	w.ReportedTokens += uint64(s.Reported)
	w.ErrorTokens += uint64(abs)
	l := &w.Loss
	switch {
	case c == keysDiffer:
		l.MisKeyed += uint64(abs)
	case off > 0:
		l.NotThere += uint64(abs)
	default:
		l.Untold += uint64(abs)
	}
	l.MisRouted += uint64(max(0, s.Best-max(s.Predicted, s.Reported)))

	const keep = 1 - 1.0/shareMemory
	m := &w.means
	m.n, m.off, m.abs = m.n*keep+1, m.off*keep+float64(off), m.abs*keep+float64(abs)
	m.larger = m.larger*keep + float64(max(s.Predicted, s.Reported))
}

// judge compares what the events foretold, used or not, and moves trust.
//
// A block of difference is no error: engines that speculate give up the last block that they find, and one that was just being filled may
// count or not. Where both sides have no more than that, the comparison says nothing: two zeros agree whatever is wrong with the keys, and
// a worker that gets prompts never seen before must not earn trust by them.
func (b *Book) judge(w *record, s *Seen) {
	larger := max(s.Told, s.Reported)
	if larger <= s.BlockTokens {
		return
	}
	w.Compared++
	beyond := max(0, larger-min(s.Told, s.Reported)-s.BlockTokens)
	right := 1 - float64(beyond)/float64(larger-s.BlockTokens)
	w.Trust += (right - w.Trust) / float64(b.o.Memory)
	if w.Trust > b.o.Climb {
		w.Trusted, w.rounds = true, 0
		return
	}
	if right < b.o.StepDown && (s.Placed.IsZero() || w.round.IsZero() || s.Placed.After(w.round)) {
		w.rounds, w.round = w.rounds+1, s.Ended
	}
	if w.Trusted && w.Trust < b.o.StepDown && w.rounds >= roundsMin {
		w.Trusted = false
		w.StepDowns++
	}
}
