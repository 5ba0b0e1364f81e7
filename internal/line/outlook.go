package line

import (
	"time"

	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/sched"
)

// Outlook is what Enter would do with a request now.
type Outlook struct {
	sched.Outlook
	Heavy bool
	Waits bool         // it would not be placed at once
	Queue flow.Outlook // if it waits
}

// Outlook does all that Enter does but place, push and remember; foresee says what Place would do. The entry and its request are spent. Errors
// are those of Enter, but nothing is shed by chance: how likely that is stands in the outlook.
func (l *Line) Outlook(now time.Time, e *Entry, foresee func(e *Entry) (sched.Outlook, error)) (o Outlook, err error) {
	it, req := &e.Item, e.Request
	cost, known, unable := l.look(now, e)
	req.MayWait, req.Heavy = true, it.Heavy
	o.Heavy = it.Heavy
	if o.Outlook, err = foresee(e); unable != nil {
		return o, unable
	}
	if err == nil {
		if o.Room && !l.Queue.Waits(it) {
			return o, nil
		}
		if !known {
			if cost, err = l.sched.Price(now, *req); err != nil {
				return o, err
			}
		}
		err = &sched.ErrNoRoom{Model: req.Model, Cost: cost}
	}
	if !l.worthIt(it, err) {
		return o, err
	}
	o.Waits = true
	if o.Queue = l.Queue.Outlook(now, *it); o.Queue.Refusal != nil {
		return o, o.Queue.Refusal
	}
	return o, nil
}
