package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// What `warmpath top` shows, without a terminal.

// topView is the state of the table.
type topView struct {
	head      eventHead
	rows      []eventRow
	connected bool
	why       string // it is not
	admin     string
	message   string
	sort      int // of topSorts
	reversed  bool
	chosen    string // worker
	top       int    // row that is shown first
	asks      string // the worker that is to be drained if y is pressed
	colour    bool
}

// topSort is a way to sort: the worker that is to be looked at first comes first.
type topSort struct {
	name    string
	compare func(a, b *eventRow) int
}

var topSorts = []topSort{
	{"in-flight", func(a, b *eventRow) int { return cmp.Compare(b.InFlight, a.InFlight) }},
	{"queued", func(a, b *eventRow) int { return cmp.Compare(b.QueuedSeconds, a.QueuedSeconds) }},
	{"kv", func(a, b *eventRow) int { return cmp.Compare(orZero(b.KVUsage), orZero(a.KVUsage)) }},
	{"hit", func(a, b *eventRow) int { return cmp.Compare(orZero(a.HitRate), orZero(b.HitRate)) }},
	{"tokens", func(a, b *eventRow) int { return cmp.Compare(b.CompletionSecond, a.CompletionSecond) }},
	{"failed", func(a, b *eventRow) int { return cmp.Compare(b.FailedASecond, a.FailedASecond) }},
	{"state", func(a, b *eventRow) int { return cmp.Compare(stateRank(a.State), stateRank(b.State)) }},
	{"worker", func(a, b *eventRow) int { return 0 }},
}

// stateRank puts those first that get no requests.
func stateRank(state string) int {
	if state == "ready" {
		return 1
	}
	return 0
}

func topSortNames() (names []string) {
	for _, s := range topSorts {
		names = append(names, s.name)
	}
	return names
}

func sortNames() string { return strings.Join(topSortNames(), ", ") }

func sortOf(name string) (int, bool) {
	i := slices.Index(topSortNames(), name)
	return max(i, 0), i >= 0
}

func orZero(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// take takes a snapshot in.
func (v *topView) take(data []byte) error {
	var e struct {
		Whole bool       `json:"whole"`
		Head  eventHead  `json:"head"`
		Rows  []eventRow `json:"rows"`
		Gone  []string   `json:"gone"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("%s told what no router's admin port tells (--admin): %w", v.admin, err)
	}
	v.head = e.Head
	if e.Whole {
		v.rows = e.Rows
		return nil
	}
	v.rows = slices.DeleteFunc(v.rows, func(r eventRow) bool { return slices.Contains(e.Gone, r.ID) })
	for _, row := range e.Rows {
		if i := slices.IndexFunc(v.rows, func(r eventRow) bool { return r.ID == row.ID }); i >= 0 {
			v.rows[i] = row
		} else {
			v.rows = append(v.rows, row)
		}
	}
	return nil
}

// hear takes in what the connection has to say. What was known stays on the screen while it is gone.
func (v *topView) hear(n news) {
	if n.err == nil {
		n.err = v.take(n.data)
	}
	v.connected, v.why = n.err == nil, ""
	if n.err != nil {
		v.why = n.err.Error()
	}
}

// sorted are the rows as they are shown.
func (v *topView) sorted() []eventRow {
	rows := slices.Clone(v.rows)
	slices.SortStableFunc(rows, func(a, b eventRow) int {
		order := cmp.Or(topSorts[v.sort].compare(&a, &b), natural(a.ID, b.ID))
		if v.reversed {
			return -order
		}
		return order
	})
	return rows
}

// natural compares names with numbers in them as people do: gpu-9 comes before gpu-10.
func natural(a, b string) int {
	digits := func(s string) (n int) {
		for n < len(s) && unicode.IsDigit(rune(s[n])) {
			n++
		}
		return n
	}
	for a != "" && b != "" {
		if n, m := digits(a), digits(b); n > 0 && m > 0 {
			x, y := strings.TrimLeft(a[:n], "0"), strings.TrimLeft(b[:m], "0")
			if order := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); order != 0 {
				return order
			}
			a, b = a[n:], b[m:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// press does what a key asks for. what is quit, drain or undrain, where somebody else has to do it.
func (v *topView) press(key string) (what, worker string) {
	v.message = ""
	if asked := v.asks; asked != "" {
		v.asks = ""
		if key == "y" || key == "Y" {
			return "drain", asked
		}
		v.message = asked + " is left as it is"
		return "", ""
	}
	switch key {
	case "q", "Q":
		return "quit", ""
	case "s":
		v.sort = (v.sort + 1) % len(topSorts)
	case "r":
		v.reversed = !v.reversed
	case "up", "k":
		v.move(-1)
	case "down", "j":
		v.move(1)
	case "page up":
		v.move(-10)
	case "page down":
		v.move(10)
	case "home":
		v.move(-len(v.rows))
	case "end":
		v.move(len(v.rows))
	case "d":
		if v.asks = v.chosen; v.asks == "" {
			v.message = "choose a worker with the arrow keys first"
		}
	case "u":
		if v.chosen != "" {
			return "undrain", v.chosen
		}
		v.message = "choose a worker with the arrow keys first"
	}
	return "", ""
}

// move chooses a worker so many rows further down; the first one where none is chosen.
func (v *topView) move(by int) {
	rows := v.sorted()
	if len(rows) == 0 {
		return
	}
	at := slices.IndexFunc(rows, func(r eventRow) bool { return r.ID == v.chosen })
	if at < 0 {
		at, by = 0, max(by, 1)-1
	}
	v.chosen = rows[min(max(at+by, 0), len(rows)-1)].ID
}

// uptime is how long the router has run, in its largest two units.
func (v *topView) uptime() string {
	d := v.head.Time.Sub(v.head.Started)
	switch {
	case d >= 24*time.Hour:
		return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
}
