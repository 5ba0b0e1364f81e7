package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// exitsSoon has the race detector not sleep for a second before each process ends. That second is for goroutines that are left when main is done:
// commands wait for theirs, and some 250 processes are started here.
const exitsSoon = "atexit_sleep_ms=20"

func TestMain(m *testing.M) {
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", exitsSoon) // for the processes that tests start
	}
	testscript.Main(m, map[string]func(){"warmpath": main})
}

func TestTheCommandLine(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup:               func(e *testscript.Env) error { e.Setenv("GORACE", os.Getenv("GORACE")); return nil },
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits is "exits CODE COMMAND...": the command must end with that code. What it printed is there for stdout and stderr after it.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%s did not run: %v", args[1], err)
		}
		code = exit.ExitCode()
	}
	if code != want {
		ts.Fatalf("%s ended with %d, want %d", args[1], code, want)
	}
}

func TestAPortInUseHasAnExitCodeOfItsOwn(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, flag := range []string{"--listen", "--admin"} {
		other := map[string]string{"--listen": "--admin", "--admin": "--listen"}[flag]
		var stdout, stderr strings.Builder
		code := run([]string{"serve", "--worker", "http://127.0.0.1:1", "--state-dir", t.TempDir(),
			flag, taken.Addr().String(), other, "127.0.0.1:0"}, &stdout, &stderr)
		if code != exitPortInUse || !strings.Contains(stderr.String(), taken.Addr().String()) {
			t.Errorf("%s: exit code %d, %s", flag, code, stderr.String())
		}
	}
}

func TestColoursAreForTerminalsOnly(t *testing.T) {
	t.Setenv("TERM", "xterm")
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got := emphasis(file, "x"); got != "x" {
		t.Errorf("a file got %q", got)
	}
}
