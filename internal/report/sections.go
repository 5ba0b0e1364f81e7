package report

import (
	"fmt"
	"math"

	"github.com/warmpath/warmpath/internal/digest"
)

// Colours of the day's curves.
const (
	firstColour  = "var(--c1)"
	secondColour = "var(--c2)"
	thirdColour  = "var(--c3)"
	strongColour = "var(--ours)"
)

// traffic is what came, step by step.
func traffic(d *digest.Digest) section {
	s := section{Title: "Traffic"}
	s.Notes = []string{fmt.Sprintf("From %s to %s UTC, in steps of %s. Most was decided by %s.", d.From.UTC().Format("2006-01-02 15:04:05"), d.To.UTC().Format("2006-01-02 15:04:05"), lasting(d.Step), d.Policy)}
	requests, prompts, cached, answers := curve{name: "requests", colour: strongColour, heavy: true}, curve{name: "prompt tokens", colour: firstColour},
		curve{name: "cached", colour: secondColour, heavy: true}, curve{name: "answer tokens", colour: thirdColour}
	t := table{Columns: []string{"from, UTC", "requests", "failed", "prompt tokens", "cached", "answer tokens", "TTFT p50", "p90", "p99"}}
	for i, x := range d.Steps {
		at := float64(i) * d.Step / stepUnit(d)
		for _, c := range []struct {
			curve *curve
			value float64
		}{{&requests, float64(x.Requests)}, {&prompts, float64(x.PromptTokens)}, {&cached, float64(x.CachedTokens)}, {&answers, float64(x.AnswerTokens)}} {
			c.curve.x, c.curve.y = append(c.curve.x, at), append(c.curve.y, c.value/d.Step)
		}
		t.Rows = append(t.Rows, line{Name: clock(x.Start, d.Step), Cells: append([]string{fmt.Sprint(x.Requests), fmt.Sprint(x.Failed), short(x.PromptTokens), short(x.CachedTokens), short(x.AnswerTokens)}, times(x.TTFT)...)})
	}
	unit := map[float64]string{1: "seconds", 60: "minutes", 3600: "hours", 86400: "days"}[stepUnit(d)]
	s.Charts = []chart{over("requests a second, over "+unit, requests), over("tokens a second, over "+unit, prompts, cached, answers)}
	s.Legend = []key{{"requests, all", strongColour}, {"prompt tokens", firstColour}, {"cached of these", secondColour}, {"answer tokens", thirdColour}}
	s.Tables = []table{t}
	return s
}

// stepUnit is in how many seconds the axis of time counts.
func stepUnit(d *digest.Digest) float64 {
	for _, unit := range []float64{86400, 3600, 60} {
		if d.Seconds >= 3*unit {
			return unit
		}
	}
	return 1
}

// over draws curves over the same x.
func over(caption string, curves ...curve) chart {
	d := drawing{label: caption, x: axis{low: math.Inf(1)}, curves: curves}
	for _, c := range curves {
		for i := range c.x {
			d.x.low, d.x.high, d.y.high = min(d.x.low, c.x[i]), max(d.x.high, c.x[i]), max(d.y.high, c.y[i])
		}
	}
	if !(d.x.high > d.x.low) {
		d.x.low, d.x.high = min(d.x.high, 0), d.x.high+1
	}
	d.y.high = max(d.y.high*1.05, 1e-3)
	return chart{Caption: caption, Drawing: d.svg()}
}

// times are the cells of quantiles.
func times(t digest.Times) []string {
	if t.Count == 0 {
		return []string{"-", "-", "-"}
	}
	return []string{span(t.P50), span(t.P90), span(t.P99)}
}

// tails are the times of requests by what the cache did for them.
func tails(d *digest.Digest) section {
	s := section{Title: "Times, by what the cache did", Notes: []string{
		"TTFT, to the first token, is of streams. ITL, between tokens, is of each answer's median. E2E is of requests that succeeded."}}
	t := table{Columns: []string{"", "requests", "TTFT p50", "p90", "p99", "ITL p50", "p90", "p99", "E2E p50", "p90", "p99"}}
	for _, h := range d.Hits {
		cells := append([]string{short(int64(h.Requests))}, times(h.TTFT)...)
		t.Rows = append(t.Rows, line{Name: h.Name, Cells: append(append(cells, times(h.ITL)...), times(h.E2E)...), Ours: h.Name == "all"})
	}
	s.Tables = []table{t}
	if w := d.WaitedSeconds; w.Count > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("%s waited for room on a worker: %s half of the time, %s at the 99th percentile.", many(w.Count, "request"), span(w.P50), span(w.P99)))
	}
	return s
}

