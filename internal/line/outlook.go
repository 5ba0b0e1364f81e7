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

// Outlook does all that Enter does but place, push and remember, with a copy of the entry. Its errors are those of Enter, but nothing is shed
// by chance: how likely that is stands in the outlook.
func (l *Line) Outlook(now time.Time, e Entry) (o Outlook, err error) {
	req, it := *e.Request, &e.Item
	e.Request = &req
	cost, known, err := l.look(now, &e)
	if err == nil {
		o.Heavy = it.Heavy
	}
	req.MayWait, req.Heavy = true, o.Heavy
	if o.Outlook, err = l.sched.Outlook(now, req); err == nil {
		if o.Room && !l.Queue.Waits(it) {
			return o, nil
		}
		if !known {
			if cost, err = l.sched.Price(now, req); err != nil {
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
