package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// The lines of `warmpath top`.

// number is a quantity of the last 30 seconds; known is whether there is any.
func (v *topView) number(name string) (n float64, known bool) {
	p := v.head.Lately[name]
	return orZero(p), p != nil
}

// perSecond is a sum of the last 30 seconds by the second.
func (v *topView) perSecond(name string) string {
	n, _ := v.number(name)
	return shortCount(n / latelySeconds)
}

// shortCount is a number in at most five characters: 0.42, 41.3, 812, 8.1k, 1.2M.
func shortCount(n float64) string {
	switch {
	case n >= 999_500:
		return fmt.Sprintf("%.1fM", n/1e6)
	case n >= 9_950:
		return fmt.Sprintf("%.0fk", n/1e3)
	case n >= 999.5:
		return fmt.Sprintf("%.1fk", n/1e3)
	case n >= 99.95:
		return fmt.Sprintf("%.0f", n)
	case n >= 9.995:
		return fmt.Sprintf("%.1f", n)
	case n == 0:
		return "0"
	}
	return fmt.Sprintf("%.2f", n)
}

// shortTime is a time in seconds as people say it.
func shortTime(seconds float64) string {
	switch {
	case seconds == 0:
		return "0"
	case seconds < 0.0095:
		return fmt.Sprintf("%.1f ms", seconds*1e3)
	case seconds < 0.9995:
		return fmt.Sprintf("%.0f ms", seconds*1e3)
	case seconds < 99.95:
		return fmt.Sprintf("%.1f s", seconds)
	}
	return fmt.Sprintf("%.0f s", seconds)
}

func (v *topView) time(name string) string {
	if n, known := v.number(name); known {
		return shortTime(n)
	}
	return "-"
}

func shareOf(p *float64) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", *p*100)
}

