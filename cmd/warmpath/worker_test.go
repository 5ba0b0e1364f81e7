package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

// workerCLI runs `warmpath worker` with these arguments until ctx ends.
func workerCLI(ctx context.Context, out io.Writer, args ...string) error {
	cmd := workerCommand()
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	return cmd.ExecuteContext(ctx)
}

func TestAWorkerSaysWhereItIsServesAndStopsGracefully(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- workerCLI(ctx, write, "--port", "0", "--time-scale", "100", "--model", "m")
		write.Close()
	}()
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, url, ok := strings.Cut(strings.TrimSpace(line), " on ")
	if !ok || !strings.Contains(line, "h100-8b serving m at 100x") {
		t.Fatalf("it said %q", line)
	}
	answer, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"model":"m","prompt":"a"}`))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("status %d", answer.StatusCode)
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Errorf("a stop is no error: %v", err)
	}
}

func TestAWorkerNamesThePortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	err = workerCLI(t.Context(), io.Discard, "--port", port)
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "port "+port) || exitCode(err) != exitPortInUse {
		t.Errorf("%v, exit code %d", err, exitCode(err))
	}
}

func TestAWorkerNamesTheWrongFlag(t *testing.T) {
	for args, want := range map[string]string{
		"--profile=h100":      "--profile \"h100\" is not known; choose one of a100-32b-tp2,",
		"--time-scale=0":      "--time-scale 0: it must be above 0",
		"--context=0":         "--context 0: it must be at least 1",
		"--kv-tokens=3":       "--kv-tokens 3: it must be at least one block of 16",
		"--batch=-1":          "--batch -1: it must be at least 1",
		"--output-mean=0":     "--output-mean 0: it must be at least 1",
		"--model=":            "--model is empty",
		"--drain-timeout=-1s": "--drain-timeout -1s: it must not be negative",
	} {
		err := workerCLI(t.Context(), io.Discard, args)
		if err == nil || !strings.Contains(err.Error(), want) || exitCode(err) != exitUsage {
			t.Errorf("%s: %v, exit code %d", args, err, exitCode(err))
		}
	}
}

func TestTheRouterLearnsASimulatedWorkersBatchSlotsAndCapsItAtTwiceAsMany(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- workerCLI(ctx, write, "--port", "0", "--batch", "2")
		write.Close()
	}()
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, url, _ := strings.Cut(strings.TrimSpace(line), " on ")
	rt := start(t, func(c *config.Config) { c.Workers = append(c.Workers, config.Worker{ID: "sim", URL: url}) })
	eventually(t, "the slots to be known", func() bool { return rt.worker("sim").SlotsMax > 0 })
	if s := rt.worker("sim"); s.SlotsMax != 2 || s.InFlightMax != 4 || s.Engine != "warmpath" {
		t.Errorf("%s with %d slots, capped at %d", s.Engine, s.SlotsMax, s.InFlightMax)
	}
	rt.Close()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
