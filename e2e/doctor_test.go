//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// examined is what `warmpath doctor --json` prints.
type examined struct {
	Verdict  string
	Requests int `json:"requests_sent"`
	Workers  []struct {
		Engine, Version, Verdict string
		Checks                   []struct{ Part, Level, Found, Without, Gain string }
	}
}

// parts are the checks of one worker as "level: gain".
func (e examined) parts(worker int) map[string]string {
	parts := map[string]string{}
	for _, c := range e.Workers[worker].Checks {
		parts[c.Part] = c.Level + ": " + c.Gain
	}
	return parts
}

func doctor(t *testing.T, want int, args ...string) examined {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), router, append([]string{"doctor", "--json"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || cmd.ProcessState.ExitCode() != want {
		t.Fatalf("doctor %v: %v, want exit code %d\n%s%s", args, err, want, stderr.String(), stdout.String())
	}
	var found examined
	if err := json.Unmarshal(stdout.Bytes(), &found); err != nil {
		t.Fatalf("%v in %s", err, stdout.String())
	}
	return found
}

func TestDoctorSaysWhatRealEnginesLack(t *testing.T) {
	_, full := startEngine(t, 0)
	_, bare := startEngineWith(t, 1)
	_, shut := startEngineWith(t, 2, "--no-slots", "--api-key", "sesame")
	for _, url := range []string{full, bare, shut} {
		eventually(t, url+" has loaded its model", startWait, func() bool { return get(url+"/health") != "" })
	}

	found := doctor(t, 0, "--worker", full, "--worker", bare)
	if found.Verdict != "improvable" || found.Workers[0].Verdict != "good" || found.Workers[1].Verdict != "improvable" || found.Requests != 6 {
		t.Errorf("%+v", found)
	}
	for i, w := range found.Workers {
		if w.Engine != "llama.cpp" || w.Version == "" {
			t.Errorf("%q %q", w.Engine, w.Version)
		}
		for _, part := range []string{"health", "models", "slots", "stream", "usage", "cached tokens", "cancellation"} {
			if got := found.parts(i)[part]; got != "full: " {
				t.Errorf("worker %d: %s: %s", i, part, got)
			}
		}
	}
	if got := found.parts(0)["metrics"]; got != "full: " {
		t.Errorf("with --metrics: %s", got)
	}
	if got := found.parts(1)["metrics"]; !strings.HasPrefix(got, "partly: ") || !strings.Contains(got, "--metrics") {
		t.Errorf("without --metrics: %s", got)
	}

	closed := doctor(t, 1, "--worker", shut)
	if parts := closed.parts(0); !strings.HasPrefix(parts["stream"], "broken: set this worker's key") || !strings.HasPrefix(parts["metrics"], "none: set this worker's key") {
		t.Errorf("without its key: %+v", closed)
	}
}
