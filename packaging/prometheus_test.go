package packaging

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// derived are what the page of metrics has under their family's name.
var derived = regexp.MustCompile(`_(bucket|sum|count)$`)

func TestRulesAndDashboardAskForMetricsThatThereAre(t *testing.T) {
	page, err := os.ReadFile("../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"prometheus/warmpath-recording.yaml", "prometheus/warmpath-alerts.yaml", "prometheus/tests.yaml", "grafana/warmpath.json"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\bwarmpath_[a-z0-9_]+`).FindAllString(string(text), -1)
		if len(names) < 5 {
			t.Errorf("%s asks for %d metrics", file, len(names))
		}
		for _, name := range names {
			if !strings.Contains(string(page), "`"+name+"`") && !strings.Contains(string(page), "`"+derived.ReplaceAllString(name, "")+"`") {
				t.Errorf("%s asks for %s, which docs/METRICS.md does not tell of", file, name)
			}
		}
	}
}

func TestEachAlertLinksToItsSectionOfTheRunbook(t *testing.T) {
	rules, err := os.ReadFile("prometheus/warmpath-alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	runbook, err := os.ReadFile("../docs/RUNBOOK.md")
	if err != nil {
		t.Fatal(err)
	}
	alerts := regexp.MustCompile(`- alert: `).Split(string(rules), -1)[1:]
	if len(alerts) < 10 {
		t.Errorf("%d alerts", len(alerts))
	}
	for _, alert := range alerts {
		name, _, _ := strings.Cut(alert, "\n")
		if !strings.Contains(alert, `/docs/RUNBOOK.md#`+strings.ToLower(name)+`"`) {
			t.Errorf("%s has no runbook_url, or another's", name)
		}
		if !strings.Contains(string(runbook), "\n### "+name+"\n") {
			t.Errorf("docs/RUNBOOK.md has no section %s", name)
		}
	}
}

func TestTheDashboardsPanelsLieBesideEachOther(t *testing.T) {
	text, err := os.ReadFile("grafana/warmpath.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ H, W, X, Y int }
			Type    string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range board.Panels {
		g := p.GridPos
		if ids[p.ID] || p.Title == "" || g.X+g.W > 24 || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d %q: %+v", p.ID, p.Title, g)
		}
		ids[p.ID] = true
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok {
					t.Fatalf("%q lies on %q", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}
