package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/life"
	"github.com/warmpath/warmpath/internal/traces"
)

// What prove needs of clients and of the program run as a process of its own.

// askStream is one streamed completion to ask for.
type askStream struct {
	prompt    string
	maxTokens int
	readMax   int    // leaves after so many tokens; 0 reads to the end
	first     func() // called at the first token
	id        string // of the request; "" lets the router make one
}

// streamed is what its client saw.
type streamed struct {
	headed      bool // the reply's head came
	tokens      int
	first, last time.Time // token
}

// gap is the mean time between tokens.
func (s streamed) gap() time.Duration {
	return s.last.Sub(s.first) / time.Duration(max(s.tokens-1, 1))
}

// proveClient asks one address and counts tokens; it never takes a reply apart, so that it costs little beside what it measures.
type proveClient struct{ *http.Client }

func newProveClient() proveClient {
	return proveClient{&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true}}}
}

// post sends one body and returns its reply, opened.
func (c proveClient) post(ctx context.Context, url, id string, body any) (*http.Response, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if id != "" {
		request.Header.Set("X-Request-Id", id)
	}
	return c.Do(request)
}

// status sends one body, reads the reply to its end and returns its status.
func (c proveClient) status(ctx context.Context, url string, body any) (status int, header http.Header, err error) {
	reply, err := c.post(ctx, url, "", body)
	if err != nil {
		return 0, nil, err
	}
	defer reply.Body.Close()
	_, err = io.Copy(io.Discard, reply.Body)
	return reply.StatusCode, reply.Header, err
}

var errStreamEnded = errors.New("the stream ended without data: [DONE]")

// stream asks for a completion of exactly maxTokens and reads it.
func (c proveClient) stream(ctx context.Context, base string, ask askStream) (s streamed, err error) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	reply, err := c.post(ctx, base+"/v1/completions", ask.id, map[string]any{"model": demoModel, "prompt": ask.prompt, "max_tokens": ask.maxTokens, "ignore_eos": true, "stream": true})
	if err != nil {
		return s, err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(reply.Body, 512))
		return s, fmt.Errorf("status %d: %s", reply.StatusCode, said)
	}
	s.headed = true
	lines := bufio.NewScanner(reply.Body)
	for lines.Scan() {
		switch line := lines.Bytes(); {
		case bytes.HasPrefix(line, []byte("data: [DONE]")):
			return s, nil
		case bytes.HasPrefix(line, []byte("data: {")):
			s.last = time.Now()
			if s.tokens++; s.tokens == 1 {
				s.first = s.last
				if ask.first != nil {
					ask.first()
				}
			}
			if s.tokens == ask.readMax {
				return s, nil
			}
		}
	}
	if err := lines.Err(); err != nil {
		return s, err
	}
	return s, errStreamEnded
}

// servedRouter is `warmpath serve` as a process of its own.
type servedRouter struct {
	data, admin string
	cmd         *exec.Cmd
	stdout      io.ReadCloser
	stderr      *bytes.Buffer // whole once the process has ended
}

const servedWaitMax = 10 * time.Second

// startServed runs `warmpath serve` on free ports, before the given workers, until end.
func (p *proof) startServed(ctx context.Context, folder string, workers ...string) (*servedRouter, error) {
	args := []string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--state-dir", folder, "--log-level", "warn"}
	for _, w := range workers {
		args = append(args, "--worker", w)
	}
	s := &servedRouter{cmd: exec.CommandContext(ctx, p.binary, args...), stderr: new(bytes.Buffer)}
	s.cmd.Stderr = s.stderr
	var err error
	if s.stdout, err = s.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(s.stdout)
	for s.admin == "" && lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "serving on "); ok {
			s.data, _, _ = strings.Cut(rest, "/v1 ")
		}
		if rest, ok := strings.CutPrefix(lines.Text(), "admin on "); ok {
			s.admin, _, _ = strings.Cut(rest, " ")
		}
	}
	if s.admin == "" {
		s.cmd.Wait()
		return nil, fmt.Errorf("warmpath serve did not start: %s", s.stderr)
	}
	return s, nil
}

// end sends SIGTERM and returns the exit code, -1 when it had to be killed.
func (s *servedRouter) end() int {
	kill := time.AfterFunc(servedWaitMax, func() { s.cmd.Process.Kill() })
	defer kill.Stop()
	s.cmd.Process.Signal(syscall.SIGTERM)
	io.Copy(io.Discard, s.stdout)
	s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

// runProgram runs a command line to its end and returns its exit code and what it wrote to standard error.
func (p *proof) runProgram(ctx context.Context, args ...string) (code int, stderr string) {
	ctx, cancel := context.WithTimeout(ctx, servedWaitMax)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.binary, args...)
	said := new(bytes.Buffer)
	cmd.Stderr = said
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		return -1, err.Error()
	}
	return cmd.ProcessState.ExitCode(), said.String()
}

// inFolder calls f with a fresh folder, which is gone afterwards.
func inFolder(f func(folder string) error) error {
	folder, err := os.MkdirTemp("", "warmpath-prove-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	return f(folder)
}

// until polls a condition, for at most limit, and returns whether it came to hold and after how long.
func until(ctx context.Context, limit time.Duration, holds func() bool) (bool, time.Duration) {
	const poll = 20 * time.Millisecond
	began := time.Now()
	for !holds() {
		if ctx.Err() != nil || time.Since(began) > limit {
			return false, time.Since(began)
		}
		life.Pause(ctx, poll)
	}
	return true, time.Since(began)
}

// eachDecision calls f with every record of a decision log, in the order they were written. The record is f's for the call only.
func eachDecision(file string, f func(*declog.Record)) error {
	in, done, err := traces.OpenFile(file)
	if err != nil {
		return err
	}
	defer done()
	for lines := declog.NewReader(in); ; {
		var r declog.Record
		switch err := lines.Next(&r); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("the decision log: %w", err)
		}
		f(&r)
	}
}

// rowLine is a row of a decision as prove shows it.
func rowLine(r declog.Row) string {
	return fmt.Sprintf("matched %5d  in flight %2d  total %.3f s = queued %.3f + its price %.3f + toll %.3f + prefill %.3f + %.1f * delay %.3f + decode %.3f + batch %.3f + displaced %.3f",
		r.MatchedTokens, r.InFlight, r.TotalSeconds, r.QueuedSeconds, r.WaitPriceSeconds, r.TollSeconds, r.PrefillSeconds, r.Price, r.DelaySeconds, r.DecodeSeconds, r.BatchSeconds,
		r.DisplacedSeconds)
}
