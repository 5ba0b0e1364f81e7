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

// headFigure is a part of a headline. Where a line is too narrow those with the highest rank go first; those of rank 0 stay.
type headFigure struct {
	rank int
	text string
}

const figureGap = "  "

// fitted are the figures that a line of width characters has room for, in lines that are broken between figures, and between words where
// one is longer than that; 0 is any width.
func fitted(figures []headFigure, width int) (lines []string) {
	kept := slices.Clone(figures)
	length := func() (n int) {
		for _, f := range kept {
			n += utf8.RuneCountInString(f.text) + len(figureGap)
		}
		return n - len(figureGap)
	}
	for width > 0 && length() > width {
		worst := slices.MaxFunc(kept, func(a, b headFigure) int { return cmp.Compare(a.rank, b.rank) }).rank
		if worst == 0 {
			break
		}
		kept = slices.DeleteFunc(kept, func(f headFigure) bool { return f.rank == worst })
	}
	line := ""
	for _, f := range kept {
		gap := figureGap
		if f.text = strings.TrimSpace(f.text); width > 0 && line != "" && utf8.RuneCountInString(line+gap+f.text) > width {
			lines, line = append(lines, line), ""
		}
		for word := range strings.SplitSeq(f.text, " ") {
			switch {
			case line == "":
				line = word
			case width > 0 && utf8.RuneCountInString(line+gap+word) > width:
				lines, line = append(lines, line), word
			default:
				line += gap + word
			}
			gap = " "
		}
	}
	return append(lines, line)
}

// above are the headline numbers, for width characters; 0 is any.
func (v *topView) above(width int) (lines []string) {
	var states []string
	for _, state := range slices.Sorted(maps.Keys(v.head.Workers)) {
		states = append(states, fmt.Sprintf("%d %s", v.head.Workers[state], state))
	}
	all := [][]headFigure{
		{{0, "warmpath " + cmp.Or(v.head.Version, "(no version)")}, {3, v.admin}, {1, "up " + v.uptime()}, {2, "policy " + v.head.Policy}, {0, "workers: " + strings.Join(states, ", ")}},
		{{0, fmt.Sprintf("requests %s/s", v.perSecond("requests"))}, {0, fmt.Sprintf("inside %d (waiting %d, prefill %d, streaming %d)", v.head.Inside, v.head.States["waiting"], v.head.States["prefill"]+v.head.States["running"], v.head.States["streaming"])},
			{2, fmt.Sprintf("tokens in %s/s out %s/s", v.perSecond("tokens.prompt"), v.perSecond("tokens.completion"))}, {1, fmt.Sprintf("retries %s/s", v.perSecond("retries"))}},
		{{0, fmt.Sprintf("TTFT p50 %s p90 %s p99 %s", v.time("ttft_seconds.all.p50"), v.time("ttft_seconds.all.p90"), v.time("ttft_seconds.all.p99"))}, {1, fmt.Sprintf("ITL p50 %s p99 %s", v.time("itl_seconds.all.p50"), v.time("itl_seconds.all.p99"))},
			{0, fmt.Sprintf("hits %s of %s reachable", shareOf(v.head.Lately["hit_rate.reported"]), shareOf(v.head.Lately["hit_rate.reachable"]))},
			{2, fmt.Sprintf("prefill %s s/s, %s s/s avoided", v.perSecond("prefill_seconds.done"), v.perSecond("prefill_seconds.avoided"))}},
	}
	if q := v.head.Queue; q != nil {
		line := []headFigure{{0, fmt.Sprintf("queue %d waiting, %.0f%% full", q.Waiting, q.Fill*100)}}
		for _, c := range q.Classes {
			one := headFigure{1, fmt.Sprintf("%s %d", c.Class, c.Waiting)} // nobody waits in it: it may go
			if c.Waiting > 0 {
				one = headFigure{0, one.text + " (" + shortTime(c.Oldest) + ")"}
			}
			line = append(line, one)
		}
		all = append(all, line)
	}
	for _, figures := range all {
		lines = append(lines, fitted(figures, width)...)
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
	{whyColumn, 7, true, func(r *eventRow) string { return r.Why }},
}

// whyColumn is the last to go where a worker gets no requests, and is cut there to what is left of the width, whyLeast at least.
const (
	whyColumn = "WHY"
	whyLeast  = 20
)

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
	shown := fitting(widths, width, slices.ContainsFunc(rows, func(r eventRow) bool { return r.Why != "" }))
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
		return strings.TrimRight(strings.Join(parts, figureGap), " ")
	}
	lines := []string{line(func(c int) string { return topColumns[c].name })}
	for i := range cells {
		lines = append(lines, line(func(c int) string { return cells[i][c] }))
	}
	return lines
}

// fitting are the columns that fit side by side, by their places. out: some worker gets no requests, and why is told.
func fitting(widths []int, width int, out bool) (shown []int) {
	for worst := 9; ; worst-- {
		shown = shown[:0]
		total := -len(figureGap)
		for c := range topColumns {
			rank, needs := topColumns[c].rank, widths[c]
			switch {
			case out && topColumns[c].name == whyColumn:
				rank, needs = 0, min(needs, whyLeast)
			case out && rank == 0 && !topColumns[c].left:
				rank = 1 // beside why, only who it is and in what state
			}
			if rank <= worst {
				shown = append(shown, c)
				total += needs + len(figureGap)
			}
		}
		if width == 0 || total <= width || worst == 0 {
			return shown
		}
	}
}

// table is all of it, for width characters; 0 is any.
func (v *topView) table(width int) []string {
	above := v.above(width)
	for i := range above {
		above[i] = plain(above[i])
	}
	return append(append(above, ""), rowsAs(v.sorted(), width)...)
}

// clipped cuts a line to a width, and shows that it did.
func clipped(line string, width int) string {
	line = plain(line)
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:max(width-1, 0)]) + "…"
}

// screen is all that is drawn: height lines of width characters at most, escape sequences aside.
func (v *topView) screen(width, height int) []string {
	var lines []string
	above := v.above(width)
	for _, line := range append(above[:min(len(above), max(height/2-1, 1))], "") { // half of the screen is for workers
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
	shown := fmt.Sprintf("workers %d to %d of %d", min(v.top+1, rows), min(v.top+room, rows), rows)
	if rows <= room {
		shown = counted(rows, "worker")
	}
	return clipped(fitted([]headFigure{{0, "q quit"}, {5, "s sort (" + topSorts[v.sort].name + ")"}, {4, "r reverse"}, {3, "arrows choose"}, {1, "d drain"}, {2, "u undrain"}, {0, shown}}, width)[0], width)
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