// caches is what they saved, and what was given up.
func caches(d *digest.Digest) section {
	s := section{Title: "Hits, and hits that were given up"}
	if d.CacheReported > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("Of %s prompt tokens %s were cached. Of answers that told how many were, the share is %.3f; had each gone where most of its prompt was held, it would have been %.3f.",
			short(d.PromptTokens), short(d.CachedTokens), d.HitRate, d.ReachableRate))
	} else {
		s.Notes = append(s.Notes, fmt.Sprintf("Of %s prompt tokens %s were taken to be cached: no answer told how many were (warmpath doctor says which flag of the engine has it told).", short(d.PromptTokens), short(d.CachedTokens)))
	}
	s.Notes = append(s.Notes, fmt.Sprintf("%s given up: %s tokens were computed again. Under warm-cost that is because going to the warm worker would have cost more than it saves there.", many(d.Declined, "hit"), short(d.DeclinedTokens)))
	t := table{Columns: []string{"", "requests", "share", "prompt tokens"}}
	for _, h := range d.Hits[1:] {
		t.Rows = append(t.Rows, line{Name: h.Name, Cells: []string{short(int64(h.Requests)), percent(float64(h.Requests) / float64(d.Requests)), short(h.PromptTokens)}})
	}
	s.Tables = []table{t, users("Beginnings that prompts share", "like request", d.Prompts)}
	return s
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// users is a table of whom requests belong to.
func users(title, what string, all []digest.User) table {
	t := table{Title: title, Columns: append([]string{what}, userColumns...)}
	for _, u := range all {
		t.Rows = append(t.Rows, line{Name: u.Name, Cells: userCells(u)})
	}
	return t
}

var userColumns = []string{"requests", "failed", "prompt tokens", "cached", "answer tokens", "engine seconds", "TTFT p90"}

func userCells(u digest.User) []string {
	p90 := "-"
	if u.TTFTP90 > 0 {
		p90 = span(u.TTFTP90)
	}
	return []string{fmt.Sprint(u.Requests), fmt.Sprint(u.Failed), short(u.PromptTokens), short(u.CachedTokens), short(u.AnswerTokens), fmt.Sprintf("%.1f", u.EngineSeconds), p90}
}

// heavyUsers are those who asked most, and who answered.
func heavyUsers(d *digest.Digest) section {
	workers := table{Title: "Workers", Columns: append(append([]string{"worker"}, userColumns...), "busy", "failed tries")}
	for _, w := range d.Workers {
		workers.Rows = append(workers.Rows, line{Name: w.Name, Cells: append(userCells(w.User), percent(w.BusyShare), fmt.Sprint(w.FailedTries))})
	}
	return section{Title: "Who asked, and who answered", Notes: []string{"The heaviest first, by tokens that had to be computed. Engine seconds are what was expected."},
		Tables: []table{users("Tenants", "tenant", d.Tenants), users("Models", "model", d.Models), workers}}
}

// whatFailed is what went wrong.
func whatFailed(d *digest.Digest) section {
	s := section{Title: "Errors and retries"}
	outcomes := table{Columns: []string{"outcome", "requests", "share"}}
	for _, o := range d.Outcomes {
		outcomes.Rows = append(outcomes.Rows, line{Name: o.Name, Cells: []string{fmt.Sprint(o.Requests), percent(float64(o.Requests) / float64(d.Requests))}})
	}
	s.Tables = append(s.Tables, outcomes)
	s.Notes = append(s.Notes, fmt.Sprintf("%s failed by a worker and tried on another; %d of these succeeded.", many(d.Retried, "request"), d.RetriedSucceeded))
	if d.Moved > 0 {
		s.Notes = append(s.Notes, many(d.Moved, "request")+" taken back from a worker that was drained or removed, and tried on another: no failure.")
	}
	if d.Preempted > 0 {
		s.Notes = append(s.Notes, many(d.Preempted, "request")+" gave way to more urgent ones, and waited again: no failure.")
	}
	for _, part := range []struct {
		title, what string
		all         []digest.Fault
	}{{"What clients were told", "error", d.Errors}, {"Tries that failed", "class", d.Tries}} {
		t := table{Title: part.title, Columns: []string{part.what, "requests", "such as"}}
		for _, f := range part.all {
			t.Rows = append(t.Rows, line{Name: f.Name, Cells: []string{fmt.Sprint(f.Requests), f.Example}})
		}
		if len(t.Rows) > 0 {
			s.Tables = append(s.Tables, t)
		}
	}
	return s
}