// above are the headline numbers.
func (v *topView) above() []string {
	var states []string
	for _, state := range slices.Sorted(maps.Keys(v.head.Workers)) {
		states = append(states, fmt.Sprintf("%d %s", v.head.Workers[state], state))
	}
	lines := []string{
		fmt.Sprintf("warmpath %s  %s  up %s  policy %s  workers: %s", cmp.Or(v.head.Version, "(no version)"), v.admin, v.uptime(), v.head.Policy, strings.Join(states, ", ")),
		fmt.Sprintf("requests %s/s  inside %d (waiting %d, prefill %d, streaming %d)  tokens in %s/s out %s/s  retries %s/s", v.perSecond("requests"), v.head.Inside,
			v.head.States["waiting"], v.head.States["prefill"]+v.head.States["running"], v.head.States["streaming"], v.perSecond("tokens.prompt"), v.perSecond("tokens.completion"), v.perSecond("retries")),
		fmt.Sprintf("TTFT p50 %s p90 %s p99 %s  ITL p50 %s p99 %s  hits %s of %s reachable  prefill %s s/s, %s s/s avoided", v.time("ttft_seconds.all.p50"), v.time("ttft_seconds.all.p90"),
			v.time("ttft_seconds.all.p99"), v.time("itl_seconds.all.p50"), v.time("itl_seconds.all.p99"), shareOf(v.head.Lately["hit_rate.reported"]), shareOf(v.head.Lately["hit_rate.reachable"]),
			v.perSecond("prefill_seconds.done"), v.perSecond("prefill_seconds.avoided")),
	}
	if q := v.head.Queue; q != nil {
		line := fmt.Sprintf("queue %d waiting, %.0f%% full", q.Waiting, q.Fill*100)
		for _, c := range q.Classes {
			line += fmt.Sprintf("  %s %d", c.Class, c.Waiting)
			if c.Waiting > 0 {
				line += " (" + shortTime(c.Oldest) + ")"
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// topColumn is a column of the table. Those with a higher rank go first where the screen is too narrow.
type topColumn struct {
	name string
	rank int
	left bool
	of   func(r *eventRow) string
}

var topColumns = []topColumn{
	{"WORKER", 0, true, func(r *eventRow) string { return r.ID }},
	{"STATE", 0, true, func(r *eventRow) string { return r.State }},
	{"ENGINE", 6, true, func(r *eventRow) string { return r.Engine }},
	{"CACHE", 5, true, func(r *eventRow) string { return r.Mode }},
	{"IN FLIGHT", 0, false, func(r *eventRow) string { return fmt.Sprint(r.InFlight) }},
	{"TOKENS", 4, false, func(r *eventRow) string { return shortCount(float64(r.InFlightTokens)) }},
	{"QUEUED", 1, false, func(r *eventRow) string { return shortTime(r.QueuedSeconds) }},
	{"KV", 2, false, func(r *eventRow) string { return shareOf(r.KVUsage) }},
	{"HIT", 1, false, func(r *eventRow) string { return shareOf(r.HitRate) }},
	{"REQ/S", 3, false, func(r *eventRow) string { return shortCount(r.RequestsASecond) }},
	{"TOK/S", 2, false, func(r *eventRow) string { return shortCount(r.CompletionSecond) }},
	{"FAIL/S", 3, false, func(r *eventRow) string { return shortCount(r.FailedASecond) }},
	{"TRUST", 6, false, func(r *eventRow) string { return shareOf(r.Trust) }},
	{"WHY", 7, true, func(r *eventRow) string { return r.Why }},
}

// rowsAs are the header and the rows as text, in columns that fit into width; 0 is any.
func rowsAs(rows []eventRow, width int) []string {
	widths := make([]int, len(topColumns))
	cells := make([][]string, len(rows))
	for i := range rows {
		for c := range topColumns {
			cells[i] = append(cells[i], plain(topColumns[c].of(&rows[i])))
		}
	}
	for c, column := range topColumns {
		widths[c] = len(column.name)
		for i := range cells {
			widths[c] = max(widths[c], utf8.RuneCountInString(cells[i][c]))
		}
	}
	shown := fitting(widths, width)
	line := func(cell func(c int) string) string {
		var parts []string
		for _, c := range shown {
			pad := strings.Repeat(" ", widths[c]-utf8.RuneCountInString(cell(c)))
			if topColumns[c].left {
				parts = append(parts, cell(c)+pad)
			} else {
				parts = append(parts, pad+cell(c))
			}
		}
		return strings.TrimRight(strings.Join(parts, "  "), " ")
	}
	lines := []string{line(func(c int) string { return topColumns[c].name })}
	for i := range cells {
		lines = append(lines, line(func(c int) string { return cells[i][c] }))
	}
	return lines
}

// fitting are the columns that fit side by side, by their places.
func fitting(widths []int, width int) (shown []int) {
	for worst := 9; ; worst-- {
		shown = shown[:0]
		total := -2
		for c := range topColumns {
			if topColumns[c].rank <= worst {
				shown = append(shown, c)
				total += widths[c] + 2
			}
		}
		if width == 0 || total <= width || worst == 0 {
			return shown
		}
	}
}

// table is all of it, for width characters; 0 is any.
func (v *topView) table(width int) []string {
	above := v.above()
	for i := range above {
		above[i] = plain(above[i])
	}
	return append(append(above, ""), rowsAs(v.sorted(), width)...)
}

// clipped cuts a line to a width.
func clipped(line string, width int) string {
	line = plain(line)
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width])
}

// screen is all that is drawn: height lines of width characters at most, escape sequences aside.
func (v *topView) screen(width, height int) []string {
	var lines []string
	for _, line := range append(v.above(), "") {
		lines = append(lines, clipped(line, width))
	}
	if v.head.Started.IsZero() {
		lines = []string{clipped("waiting for "+v.admin, width), ""}
	}
	rows := v.sorted()
	body := rowsAs(rows, width)
	lines = append(lines, v.paint("\x1b[1m", clipped(body[0], width)))
	room := max(height-len(lines)-1, 1)
	at := slices.IndexFunc(rows, func(r eventRow) bool { return r.ID == v.chosen })
	if at >= 0 {
		v.top = min(max(v.top, at-room+1), at)
	}
	v.top = max(min(v.top, len(rows)-room), 0)
	for i := v.top; i < min(v.top+room, len(rows)); i++ {
		lines = append(lines, v.paintRow(&rows[i], clipped(body[i+1], width), i == at))
	}
	for len(lines) < height-1 {
		lines = append(lines, "")
	}
	return append(lines[:max(height-1, 1)], v.footer(width, len(rows), room))
}

// footer is the last line: what is asked, what came of it, or the keys.
func (v *topView) footer(width, rows, room int) string {
	switch {
	case v.asks != "":
		return v.paint("\x1b[1;33m", clipped("drain "+v.asks+"? Its requests without a byte of their answer go elsewhere. y or n", width))
	case !v.connected && v.why != "":
		return v.paint("\x1b[1;31m", clipped("not connected, trying again: "+v.why, width))
	case v.message != "":
		return clipped(v.message, width)
	}
	return clipped(fmt.Sprintf("q quit  s sort (%s)  r reverse  arrows choose  d drain  u undrain   workers %d to %d of %d", topSorts[v.sort].name, min(v.top+1, rows), min(v.top+room, rows), rows), width)
}

func (v *topView) paint(sequence, text string) string {
	if !v.colour {
		return text
	}
	return sequence + text + "\x1b[0m"
}

// paintRow marks the chosen worker, also without colours, and those that get no requests.
func (v *topView) paintRow(r *eventRow, text string, chosen bool) string {
	switch {
	case chosen && v.colour:
		return "\x1b[7m" + text + "\x1b[0m"
	case chosen:
		return "> " + text
	case r.State == "down" || r.State == "ejected":
		return v.paint("\x1b[31m", text)
	case r.State != "ready":
		return v.paint("\x1b[33m", text)
	}
	return text
}
