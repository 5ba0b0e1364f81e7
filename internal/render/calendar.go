package render

import (
	"slices"
	"time"
)

// calendar is what is known of an engine's clock, for templates that print the date: the zones, as times ahead of UTC, in which it may be.
// A zone is told from another only when their dates differ, so there are many at first, and fewer from midnight to midnight.
type calendar struct {
	dated bool
	zones []time.Duration
}

// zones are those of the world, in summer and winter: whole hours from 12 behind UTC to 14 ahead, and those between.
var zones = func() (all []time.Duration) {
	for hour := -12; hour <= 14; hour++ {
		all = append(all, time.Duration(hour)*time.Hour)
	}
	for _, minutes := range []int{-570, -210, -150, 210, 270, 330, 345, 390, 525, 570, 630, 765, 825} {
		all = append(all, time.Duration(minutes)*time.Minute)
	}
	return all
}()

// clockSkew is how far an engine's clock may be off: around midnight its date is not known for so long. Then it is asked, no more often
// than every dateEvery.
const (
	clockSkew = 10 * time.Second
	dateEvery = 10 * time.Second
)

// day is a date, as a time at that date's noon.
func day(t time.Time) time.Time {
	year, month, date := t.UTC().Date()
	return time.Date(year, month, date, 12, 0, 0, 0, time.UTC)
}

// at is a time at the engine's date of now. ok is false where the date is not known for sure.
func (c calendar) at(now time.Time) (when time.Time, ok bool) {
	if !c.dated {
		return now, true
	}
	for i, zone := range c.zones {
		early, late := day(now.Add(zone-clockSkew)), day(now.Add(zone+clockSkew))
		if i == 0 {
			when = early
		}
		if early != when || late != when {
			return when, false
		}
	}
	return when, len(c.zones) > 0
}

// zonesAt are the zones in which it is that day now.
func zonesAt(now, that time.Time) (those []time.Duration) {
	for _, zone := range zones {
		if day(now.Add(zone)) == that {
			those = append(those, zone)
		}
	}
	return those
}

// daysAt are the dates that there are somewhere now.
func daysAt(now time.Time) []time.Time {
	return slices.CompactFunc([]time.Time{day(now.Add(-12 * time.Hour)), day(now), day(now.Add(14 * time.Hour))}, time.Time.Equal)
}

// narrowed is c with what was seen now: the zones that both allow, or those seen now where the engine's clock was set since.
func (c calendar) narrowed(seen []time.Duration) calendar {
	both := slices.DeleteFunc(slices.Clone(c.zones), func(zone time.Duration) bool { return !slices.Contains(seen, zone) })
	if len(both) == 0 {
		both = seen
	}
	return calendar{dated: true, zones: both}
}

// common are the zones of both: engines in different zones have no common date, and no common tokens.
func (c calendar) common(o calendar) calendar {
	if !c.dated || !o.dated {
		return calendar{dated: c.dated || o.dated, zones: append(slices.Clone(c.zones), o.zones...)}
	}
	return calendar{dated: true, zones: slices.DeleteFunc(slices.Clone(c.zones), func(zone time.Duration) bool { return !slices.Contains(o.zones, zone) })}
}
