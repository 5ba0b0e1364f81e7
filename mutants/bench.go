package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// What becomes of a mutant.
const (
	isKilled  = "killed"
	survives  = "SURVIVED"       // its test is green
	misfits   = "DOES NOT APPLY" // the source has changed
	breaks    = "NO BUILD"       // it does not compile
	misnamed  = "NO SUCH TEST"
	otherwise = "OTHER REASON" // its test is red and does not say what it is to say
)

// A finding is what became of one mutant.
type finding struct {
	Mutant  string  `json:"mutant"`
	Case    string  `json:"case"`
	Verdict string  `json:"verdict"`
	Package string  `json:"package"`
	Run     string  `json:"run"`
	Why     string  `json:"why"`
	Seconds float64 `json:"seconds"`
	Said    string  `json:"said,omitempty"` // the end of what go test said, of those that were not killed
}

// A bench is where mutants are tried.
type bench struct{ root, scratch string }

// saidMax bounds what is shown of a test's output, in bytes from its end.
const saidMax = 3000

// testLimit ends a test that the fault makes wait for ever.
const testLimit = "90s"

// patience is how long a test waits for what does not come, a minute else.
const patience = "WARMPATH_TEST_PATIENCE=10s"

// module is the folder of the module that the working directory is in.
func module() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go list -m: %w: %s; run this within the module's source", err, bytes.TrimSpace(out))
	}
	return strings.TrimSpace(string(out)), nil
}

// try puts one fault in and runs its test.
func (b bench) try(ctx context.Context, m mutant) finding {
	f := finding{Mutant: m.name, Case: m.named, Package: m.pkg, Run: m.run, Why: m.why}
	changed, err := m.apply(b.root)
	if err != nil {
		f.Verdict, f.Said = misfits, err.Error()
		return f
	}
	overlay, err := b.overlay(m.name, changed)
	if err != nil {
		f.Verdict, f.Said = misfits, err.Error()
		return f
	}
	out, err := b.test(ctx, m.pkg, m.run, "-overlay", overlay)
	f.Verdict = verdict(out, err, m.why)
	if f.Verdict != isKilled {
		f.Said = out[max(0, len(out)-saidMax):]
	}
	return f
}

// verdict judges what go test said. A test that the fault stops with a panic says why, too.
func verdict(out string, err error, why string) string {
	switch {
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		return breaks
	case strings.Contains(out, "[no tests to run]"):
		return misnamed
	case err == nil:
		return survives
	case strings.Contains(out, "--- FAIL: ") && strings.Contains(out, why):
		return isKilled
	}
	return otherwise
}

// test is what go test says. Without the race detector: what it looks for is not what mutants are made of, and it takes three times as long.
func (b bench) test(ctx context.Context, pkg, run string, flags ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"test", "-vet=off", "-count=1", "-timeout", testLimit, "-run", run}, flags, []string{pkg})...)
	cmd.Dir = b.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", patience)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// overlay writes the changed files and the list by which the compiler finds them.
func (b bench) overlay(name string, changed map[string]string) (list string, err error) {
	replace := map[string]string{}
	for file, text := range changed {
		other := filepath.Join(b.scratch, name+"."+strings.ReplaceAll(file, "/", "."))
		if err := os.WriteFile(other, []byte(text), 0o644); err != nil {
			return "", err
		}
		replace[filepath.Join(b.root, file)] = other
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	list = filepath.Join(b.scratch, name+".json")
	return list, os.WriteFile(list, text, 0o644)
}

// green runs all the tests without a fault: one that is red anyway kills nothing.
func (b bench) green(ctx context.Context, mutants []mutant) error {
	runs := map[string][]string{}
	for _, m := range mutants {
		runs[m.pkg] = append(runs[m.pkg], m.run)
	}
	for pkg, run := range runs {
		if out, err := b.test(ctx, pkg, strings.Join(run, "|")); err != nil {
			return fmt.Errorf("%s: the tests are not green without a fault: %w\n%s", pkg, err, out[max(0, len(out)-saidMax):])
		}
	}
	return nil
}