// foretold is what was predicted against what it was.
func foretold(d *digest.Digest) section {
	t := table{Columns: []string{"", "requests", "predicted, mean", "was, mean", "off by", "within a fifth"}}
	for _, f := range d.Forecast {
		value := func(v float64) string {
			if f.Unit == "s" {
				return span(v)
			}
			return fmt.Sprintf("%.1f", v)
		}
		t.Rows = append(t.Rows, line{Name: f.Name, Cells: []string{fmt.Sprint(f.Requests), value(f.Predicted), value(f.Actual), percent(f.OffShare), percent(f.Within)}})
	}
	return section{Title: "Predicted against actual", Notes: []string{"Off by: how far each request was off on the mean, over the mean of what it was. docs/COST.md tells how each is predicted."}, Tables: []table{t}}
}

// otherwise is what other policies would have done.
func otherwise(w *digest.WhatIf) section {
	s := section{Title: "What other policies would have done", Notes: []string{fmt.Sprintf("%s replayed on %s. The first row is what was measured: how near the replay of %s comes to it says how far to trust the others.", many(w.Requests, "request"), w.Fleet, w.Own)}}
	if w.Cut {
		s.Notes = append(s.Notes, "The log has more requests than were replayed (--requests); what was measured is of all.")
	}
	t := table{Columns: []string{"policy", "hit rate", "prompt tokens computed", "TTFT mean", "p50", "p90", "p99", "E2E mean", "p99"}}
	for _, p := range w.Policies {
		name := p.Name
		if p.Measured {
			name += ", measured"
		}
		t.Rows = append(t.Rows, line{Name: name, Ours: p.Name == w.Own, Cells: append(append([]string{fmt.Sprintf("%.3f", p.HitRate), short(p.Computed), span(p.TTFT.Mean)}, times(p.TTFT)...), span(p.E2E.Mean), span(p.E2E.P99))})
	}
	s.Tables = []table{t}
	return s
}

// unlikeBusy names the worker that was busy for the most time, where that is much more than the mean.
func unlikeBusy(d *digest.Digest) string {
	var most digest.Worker
	for _, w := range d.Workers {
		if w.BusyShare > most.BusyShare {
			most = w
		}
	}
	if most.BusyShare < 1.5*d.BusyShare {
		return ""
	}
	return fmt.Sprintf(" They are not alike in that: %s was busy %s of the time.", most.Name, percent(most.BusyShare))
}

// capacityLeft is how much more load there is room for: by replays, else by how busy workers were.
func capacityLeft(d *digest.Digest, w *digest.WhatIf) section {
	s := section{Title: "Capacity left"}
	if d.BusyShare > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("By the engine seconds that were expected of requests, workers were busy %s of the time, %s in the busiest %s.",
			percent(d.BusyShare), percent(d.BusiestShare), lasting(d.Step))+unlikeBusy(d))
	}
	if w == nil {
		return s
	}
	s.Notes = append(s.Notes, room(w), "The same requests were replayed faster and faster. A request is good within "+w.Good+".")
	t := table{Columns: []string{"times the load", "good", "good a second", "TTFT mean", "p50", "p90", "p99"}}
	c := curve{name: "good", colour: strongColour, heavy: true}
	dr := drawing{label: "share of good requests over the load", y: axis{low: 0, high: 1}, limitY: w.Share}
	for _, l := range w.Loads {
		t.Rows = append(t.Rows, line{Name: fmt.Sprintf("%g", l.Rate), Cells: append([]string{percent(l.GoodShare), fmt.Sprintf("%.2f", l.Goodput), span(l.TTFT.Mean)}, times(l.TTFT)...)})
		c.x, c.y, dr.steps = append(c.x, l.Rate), append(c.y, l.GoodShare), append(dr.steps, l.Rate)
	}
	dr.x = axis{low: 1, high: max(1.1, dr.steps[len(dr.steps)-1])}
	dr.curves = []curve{c}
	s.Charts, s.Tables = []chart{{Caption: "share of good requests, over the load", Drawing: dr.svg(), Note: fmt.Sprintf("dashed: %g is the share that is asked for", w.Share)}}, []table{t}
	return s
}
