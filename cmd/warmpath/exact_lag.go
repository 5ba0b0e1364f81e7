package main

import (
	"fmt"
	"time"

	"github.com/warmpath/warmpath/internal/kvfeed"
)

// eventsLateAfter is from when on it is told that a worker's cache events come late. An engine that prefills without a pause puts hundreds of
// blocks out in a second; messages that nobody has to wait for take milliseconds.
const eventsLateAfter = time.Second

// lateEvents says that they do; "" when not.
func lateEvents(f *kvfeed.Status) string {
	if !f.Stamped || f.Lag < eventsLateAfter {
		return ""
	}
	return fmt.Sprintf("its cache events came up to %v late in the last minute (told from %v on): what it stored or gave up meanwhile was not known", f.Lag.Round(100*time.Millisecond), eventsLateAfter)
}

// lags fills in how late a worker's events come.
func (s *modeState) lags(f *kvfeed.Status) {
	if !f.Stamped {
		return
	}
	lag, offset := f.Lag.Seconds(), f.ClockOffset.Seconds()
	s.LagSeconds, s.OffsetSeconds = &lag, &offset
	if late := lateEvents(f); late != "" && s.Why == "" {
		s.Why = late
	} else if late != "" {
		s.Why += "; " + late
	}
}

// lateGain is what to look at then.
const lateGain = "look at the processors of the router and of the engine, and at the network between them (docs/RUNBOOK.md, WarmpathEventsLate)"
