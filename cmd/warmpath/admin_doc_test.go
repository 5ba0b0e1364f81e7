package main

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/sched"
)

func TestThePageOfTheAdminPortNamesEveryFieldAndState(t *testing.T) {
	page := ""
	for _, file := range []string{"../../docs/ADMIN.md", "../../docs/LOOK.md", "../../docs/GHOSTS.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		page += string(text)
	}
	for _, kind := range []any{workerState{}, outState{}, faultState{}, routerState{}, indexState{}, logState{}, eventState{}, modeState{}, truthState{}, lostState{}, queueState{}, queueClassState{}, queueLineState{}, tenantState{}, sched.Decision{}, sched.Row{},
		explanation{}, explainedPrompt{}, explainedAnswer{}, explainedCost{}, explainedQueue{}, explainedRow{}, explainedEnd{},
		decisionsFound{}, decisionRow{}, decisionFound{}, timeline{}, compared{}, prediction{}, requestsInside{}, requestRow{}, eventHead{}, eventQueue{}, eventQueueClass{}, eventRow{}, regretState{}, ghostState{}, ghostFigures{}, ghostsAbout{}, prefixesFound{}, prefixRow{}} {
		of := reflect.TypeOf(kind)
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			if name == "-" || name == "index" || name == "event_index" || name == "decision_log" {
				continue
			}
			if !strings.Contains(page, "`"+name+"`") && !strings.Contains(page, "."+name+"`") {
				t.Errorf("docs/ADMIN.md, docs/LOOK.md and docs/GHOSTS.md do not name %s of %s", name, of.Name())
			}
		}
	}
	for _, state := range []string{"ready", "ejected", "probing", "draining", "down", "loading", "unknown"} {
		if !strings.Contains(page, "| `"+state+"` |") {
			t.Errorf("docs/ADMIN.md does not explain the state %s", state)
		}
	}
}
