//go:build e2e

package e2e

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

//go:embed page.js
var pageFaults string

// screens is where the pictures are left, for people to look at.
const screens = cache + "/screens"

// The replay's page is opened as its readers do: on a telephone and on a desk, light and dark.
func TestTheReplaysPageIsReadableInABrowser(t *testing.T) {
	if err := os.MkdirAll(screens, 0o755); err != nil {
		t.Fatal(err)
	}
	b := startBrowser(t)
	for _, c := range []struct {
		name     string
		drawings int // at least
		args     []string
	}{
		{"points", 20, []string{"groups:groups=60,prompts=5", "--fleet", "h100-32b-tp2:4,h100-8b:2", "--workers", "3,6", "--rate", "2,5,9", "--seeds", "2", "--policies", "all",
			"--slo", "ttft=2s,tpot=60ms,share=0.9", "--worker-price", "2.5"}},
		{"sessions", 6, []string{"uniform:requests=2000,at-once=40", "--fleet", "h100-8b:40", "--at-once", "40", "--policies", "warm-cost"}},
		{"nothing", 5, []string{"bursts:requests=1,output=1", "--policies", "random,least-tokens"}},
	} {
		page := filepath.Join(screens, c.name+".html")
		replay := exec.CommandContext(t.Context(), router, append(append([]string{"replay"}, c.args...), "--quiet", "--out", page)...)
		if out, err := replay.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		readable(t, b, c.name, page, c.drawings)
	}
}

// The page that report makes of a decision log, opened as the replay's.
func TestThePageOfADecisionLogIsReadableInABrowser(t *testing.T) {
	if err := os.MkdirAll(screens, 0o755); err != nil {
		t.Fatal(err)
	}
	b := startBrowser(t)
	page := filepath.Join(screens, "report.html")
	if out, err := exec.CommandContext(t.Context(), router, "report", "../internal/digest/testdata/day.jsonl", "--quiet", "--out", page).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	readable(t, b, "report", page, 3)
}

// readable opens a page at two widths, light and dark, and leaves pictures of it.
func readable(t *testing.T, b *browser, name, page string, drawings int) {
	t.Helper()
	for _, width := range []int{400, 1400} {
		for _, scheme := range []string{"light", "dark"} {
			said := b.show(page, width, scheme)
			var seen struct {
				Width, Texts, Drawings int
				Dark                   bool
				Faults                 []string
			}
			b.evaluate(pageFaults, &seen)
			at := fmt.Sprintf("%s at %d px, %s", name, width, scheme)
			b.screenshot(filepath.Join(screens, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)))
			if len(said) > 0 {
				t.Errorf("%s: the browser said %q", at, said)
			}
			if seen.Width != width || seen.Dark != (scheme == "dark") || seen.Texts < 40 || seen.Drawings < drawings {
				t.Errorf("%s: shown %d px wide, dark %v, %d texts, %d drawings", at, seen.Width, seen.Dark, seen.Texts, seen.Drawings)
			}
			for _, fault := range seen.Faults {
				t.Errorf("%s: %s", at, fault)
			}
		}
	}
}
