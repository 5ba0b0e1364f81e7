package repick

import (
	"testing"

	"github.com/warmpath/warmpath/internal/declog"
)

func TestAChoiceIsMadeAgainFromItsRecordAlone(t *testing.T) {
	rows := func(ids ...string) (all []declog.Row) {
		for _, id := range ids {
			all = append(all, declog.Row{Worker: id, Score: 1})
		}
		return all
	}
	clear := declog.Record{ID: "clear", TieEquals: 1, TieSeconds: 0.001, Rows: []declog.Row{{Worker: "b", Score: 1}, {Worker: "a", Score: 2}, {Worker: "c", Why: "draining"}}}
	wrong := declog.Record{ID: "wrong", TieEquals: 1, TieSeconds: 0.001, Rows: []declog.Row{{Worker: "a", Score: 2}, {Worker: "b", Score: 1}}}
	chance := declog.Record{ID: "chance", TieEquals: 3, Rows: rows("b", "a", "c")}
	chance.TieDraw = Draw(&chance)
	unsure := declog.Record{ID: "unsure", TieEquals: 1, Rows: rows("b", "a")}
	full := declog.Record{ID: "full", TieEquals: 1, Rows: []declog.Row{{Worker: "a", Score: 5}, {Worker: "b", Score: 1, Why: "no room"}}}
	warm := declog.Record{ID: "warm", TieEquals: 1, TieWarm: true, TieShare: 0.02, PromptTokensEst: 1000, Rows: []declog.Row{{Worker: "a", Score: 1.01, MatchedTokens: 900, Load: 4}, {Worker: "b", Score: 1}}}
	var tally Tally
	for _, r := range []*declog.Record{&clear, &wrong, &chance, &unsure, &full, &warm, {}, {Rows: rows("a"), TieEquals: -1}, {Rows: rows("a")}} {
		tally.Add(r)
	}
	if tally.Records != 9 || tally.Checked != 6 || tally.Same != 4 || tally.ByChance != 1 || tally.Unplaced != 1 || tally.OtherRules != 1 || tally.Older != 1 {
		t.Errorf("%+v", tally)
	}
	if len(tally.Different) != 2 || tally.Different[0] != (Differ{"wrong", "a", "b"}) || tally.Different[1] != (Differ{"unsure", "b", "a or b"}) || tally.Share() != 4./6 {
		t.Errorf("%+v", tally.Different)
	}
}
