package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/declog"
)

// toldSeries is GET /series as a script reads it.
type toldSeries struct {
	StepSeconds int                   `json:"step_seconds"`
	Time        []int64               `json:"time"`
	Columns     map[string][]*float64 `json:"columns"`
}

func (s *toldSeries) sum(column string) (total float64) {
	for _, v := range s.Columns[column] {
		if v != nil {
			total += *v
		}
	}
	return total
}

func TestTheSumsOfTheSeriesAreTheCounters(t *testing.T) {
	bad := newWorker(t, func(c *call) { c.json(http.StatusInternalServerError, `{"error":{"message":"no"}}`) })
	rt := start(t, func(c *config.Config) { c.Policy = "round-robin" }, bad, newWorker(t, nil))
	for i := range 8 {
		rt.post("/v1/chat/completions", chat("the same conversation each time, long enough to be a few blocks of sixteen tokens "+strings.Repeat("and on it goes ", 40), i%2 == 0))
	}
	rt.post("/v1/chat/completions", `{"model":"nobody","messages":[]}`)
	rt.idle()
	var s toldSeries
	eventually(t, "the second to be over", func() bool {
		s = toldSeries{}
		return rt.adminCall(http.MethodGet, "/series?window=15m&step=1s", "", &s) == http.StatusOK && s.sum("requests") >= 9
	})
	for column, want := range map[string]float64{
		"requests":               rt.metric("warmpath_requests_total"),
		"outcome.succeeded":      rt.metric("warmpath_requests_total", `outcome="succeeded"`),
		"outcome.client_error":   rt.metric("warmpath_requests_total", `outcome="client_error"`),
		"tokens.prompt":          rt.metric("warmpath_prompt_tokens_total"),
		"tokens.completion":      rt.metric("warmpath_completion_tokens_total"),
		"tokens.cached_reported": rt.metric("warmpath_cached_tokens_reported_total"), "tokens.cached_predicted": rt.metric("warmpath_cached_tokens_predicted_total"),
		"retries":   rt.metric("warmpath_retries_total"),
		"ejections": rt.metric("warmpath_ejections_total"),
		"hit.hit":   rt.metric("warmpath_e2e_seconds_count", `hit="hit"`),
	} {
		if got := s.sum(column); got != want {
			t.Errorf("%s: %g in the series, %g in the metrics", column, got, want)
		}
	}
	if s.StepSeconds != 1 || len(s.Time) == 0 || s.sum("ttft_seconds.all.p99") <= 0 || s.sum("retries") == 0 || s.sum("prefill_seconds.avoided") <= 0 {
		t.Errorf("%d steps of %d s, %g retries, %g s of prefill avoided", len(s.Time), s.StepSeconds, s.sum("retries"), s.sum("prefill_seconds.avoided"))
	}
}

func TestAskingForMoreThanThereIsNamesWhatThereIs(t *testing.T) {
	rt := start(t, nil, newWorker(t, nil))
	for path, want := range map[string]string{
		"/series?windw=15m":                "did you mean window?",
		"/series?window=25h":               "24h0m0s",
		"/series?window=soon":              "write it as 15m",
		"/series?window=2h&step=1s":        "10s or a multiple of it",
		"/series?only=tttf":                "ttft_seconds",
		"/series?step=1s&step=2s":          "stands 2 times",
		"/decisions?wroker=w1":             "did you mean worker?",
		"/decisions?outcome=succeded":      "did you mean succeeded?",
		"/decisions?hit=full":              "there are hit, partial, miss, declined",
		"/decisions?limit=0":               "from 1 to 1000",
		"/decisions?since=yesterday":       "a length of time such as 15m",
		"/decisions/nobody?rows=1":         "this path takes none",
		"/decisions?colour=x&worker=w1":    "there are worker, tenant",
		"/series?window=-5m":               "write it as 15m",
		"/series?window=15m&step=90m":      "longer than window",
		"/decisions?since=2026-13-01":      "a time such as",
		"/decisions?limit=two":             "from 1 to 1000",
		"/series?window=24h&step=70s":      "1m0s or a multiple",
		"/series?%zz":                      "invalid URL escape",
		"/decisions?model=m;worker=w1":     "semicolon",
		"/decisions?limit=1001&worker=w1":  "from 1 to 1000",
		"/series?window=24h&step=1m&x=1":   "unknown query parameter x",
		"/series?only=ttft_seconds,latncy": "there is no such column",
	} {
		var e struct{ Error struct{ Message string } }
		if status := rt.adminCall(http.MethodGet, path, "", &e); status != http.StatusBadRequest || !strings.Contains(e.Error.Message, want) {
			t.Errorf("%s: %d %q, want %q", path, status, e.Error.Message, want)
		}
	}
}

