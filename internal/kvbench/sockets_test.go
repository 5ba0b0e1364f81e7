package kvbench

import (
	"bufio"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/bench"
)

// playEnv has the test's own binary publish, as the product's does.
const playEnv = "WARMPATH_TEST_PUBLISH"

func TestEventsOfAProcessAreCountedAndSeen(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(playEnv, "4")
	e, err := startEngines(t.Context(), self, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	s, err := sockets(t.Context(), bench.Options{Rounds: 1, Window: 100 * time.Millisecond, Progress: t.Output()}, e)
	if err != nil || len(s.Checks) != 2 || s.Rows[0].Values[0] <= 0 || s.Rows[0].Values[1] <= 0 || s.Rows[0].Values[3] <= 0 {
		t.Fatalf("%+v, %v", s, err)
	}
}

func TestPublishingEndsWithItsInput(t *testing.T) {
	in, end := io.Pipe()
	out, said := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Publish(t.Context(), 2, in, said) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || len(strings.Fields(line)) != 2 {
		t.Fatalf("%q, %v", line, err)
	}
	end.Close()
	if err := <-done; err == nil {
		t.Error("nobody subscribed, and it is no error")
	}
}
