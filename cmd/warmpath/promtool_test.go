//go:build promtool

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

// promtool runs it in a folder, with what it is to read from its input.
func promtool(t *testing.T, folder, input string, args ...string) {
	t.Helper()
	binary, err := filepath.Abs("../../.cache/promtool/promtool")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(binary, args...)
	c.Dir, c.Stdin = folder, strings.NewReader(input)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// dashboardQueries are those of the dashboard, with Grafana's variables filled in.
func dashboardQueries(t *testing.T) (queries []string) {
	t.Helper()
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	text, err := os.ReadFile("../../packaging/grafana/warmpath.json")
	if err == nil {
		err = json.Unmarshal(text, &board)
	}
	if err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*", "$job", ".*")
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			queries = append(queries, fill.Replace(target.Expr))
		}
	}
	return queries
}

func TestPromtoolAcceptsTheRulesAndTheDashboardOfALiveRouter(t *testing.T) {
	const rules = "../../packaging/prometheus"
	promtool(t, rules, "", "check", "rules", "warmpath-recording.yaml", "warmpath-alerts.yaml")
	promtool(t, rules, "", "test", "rules", "tests.yaml")

	queries := dashboardQueries(t)
	var asRules strings.Builder
	asRules.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	for i, q := range queries {
		fmt.Fprintf(&asRules, "      - {record: 'dashboard:query:%d', expr: %q}\n", i, q)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "dashboard.yaml"), []byte(asRules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, folder, "", "check", "rules", "dashboard.yaml")

	page := busyPage(t)
	promtool(t, folder, page, "check", "metrics")
	alerts, err := os.ReadFile(rules + "/warmpath-alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	recording, err := os.ReadFile(rules + "/warmpath-recording.yaml")
	if err != nil {
		t.Fatal(err)
	}
	asked := strings.Join(queries, "\n") + string(alerts) + string(recording)
	asked = regexp.MustCompile(`(?m)^ +(summary|description): .*$`).ReplaceAllString(asked, "")
	for _, name := range regexp.MustCompile(`\b(warmpath|process)_[a-z0-9_]+`).FindAllString(asked, -1) {
		if !strings.Contains(page, "\n"+name+"{") && !strings.Contains(page, "\n"+name+" ") && !optional[name] {
			t.Errorf("%s is asked for, and a router under load does not tell it", name)
		}
	}
}

// optional are metrics that a router has only with what this one is without: engines that tell their caches, certificates, sources, or what went wrong.
var optional = map[string]bool{
	"warmpath_engine_kv_usage_ratio": true, "warmpath_engine_requests_running": true, "warmpath_truth_trusted": true, "warmpath_truth_trust_ratio": true, "warmpath_events_lag_seconds": true,
	"warmpath_certificate_expiry_timestamp_seconds": true, "warmpath_discovery_stale": true, "warmpath_telemetry_age_seconds": true, "warmpath_telemetry_failures_total": true,
}

// busyPage is the metrics page of a router that had requests of many kinds.
func busyPage(t *testing.T) string {
	bad := newWorker(t, func(c *call) { c.w.WriteHeader(500) })
	good := newWorker(t, nil)
	rt := start(t, func(c *config.Config) { c.Queue.Enabled = true }, bad, good)
	for i := range 40 {
		rt.post("/v1/chat/completions", chat(fmt.Sprint("request ", i), i%2 == 0))
	}
	return read(rt.http.Get(rt.AdminURL() + "/metrics")).body
}