func TestDecisionsAreFoundWithoutADecisionLogAndAreTheSameWithOne(t *testing.T) {
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	for _, file := range []string{"", log} {
		rt := start(t, func(c *config.Config) { c.DecisionLog.File, c.Dash.DecisionsMax = file, 4 }, newWorker(t, nil), newWorker(t, nil))
		ids := []string{"one", "two", "three", "four", "five"}
		for i, id := range ids {
			rt.post("/v1/chat/completions", chat(id, i%2 == 0), "X-Request-Id", id, "X-Tenant-Id", "tenant-of-"+id)
		}
		rt.post("/v1/chat/completions", `{"model":"nobody"}`, "X-Request-Id", "lost")
		rt.idle()
		var all decisionsFound
		eventually(t, "six decisions", func() bool {
			return rt.adminCall(http.MethodGet, "/decisions?limit=2", "", &all) == http.StatusOK && all.Last == 6
		})
		if len(all.Decisions) != 2 || !all.More || all.Kept != 4 || all.KeptMax != 4 || all.Decisions[0].ID != "lost" || all.Decisions[0].Outcome != "client_error" || all.Decisions[0].Error == "" || all.Decisions[1].ID != "five" {
			t.Errorf("%+v", all)
		}
		for query, want := range map[string]int{"tenant=tenant-of-four": 1, "hit=miss": 3, "outcome=client_error&since=1h": 1, "since=5": 1, "id=three": 1, "model=nobody": 1, "worker=w9": 0} {
			var some decisionsFound
			if status := rt.adminCall(http.MethodGet, "/decisions?"+query, "", &some); status != http.StatusOK || len(some.Decisions) != want {
				t.Errorf("%s: %d, %d decisions, not %d", query, status, len(some.Decisions), want)
			}
		}
		var one, byNumber decisionFound
		if rt.adminCall(http.MethodGet, "/decisions/five", "", &one) != http.StatusOK || rt.adminCall(http.MethodGet, "/decisions/5", "", &byNumber) != http.StatusOK || !reflect.DeepEqual(one, byNumber) {
			t.Fatalf("%+v\n%+v", one, byNumber)
		}
		line := one.Timeline
		if len(one.Record.Rows) != 2 || one.Record.Rows[0].TotalSeconds <= 0 || one.Compared.PrefillSeconds == nil || line.Prefill == nil ||
			line.Queue+*line.Prefill+*line.Decode-line.Total > 1e-6 || line.Total-line.Queue-*line.Prefill-*line.Decode > 1e-6 {
			t.Errorf("%+v", one)
		}
		var whole decisionFound
		if rt.adminCall(http.MethodGet, "/decisions/four", "", &whole); whole.Compared.PromptTokens == nil || whole.Compared.PromptTokens.Actual != 10 || whole.Compared.PrefillSeconds != nil {
			t.Errorf("%+v", whole.Compared)
		}
		var e struct{ Error struct{ Message string } }
		if status := rt.adminCall(http.MethodGet, "/decisions/one", "", &e); status != http.StatusNotFound || !strings.Contains(e.Error.Message, "dash.decisions_max, 4") {
			t.Errorf("%d %s", status, e.Error.Message)
		}
		if file != "" {
			sameAsLogged(t, file, one.Record)
		}
	}
}

// sameAsLogged holds a record against the log's fifth line.
func sameAsLogged(t *testing.T, file string, shown declog.Record) {
	t.Helper()
	lastDecision(t, file, 6)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var logged declog.Record
	if err := json.Unmarshal([]byte(strings.Split(string(text), "\n")[4]), &logged); err != nil {
		t.Fatal(err)
	}
	shown.Boot, shown.Blocks, shown.BlocksCut = logged.Boot, logged.Blocks, logged.BlocksCut
	if !shown.Time.Equal(logged.Time) {
		t.Errorf("%v, not %v", shown.Time, logged.Time)
	}
	shown.Time = logged.Time
	if !reflect.DeepEqual(shown, logged) {
		t.Errorf("shown  %+v\nlogged %+v", shown, logged)
	}
}

func TestNoDecisionIsKeptWhereNoneIsWanted(t *testing.T) {
	rt := start(t, func(c *config.Config) { c.Dash.DecisionsMax = 0 }, newWorker(t, nil))
	rt.post("/v1/chat/completions", chat("x", false))
	rt.idle()
	var e struct{ Error struct{ Message string } }
	if status := rt.adminCall(http.MethodGet, "/decisions", "", &e); status != http.StatusNotFound || !strings.Contains(e.Error.Message, "dash.decisions_max") {
		t.Errorf("%d %s", status, e.Error.Message)
	}
	if n := rt.archive.recent.Stats().Decisions; n != 0 {
		t.Errorf("%d decisions", n)
	}
}
