package proxy

import (
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/outcome"
)

// settle is the one end of every request: whatever was taken is given back, what was seen is learned, and the rest of the program
// is told. It runs after panics too.
func (x *exchange) settle() {
	f := &x.facts
	f.Ended = x.p.now()
	x.leave()
	if x.ran() {
		x.p.choice.Sent(&x.pick)
	}
	if a := x.try; a != nil {
		a.entering.Wait()
		end := gate.End{At: f.Ended, Outcome: f.Outcome.ForFleet(), Good: a.good, Released: a.settled, Computed: x.computed(f.Outcome.ForFleet()), Chain: x.chain}
		if f.Outcome == outcome.Succeeded || f.Outcome == outcome.Incomplete {
			lesson := f.Lesson(!x.req.TokenIDs && x.req.MediaParts == 0)
			end.Lesson = &lesson
		}
		a.settled = true
		x.p.gate.Settle(&a.Attempt, end)
	}
	if h := x.p.hooks.Settled; h != nil {
		h(f)
	}
}
