package report

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/warmpath/warmpath/internal/digest"
)

//go:embed day.html
var dayPage string

// Day is what the report of a decision log is made of.
type Day struct {
	Title    string
	Command  string // that makes it again
	Digest   *digest.Digest
	Replay   *digest.WhatIf // nil: left out,
	NoReplay string         // and why
	Bad      int            // lines that were left out
}

// table is one of a section.
type table struct {
	Title   string
	Columns []string
	Rows    []line
}

// section is a part of the page.
type section struct {
	Title  string
	Notes  []string
	Legend []key
	Charts []chart
	Tables []table
}

// WriteDay writes the report of a decision log as one page.
func WriteDay(w io.Writer, in Day) error {
	d := in.Digest
	sections := []section{traffic(d), tails(d), caches(d), heavyUsers(d), whatFailed(d), foretold(d)}
	if in.Bad > 0 {
		sections[0].Notes = append(sections[0].Notes, fmt.Sprintf("%d lines of the log cannot be read and are left out.", in.Bad))
	}
	if in.Replay != nil {
		sections = append(sections, otherwise(in.Replay), capacityLeft(d, in.Replay))
	} else {
		left := capacityLeft(d, nil)
		left.Notes = append(left.Notes, "The log was not replayed: "+in.NoReplay+".")
		sections = append(sections, left)
	}
	return execute(w, dayPage, struct {
		Title, Command string
		Headlines      []string
		Sections       []section
	}{in.Title, in.Command, Headlines(d, in.Replay), sections})
}

// Headlines says in sentences what matters most.
func Headlines(d *digest.Digest, w *digest.WhatIf) []string {
	all := d.Hits[0]
	lines := []string{fmt.Sprintf("%s in %s: %s prompt tokens, %s of them cached, %s answer tokens; %.2f %% failed.",
		many(d.Requests, "request"), lasting(d.Seconds), short(d.PromptTokens), short(d.CachedTokens), short(d.AnswerTokens), 100*failedShare(d))}
	if d.CacheReported > 0 {
		lines = append(lines, fmt.Sprintf("Hit rate %.3f of %.3f that was reachable where prompts went; %s given up, %s tokens computed again for a shorter wait.",
			d.HitRate, d.ReachableRate, many(d.Declined, "hit"), short(d.DeclinedTokens)))
	}
	if all.TTFT.Count > 0 {
		lines = append(lines, fmt.Sprintf("Time to the first token: %s half of the time, %s nine times in ten, %s at the 99th percentile.", span(all.TTFT.P50), span(all.TTFT.P90), span(all.TTFT.P99)))
	}
	if w != nil {
		if doubt := doubted(w); doubt != "" {
			lines = append(lines, doubt)
		}
		lines = append(lines, compared(w), room(w))
	}
	return lines
}

// unlikeTimes is by which factor replayed times may differ from those that were measured until the replay is not believed.
const unlikeTimes = 2

// doubted says that a replay is not like what was measured; "" it is.
func doubted(w *digest.WhatIf) string {
	var was, replayed digest.Times
	for _, p := range w.Policies {
		switch {
		case p.Measured:
			was = p.TTFT
		case p.Name == w.Own:
			replayed = p.TTFT
		}
	}
	if was.P50 <= 0 || replayed.P50 <= 0 || max(was.P50/replayed.P50, replayed.P50/was.P50) < unlikeTimes {
		return ""
	}
	return fmt.Sprintf("The replay is not like what was measured: a first token took %s half of the time, and replayed on %s it takes %s. Do not go by the next two sentences until both agree: --fleet names workers as they are.",
		span(was.P50), w.Fleet, span(replayed.P50))
}

// failedShare is of requests that neither succeeded nor were cancelled.
func failedShare(d *digest.Digest) float64 {
	failed := 0
	for _, o := range d.Outcomes {
		if o.Name != "succeeded" && o.Name != "cancelled" {
			failed += o.Requests
		}
	}
	return float64(failed) / float64(d.Requests)
}

// compared says which policy would have had the least mean time to the first token.
func compared(w *digest.WhatIf) string {
	var own, best digest.Policy
	for _, p := range w.Policies {
		if p.Measured {
			continue
		}
		if best.Name == "" {
			best = p
		}
		if p.Name == w.Own {
			own = p
		}
	}
	if own.Name == best.Name {
		return fmt.Sprintf("Replayed, no other policy comes to a shorter time to the first token than %s: %s on the mean.", own.Name, span(own.TTFT.Mean))
	}
	return fmt.Sprintf("Replayed, %s comes to the shortest time to the first token, %s on the mean; %s to %s.", best.Name, span(best.TTFT.Mean), own.Name, span(own.TTFT.Mean))
}

// room says how much more load there is room for.
func room(w *digest.WhatIf) string {
	switch {
	case w.RateMost == 0:
		return fmt.Sprintf("There is no capacity left: fewer than %.0f %% of requests are good (%s) as it is.", 100*w.Share, w.Good)
	case w.More:
		return fmt.Sprintf("There is room for %g times the load and more, with %.0f %% of requests good (%s).", w.RateMost, 100*w.Share, w.Good)
	}
	next := w.Loads[len(w.Loads)-1]
	return fmt.Sprintf("There is room for %g times the load; at %g times %.1f %% of requests are good, fewer than %.0f %% (%s).", w.RateMost, next.Rate, 100*next.GoodShare, 100*w.Share, w.Good)
}

// many writes a number and what it counts.
func many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%s %ss", short(int64(n)), what)
}

// short writes a number of things in at most four digits.
func short(n int64) string {
	for _, unit := range []struct {
		from, size float64
		name       string
	}{{1e12, 1e12, "T"}, {1e9, 1e9, "G"}, {1e6, 1e6, "M"}, {1e4, 1e3, "k"}} {
		if v := float64(n); v >= unit.from {
			return fmt.Sprintf("%.*f%s", max(0, 2-int(math.Log10(v/unit.size))), v/unit.size, unit.name)
		}
	}
	return fmt.Sprint(n)
}

// span writes a time as people read it: in milliseconds below a second.
func span(seconds float64) string {
	if seconds < 1 {
		return fmt.Sprintf("%.3g ms", 1e3*seconds)
	}
	return fmt.Sprintf("%.3g s", seconds)
}

// lasting writes how long the log is.
func lasting(seconds float64) string {
	switch {
	case seconds < 120:
		return fmt.Sprintf("%.0f seconds", seconds)
	case seconds < 2*3600:
		return fmt.Sprintf("%.0f minutes", seconds/60)
	case seconds < 48*3600:
		return fmt.Sprintf("%.1f hours", seconds/3600)
	}
	return fmt.Sprintf("%.1f days", seconds/86400)
}

// clock writes when a step began.
func clock(t time.Time, step float64) string {
	switch {
	case step < 60:
		return t.UTC().Format("15:04:05")
	case step < 6*3600:
		return t.UTC().Format("01-02 15:04")
	}
	return t.UTC().Format("2006-01-02")
}
