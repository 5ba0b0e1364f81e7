package main

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/handover"
)

// serveHere is serve's process in this one.
func serveHere(stdout, stderr io.Writer, c config.Config, file string, again func() (config.Config, error)) error {
	return runServe(make(chan os.Signal, 2), new(handover.Inherited), stdout, stderr, c, file, again)
}

func TestSIGHUPWithoutAConfigurationFileEndsNothingAndSaysSo(t *testing.T) {
	w := newWorker(t, nil)
	c := config.Default()
	c.Listen, c.Admin, c.StateDir = "127.0.0.1:0", "", t.TempDir()
	c.Workers = []config.Worker{config.WorkerAt(w.url)}
	out, log, ended := &lockedBuffer{}, &lockedBuffer{}, make(chan error, 1)
	go func() { ended <- serveHere(out, log, c, "", nil) }()
	eventually(t, "the router to serve", func() bool { return strings.Contains(out.String(), "1 worker)") })
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := self.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the log to speak of the signal", func() bool { return strings.Contains(log.String(), "without a configuration file") })
	select {
	case err := <-ended:
		t.Fatalf("SIGHUP ended the router: %v", err)
	default:
	}
	if err := self.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("SIGTERM after it: %v", err)
	}
}
