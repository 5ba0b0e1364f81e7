package forecast

import (
	"cmp"
	"math"
	"slices"

	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/sketch"
)

// modelsMax bounds the models that are told apart; all beyond them are one, without a name.
const modelsMax = 256

// Errors are how far off the forecasts of one model's requests were, for those that ran to their end.
type Errors struct {
	Requests  int // with an answer whose length is known,
	WithinP50 int // no longer than its P50: half of them, where forecasts are right,
	WithinP90 int // or than its P90: nine of ten
	// Tokens of the answers: expected, real, and the sum of what each was off.
	OutputExpected, OutputTokens, OutputError float64
	// Prefills are those that were seen alone, streamed and behind no queue; their seconds as above.
	Prefills                                      int
	PrefillExpected, PrefillSeconds, PrefillError float64

	PrefillOff sketch.Distribution // |expected - real| / real of prefills
}

// Output notes an answer.
func (e *Errors) Output(f *Forecast, tokens int) {
	real := float64(tokens)
	e.Requests++
	if real <= f.OutputP50 {
		e.WithinP50++
	}
	if real <= f.OutputP90 {
		e.WithinP90++
	}
	e.OutputExpected += f.OutputTokens
	e.OutputTokens += real
	e.OutputError += math.Abs(f.OutputTokens - real)
}

// Prefill notes the seconds of a prefill. Those that no clock tells from nothing are left out.
func (e *Errors) Prefill(expected, real float64) {
	if !(real > 0) || math.IsInf(real, 0) {
		return
	}
	e.Prefills++
	e.PrefillExpected += expected
	e.PrefillSeconds += real
	e.PrefillError += math.Abs(expected - real)
	e.PrefillOff.Add(math.Abs(expected-real) / real)
}

// Learn learns the length of a finished request's answer, and holds what was expected of the request against what came of it. One that did
// not end by itself says nothing.
func (b *Book) Learn(f *Forecast, l *sched.Lesson, c *sched.Course) {
	if !l.Whole {
		return
	}
	e := b.of(l.Model)
	if l.Generated > 0 && f.asking.Answers > 0 {
		e.Output(f, l.Generated)
		if b.outputs != nil {
			b.outputs.LearnShaped(f.asking, max(1, l.Generated/f.Sequences()))
		}
	}
	if took, alone := c.Prefill(); alone {
		e.Prefill(f.alone, took.Seconds())
	}
}

func (b *Book) of(model string) *Errors {
	e := b.models[model]
	if e == nil && len(b.models) >= modelsMax {
		model = ""
		e = b.models[model]
	}
	if e == nil {
		e = new(Errors)
		b.models[model] = e
	}
	return e
}

// Model is how forecasts of one model turned out.
type Model struct {
	Name string // "" for all that there was no room for
	Errors
	PrefillOffP50, PrefillOffP90 float64 // of Errors.PrefillOff
}

// Models are all of them, by name, to keep.
func (b *Book) Models() (all []Model) {
	for name, e := range b.models {
		m := Model{Name: name, Errors: *e, PrefillOffP50: e.PrefillOff.Quantile(0.5), PrefillOffP90: e.PrefillOff.Quantile(0.9)}
		m.PrefillOff = sketch.Distribution{} // it goes on changing
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b Model) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
