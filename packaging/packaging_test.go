// Package packaging_test holds the files of this folder to their rules, and runs the release script.
package packaging_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func text(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// accepted fails the test when the product does not take a command line; --help stops it before it does anything.
func accepted(t *testing.T, args []string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), binary(t), append(slices.Clone(args), "--help")...).CombinedOutput()
	if err != nil {
		t.Errorf("warmpath %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// binary builds the product; after the first time it comes out of the build cache.
func binary(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "warmpath")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", file, "../cmd/warmpath")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

// instruction is one of a Dockerfile, its continuation lines joined.
type instruction struct{ name, rest string }

func dockerfile(t *testing.T, name string) (stages [][]instruction) {
	t.Helper()
	joined := regexp.MustCompile(`\\\n\s*`).ReplaceAllString(text(t, name), "")
	for line := range strings.Lines(joined) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		if word == "FROM" {
			stages = append(stages, nil)
		}
		last := len(stages) - 1
		if last < 0 {
			t.Fatalf("%s: %s before FROM", name, word)
		}
		stages[last] = append(stages[last], instruction{word, strings.TrimSpace(rest)})
	}
	return stages
}

// command is an instruction's argument in exec form; a shell would be needed for any other, and there is none.
func command(t *testing.T, in instruction) []string {
	t.Helper()
	_, list, ok := strings.Cut(in.rest, "[")
	var args []string
	if !ok || json.Unmarshal([]byte("["+list), &args) != nil || len(args) == 0 {
		t.Errorf("%s %s: not in exec form", in.name, in.rest)
	}
	return args
}

func only(t *testing.T, stage []instruction, name string) instruction {
	t.Helper()
	var found []instruction
	for _, in := range stage {
		if in.name == name {
			found = append(found, in)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d %s instructions, want one", len(found), name)
	}
	return found[0]
}

var (
	pinned  = regexp.MustCompile(`^[a-z][a-z0-9/.-]*:[0-9][A-Za-z0-9._-]*( AS [a-z]+)?$`)
	nobody  = regexp.MustCompile(`^[1-9][0-9]*:[1-9][0-9]*$`)
	goLine  = regexp.MustCompile(`(?m)^go ([0-9.]+)$`)
	goImage = regexp.MustCompile(`^golang:([0-9.]+)-`)
)

func TestTheImageHoldsTheBinaryAloneAndRunsItAsNobody(t *testing.T) {
	stages := dockerfile(t, "Dockerfile")
	last := stages[len(stages)-1]
	if last[0].rest != "scratch" {
		t.Errorf("the last stage is from %s, not from scratch", last[0].rest)
	}
	for _, in := range last {
		switch in.name {
		case "RUN", "ADD", "SHELL":
			t.Errorf("%s in the last stage", in.name)
		case "COPY":
			if !strings.HasPrefix(in.rest, "--from=build ") {
				t.Errorf("COPY %s: only what was built goes in", in.rest)
			}
		}
	}
	for _, stage := range stages[:len(stages)-1] {
		if !pinned.MatchString(stage[0].rest) {
			t.Errorf("FROM %s: no pinned version", stage[0].rest)
		}
		if m := goImage.FindStringSubmatch(stage[0].rest); m == nil || m[1] != goLine.FindStringSubmatch(text(t, "../go.mod"))[1] {
			t.Errorf("FROM %s: not the Go of go.mod", stage[0].rest)
		}
	}
	if user := only(t, last, "USER").rest; !nobody.MatchString(user) {
		t.Errorf("USER %s: want numbers, neither of them root's", user)
	}
	entry := command(t, only(t, last, "ENTRYPOINT"))
	if len(entry) != 1 || entry[0] != "/warmpath" {
		t.Errorf("ENTRYPOINT %q", entry)
	}
	accepted(t, command(t, only(t, last, "CMD")))
	if check := command(t, only(t, last, "HEALTHCHECK")); check[0] != "/warmpath" {
		t.Errorf("HEALTHCHECK runs %s, which the image has not", check[0])
	} else {
		accepted(t, check[1:])
	}
}

func TestTheEnginesImageIsThatOfTheEndToEndTest(t *testing.T) {
	stage := dockerfile(t, "engine.Dockerfile")[0]
	if !pinned.MatchString(stage[0].rest) || !nobody.MatchString(only(t, stage, "USER").rest) {
		t.Errorf("%v", stage)
	}
	if copied := only(t, stage, "COPY").rest; !strings.HasPrefix(copied, "e2e/engine.txt ") {
		t.Errorf("COPY %s: the engine's versions are those of e2e/engine.txt", copied)
	}
	if !strings.Contains(text(t, "../.dockerignore"), "!e2e/engine.txt") {
		t.Error("e2e/engine.txt is kept out of the build")
	}
}

func TestTheComposeFileLocksItsContainersDown(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Command  []string
			Ports    []string
			ReadOnly bool     `yaml:"read_only"`
			CapDrop  []string `yaml:"cap_drop"`
			Security []string `yaml:"security_opt"`
			Build    struct{ Context, Dockerfile string }
		}
	}
	if err := yaml.Unmarshal([]byte(text(t, "compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Services) != 3 {
		t.Errorf("%d services", len(file.Services))
	}
	for name, s := range file.Services {
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.Security, "no-new-privileges:true") {
			t.Errorf("%s: %+v", name, s)
		}
		if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s publishes %s to everybody", name, p)
			}
		}
	}
	router := file.Services["warmpath"]
	accepted(t, router.Command)
	for _, arg := range router.Command {
		if url, ok := strings.CutPrefix(arg, "--worker=http://"); ok {
			if host, _, _ := strings.Cut(url, ":"); file.Services[host].Build.Dockerfile == "" {
				t.Errorf("%s names no service", arg)
			}
		}
	}
}

func TestTheUnitRunsCommandsThatExistAndIsHardened(t *testing.T) {
	unit := text(t, "warmpath.service")
	commands := regexp.MustCompile(`(?m)^ExecStart(?:Pre)?=/usr/local/bin/warmpath (.*)$`).FindAllStringSubmatch(unit, -1)
	if len(commands) != 2 {
		t.Fatalf("%d commands", len(commands))
	}
	for _, m := range commands {
		accepted(t, strings.Fields(m[1]))
	}
	for _, want := range []string{"DynamicUser=yes", "NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=\n", "RestartPreventExitStatus=2", "StateDirectory=warmpath"} {
		if !strings.Contains(unit, want) {
			t.Errorf("the unit lacks %s", strings.TrimSpace(want))
		}
	}
}

// release runs the script for this machine's own target and returns the folder and what was printed.
func release(t *testing.T, env ...string) (folder, said string, err error) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "dist")
	cmd := exec.CommandContext(t.Context(), "./release.sh", folder)
	cmd.Env = append(append(os.Environ(), "TARGETS=linux/amd64", "VERSION=v0.0.1-test", "COMMIT=abc", "DATE=2026-01-02T03:04:05Z"), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return folder, out.String(), err
}
