//go:build e2e

package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

func TestTurnTwoOfTheDemoOnRealEnginesHits(t *testing.T) {
	demo := exec.CommandContext(t.Context(), "go", "run", "./scripts/demo-real", "--once")
	demo.Dir = ".."
	out, err := demo.CombinedOutput()
	said := string(out)
	if err != nil || !strings.Contains(said, "turn 1: miss") || !strings.Contains(said, "turn 2: hit") || !strings.Contains(said, "the page: http://127.0.0.1:") {
		t.Errorf("%v: %s", err, said)
	}
}
