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

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"warmpath": main})
}

func TestTheCommandLine(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
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
