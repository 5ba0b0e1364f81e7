package main

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/ledger"
)

// noBounds are the settings that end like a bound and are none of what the router keeps.
var noBounds = map[string]string{
	"in_flight_max":                 "what one worker is given",
	"workers.in_flight_max":         "what one worker is given",
	"queue.preempted_max":           "how often one request gives way",
	"queue.classes.wait_max":        "a time",
	"queue.heavy.lanes_max":         "what one worker is given",
	"ejection.max":                  "a time",
	"ejection.share_max":            "workers that are out",
	"models.candidates.context_max": "a choice",
	"pool_rules.prompt_tokens.max":  "a choice",
	"pool_rules.total_tokens.max":   "a choice",
	"pools.kv_tokens_max":           "a choice",
}

// settingsOf are the keys of all settings, with dots between them; of lists and maps those of one entry.
func settingsOf(of reflect.Type, before string, into map[string]bool) {
	for of.Kind() == reflect.Slice || of.Kind() == reflect.Map || of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		into[strings.TrimSuffix(before, ".")] = true
		return
	}
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("yaml"), ",")
		switch {
		case name == "" && of.Field(i).Anonymous || strings.Contains(of.Field(i).Tag.Get("yaml"), ",inline"):
			settingsOf(of.Field(i).Type, before, into)
		case name != "" && name != "-":
			settingsOf(of.Field(i).Type, before+name+".", into)
		}
	}
}

func TestEverySettingThatIsABoundStandsInTheTableOfBounds(t *testing.T) {
	t.Parallel()
	settings, shown := map[string]bool{}, map[string]bool{}
	settingsOf(reflect.TypeFor[config.Config](), "", settings)
	for _, e := range ledger.Book {
		for _, setting := range strings.Split(e.Setting, ", ") {
			shown[setting] = true
			if inEnvironment := strings.ContainsAny(setting, " ABCDEFGHIJKLMNOPQRSTUVWXYZ"); setting != "" && !inEnvironment && !settings[setting] && !strings.HasPrefix(setting, "tenants.") {
				t.Errorf("%s: there is no setting %q", e.Name, setting)
			}
		}
	}
	for setting := range settings {
		if bound := strings.HasSuffix(setting, "_max") || strings.HasSuffix(setting, ".max"); bound && !shown[setting] && noBounds[setting] == "" {
			t.Errorf("%s ends like a bound, and is none of the table: enter what it bounds in ledger.Book, or in noBounds why it is none", setting)
		}
	}
	for setting := range noBounds {
		if !settings[setting] {
			t.Errorf("there is no setting %q, which is said to be no bound", setting)
		}
	}
}

func TestWhatIsKeptForThoseWhoLookIsHeldToItsBounds(t *testing.T) {
	t.Parallel()
	rt := start(t, func(c *config.Config) { c.Dash.ListenersMax, c.Dash.DecisionsMax = 1, 2 }, newWorker(t, nil))
	for i := range 3 {
		rt.post("/v1/chat/completions", chat(strings.Repeat("x", 100*i), false))
	}
	rt.idle()
	first, err := rt.http.Get(rt.AdminURL() + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Body.Close()
	if r := read(rt.http.Get(rt.AdminURL() + "/events")); r.status != http.StatusServiceUnavailable {
		t.Errorf("a second one who listens is answered %d", r.status)
	}
	for name, want := range map[string]ledger.Line{
		ledger.Listeners:       {Limit: 1, Used: 1, Refused: 1},
		ledger.RecentDecisions: {Limit: 2, Used: 2, Refused: 1},
		ledger.Prefixes:        {Limit: 1024, Used: 1},
		ledger.TraceQueue:      {Limit: 1024},
		ledger.GhostRequests:   {Limit: 8192},
	} {
		if b := rt.bound(name); b.Limit != want.Limit || b.Used > want.Limit || name != ledger.GhostRequests && b.Used != want.Used || b.Refused != want.Refused {
			t.Errorf("%+v, want %+v", b, want)
		}
	}
	if b := rt.bound(ledger.RecentBytes); b.Used <= 0 || b.Used > b.Limit {
		t.Errorf("%+v", b)
	}
}
