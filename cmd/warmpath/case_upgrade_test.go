package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestOneProcessTakesOverFromAnotherUnderLoadAndNothingFailsOrIsCut(t *testing.T) {
	t.Parallel()
	a, b := newWorker(t, asTheyCome), newWorker(t, asTheyCome)
	a.forgets, b.forgets = true, true
	p := startProcess(t, workersOf(a, b), nil)
	p.ready()
	load := ask(t, p.data, 8, 8)
	pids := map[int]bool{p.cmd.Process.Pid: true}
	last := p.cmd.Process.Pid
	for i := range 2 {
		from := load.Requests()
		eventually(t, "more requests", func() bool { return load.Requests() > from+50 })
		report, err := p.upgrade()
		if err != nil {
			t.Fatal(err)
		}
		if report.From != last || pids[report.PID] {
			t.Errorf("handover %d: %+v, before it process %d served", i+1, report, last)
		}
		pids[report.PID], last = true, report.PID
	}
	<-p.ended
	from := load.Requests()
	eventually(t, "more requests after the first process has ended", func() bool { return load.Requests() > from+50 })
	whole(t, load)
	if p.cmd.ProcessState.ExitCode() != exitOK {
		t.Errorf("the first process ended with %s", p.cmd.ProcessState)
	}
	if err := syscall.Kill(last, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

func TestASuccessorThatCannotServeLeavesTheFormerOneServingAndSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorker(t, asTheyCome)
	w.forgets = true
	p := startProcess(t, workersOf(w)+"handover_timeout: 2s\n", nil)
	p.ready()
	good, err := os.ReadFile(p.file())
	if err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	load := ask(t, p.data, 4, 2)
	for _, c := range []struct{ what, file, want string }{
		{"a configuration that is wrong", string(good) + "drain-timeout: 1s\n", "unknown key; did you mean drain_timeout?"},
		{"a port that is taken", strings.Replace(string(good), "listen: ", "listen: "+taken.Addr().String()+" #", 1), "address already in use"},
		{"no worker that answers", strings.Replace(string(good), w.url, "http://127.0.0.1:1", 1), "handover_timeout): no worker answers"},
	} {
		p.write(c.file)
		if _, err := p.upgrade(); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "serves on") {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	p.write(string(good))
	from := load.Requests()
	eventually(t, "more requests", func() bool { return load.Requests() > from+20 })
	if _, err := p.upgrade(); err != nil {
		t.Errorf("after three failures: %v", err)
	}
	whole(t, load)
}

func TestWhatWasSetAtTheAdminPortGoesAlongToTheSuccessor(t *testing.T) {
	t.Parallel()
	a, b := newWorker(t, nil), newWorker(t, nil)
	p := startProcess(t, workersOf(a)+"discovery: {register: true}\n", nil)
	p.ready()
	post := func(path, body string) {
		if r := read(http.Post(p.admin+path, "application/json", strings.NewReader(body))); r.err != nil || r.status/100 != 2 {
			t.Fatalf("%s: %d %s %v", path, r.status, r.body, r.err)
		}
	}
	post("/workers", fmt.Sprintf(`{"url":%q,"id":"by-hand","key":"sk-1"}`, b.url))
	post("/workers?heartbeat=1m", `{"url":"http://127.0.0.1:9","id":"by-itself"}`)
	post("/workers/"+strings.TrimPrefix(a.url, "http://")+"/drain", "")
	post("/policy", `{"policy":"round-robin"}`)
	http.DefaultClient.CloseIdleConnections()
	if _, err := p.upgrade(); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	r := read(http.Get(p.admin + "/state"))
	for _, want := range []string{`"policy": "round-robin"`, `"id": "by-hand"`, `"id": "by-itself"`, `"draining": "by hand"`} {
		if !strings.Contains(r.body, want) {
			t.Errorf("the successor does not know %s", want)
		}
	}
	if r := read(http.Post(p.data+"/v1/chat/completions", "application/json", strings.NewReader(chat("x", false)))); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	if c := b.calls(); len(c) == 0 || c[0].r.Header.Get("Authorization") != "Bearer sk-1" {
		t.Error("the credential did not go along")
	}
}

func TestSignalsThatComeBeforeTheConfigurationIsReadNeitherKillNorGetLost(t *testing.T) {
	t.Parallel()
	w := newWorker(t, nil)
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM} {
		var file string
		var text []byte
		p := startProcess(t, workersOf(w), func(c *exec.Cmd) { // it waits for a pipe in the place of its configuration
			file = c.Args[len(c.Args)-1]
			var err error
			if text, err = os.ReadFile(file); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)); err != nil {
				t.Fatal(err)
			}
		})
		pipe, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		p.cmd.Process.Signal(s)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		p.write(string(text))
		pipe.Write(text)
		pipe.Close()
		if s == syscall.SIGHUP {
			p.ready()
			eventually(t, "the configuration to be read again", func() bool { return strings.Contains(p.log(), "asked_by=SIGHUP") })
			p.cmd.Process.Signal(syscall.SIGTERM)
		}
		<-p.ended
		if code := p.cmd.ProcessState.ExitCode(); code != exitOK {
			t.Errorf("%v: %s", s, p.cmd.ProcessState)
		}
	}
}

func TestSystemdsSocketsAreServedAndSystemdIsTold(t *testing.T) {
	t.Parallel()
	w := newWorker(t, nil)
	data, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	socket, err := data.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	told, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	next := func() string {
		var b [512]byte
		n, err := told.Read(b[:])
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	p := startProcess(t, workersOf(w), func(c *exec.Cmd) {
		c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`}, c.Args...)
		c.ExtraFiles = []*os.File{socket}
		c.Env = append(os.Environ(), "LISTEN_FDS=1", "LISTEN_FDNAMES=warmpath-data.socket", "NOTIFY_SOCKET="+told.LocalAddr().String())
	})
	p.data = "http://" + data.Addr().String()
	p.ready()
	if got := next(); got != "READY=1" {
		t.Errorf("at the start systemd is told %q", got)
	}
	p.cmd.Process.Signal(syscall.SIGHUP)
	if got := next(); !strings.HasPrefix(got, "RELOADING=1\nMONOTONIC_USEC=") {
		t.Errorf("with a reload systemd is told %q", got)
	}
	if got := next(); got != "READY=1" {
		t.Errorf("after a reload systemd is told %q", got)
	}
	report, err := p.upgrade()
	if err != nil {
		t.Fatal(err)
	}
	if got := next(); got != fmt.Sprintf("MAINPID=%d\nREADY=1", report.PID) {
		t.Errorf("of the successor systemd is told %q", got)
	}
	p.ready()
	syscall.Kill(report.PID, syscall.SIGTERM)
	if got := next(); got != "STOPPING=1" {
		t.Errorf("at the end systemd is told %q", got)
	}
}
