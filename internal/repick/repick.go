// Package repick makes the choices of a decision log again, from what it says of the candidates alone: by the comparison that the scheduler
// makes. A record that leads to another worker than it names does not say why its worker was chosen.
//
//	var t repick.Tally
//	for record := range log { t.Add(&record) }
//	fmt.Println(t.Same, "of", t.Checked)
package repick

import (
	"math"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/tie"
)

// Left are the ids of the workers that a record's rows leave to choose from, sorted: one, or those between which chance decides.
func Left(r *declog.Record) (ids []string) {
	rule := tie.Rule{Seconds: r.TieSeconds, Share: r.TieShare, Warm: r.TieWarm}
	least := math.Inf(1)
	for i := range r.Rows {
		if r.Rows[i].Why == "" {
			least = min(least, r.Rows[i].Score)
		}
	}
	bound := rule.Bound(least)
	var near []tie.Standing
	for i, row := range r.Rows {
		if row.Why == "" && !(row.Score > bound) {
			near = append(near, tie.Standing{At: i, Score: row.Score, InFlight: row.Load, Held: row.MatchedTokens, Loaded: row.LoadedTokens, Delay: row.DelaySeconds, Pressure: row.Pressure, Burden: row.BurdenSeconds})
		}
	}
	for _, s := range tie.Fewest(rule.Prefer(near, r.PromptTokensEst)) {
		ids = append(ids, r.Rows[s.At].Worker)
	}
	slices.Sort(ids)
	return ids
}

// Draw is the place of the worker that was chosen among those that are Left: what chance brought, for the record to tell.
func Draw(r *declog.Record) int {
	if r.TieEquals < 2 || len(r.Rows) == 0 {
		return 0
	}
	return max(0, slices.Index(Left(r), r.Rows[0].Worker))
}

// Tally is how a log's choices turned out.
type Tally struct {
	Records    int      `json:"records"`
	Checked    int      `json:"checked"`   // choices made again
	Same       int      `json:"same"`      // of these, the same worker
	ByChance   int      `json:"by_chance"` // of the same, those between equals, where the log tells what chance brought
	Unplaced   int      `json:"unplaced"`  // records of requests that no worker was chosen for
	OtherRules int      `json:"other"`     // chosen by what is no comparison of scores: a trial of a worker that was out, a draw of two
	Older      int      `json:"older"`     // of a router that did not log enough
	Different  []Differ `json:"different,omitempty"`
}

// Differ is a record that leads elsewhere.
type Differ struct {
	ID   string `json:"id"`
	Said string `json:"logged"`
	Made string `json:"chosen"`
}

// differMax bounds those that are told one by one.
const differMax = 10

// Add makes one record's choice again.
func (t *Tally) Add(r *declog.Record) {
	t.Records++
	switch {
	case len(r.Rows) == 0:
		t.Unplaced++
		return
	case r.TieEquals < 0:
		t.OtherRules++
		return
	case r.TieEquals == 0:
		t.Older++
		return
	}
	t.Checked++
	left := Left(r)
	made := strings.Join(left, " or ")
	if r.TieEquals == 1 && len(left) == 1 || r.TieEquals > 1 && r.TieDraw < len(left) {
		made = left[min(r.TieDraw, len(left)-1)]
	}
	if said := r.Rows[0].Worker; made != said {
		if len(t.Different) < differMax {
			t.Different = append(t.Different, Differ{ID: r.ID, Said: said, Made: made})
		}
		return
	}
	t.Same++
	if r.TieEquals > 1 {
		t.ByChance++
	}
}

// Share is the part of the choices that came out the same, 1 where there were none.
func (t *Tally) Share() float64 {
	if t.Checked == 0 {
		return 1
	}
	return float64(t.Same) / float64(t.Checked)
}
