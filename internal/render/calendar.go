package render

import (
	"slices"
	"time"
)

// calendar is what is known of an engine's clock, for templates that print the date: the zones, as seconds ahead of UTC, in which it may
// be. A zone is told from another only when their dates differ, so there are many at first, and fewer from day to day.
type calendar struct {
	dated bool
	zones []time.Duration
}

// Zones are from 12 hours behind UTC to 14 ahead, in quarters of an hour.
const (
	zoneFirst = -12 * time.Hour
	zoneLast  = 14 * time.Hour
	zoneStep  = 15 * time.Minute
)

// clockSkew is how far an engine's clock may be off: around midnight its date is not known for so long.
const clockSkew = time.Minute

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
func zonesAt(now, that time.Time) (zones []time.Duration) {
	for zone := zoneFirst; zone <= zoneLast; zone += zoneStep {
		if day(now.Add(zone)) == that {
			zones = append(zones, zone)
		}
	}
	return zones
}

// daysAt are the dates that there are somewhere now.
func daysAt(now time.Time) []time.Time {
	return slices.CompactFunc([]time.Time{day(now.Add(zoneFirst)), day(now), day(now.Add(zoneLast))}, time.Time.Equal)
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
