package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/warmpath/warmpath/internal/patrons"
	"time"
)

// process is `warmpath serve` as a process of its own.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	dir   string // with its configuration, warmpath.yaml
	data  string // http://address
	admin string
	out   *os.File // of it and of its successors, whose end Wait would wait for if it were a pipe
	ended chan struct{}
}

// startProcess runs serve on a configuration file: addresses, a state folder and the lines that are given. prepare may change the command.
func startProcess(t *testing.T, lines string, prepare func(*exec.Cmd)) *process {
	t.Helper()
	data, admin := freeAddress(t), freeAddress(t)
	p := &process{t: t, dir: t.TempDir(), data: "http://" + data, admin: "http://" + admin, ended: make(chan struct{})}
	p.write(fmt.Sprintf("listen: %s\nadmin: %s\nstate_dir: %s\ntelemetry: {interval: 100ms, timeout: 300ms, stale_after: 500ms}\n%s", data, admin, p.dir, lines))
	p.cmd = exec.Command("warmpath", "serve", "--config", p.file())
	var err error
	if p.out, err = os.Create(filepath.Join(p.dir, "log")); err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its successors are of its group
	if prepare != nil {
		prepare(p.cmd)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.cmd.Wait(); close(p.ended) }()
	t.Cleanup(func() {
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.ended
		if t.Failed() {
			t.Logf("log of the process:\n%s", p.log())
		}
		p.out.Close()
	})
	return p
}

func (p *process) file() string { return filepath.Join(p.dir, "warmpath.yaml") }

func (p *process) log() string {
	text, err := os.ReadFile(p.out.Name())
	if err != nil {
		p.t.Error(err)
	}
	return string(text)
}

func (p *process) write(text string) {
	if err := os.WriteFile(p.file(), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// ready waits until it can serve.
func (p *process) ready() {
	p.t.Helper()
	eventually(p.t, "the process to be ready", func() bool { return read(http.Get(p.data+"/readyz")).status == http.StatusOK })
	http.DefaultClient.CloseIdleConnections() // it would wait for them at its end
}

// upgrade has a successor take over.
func (p *process) upgrade() (upgradeReport, error) {
	a := adminFlags{url: p.admin}
	var report upgradeReport
	err := a.call(context.Background(), http.MethodPost, "/upgrade", &report)
	return report, err
}

// ask has clients ask a data port all the time, until they leave.
func ask(t *testing.T, url string, short, streams int) *patrons.Patrons {
	p := patrons.Come(url, patrons.Party{Short: short, Streams: streams, Body: chat})
	t.Cleanup(func() { p.Leave() })
	return p
}

// whole has them leave, and says that nothing failed and nothing was cut.
func whole(t *testing.T, p *patrons.Patrons) {
	t.Helper()
	tally := p.Leave()
	t.Log(tally)
	if tally.Failed+tally.Cut > 0 {
		t.Error(tally)
	}
}

// asTheyCome answers short requests at once and streams over some seconds.
func asTheyCome(c *call) {
	if !c.wantsStream() {
		c.good("hello", "world")
		return
	}
	c.events()
	for range 15 {
		c.send(deltaOf("word"))
		if !c.wait(100 * time.Millisecond) {
			return
		}
	}
	c.send("data: [DONE]\n\n")
}

func workersOf(workers ...*worker) string {
	var out strings.Builder
	out.WriteString("workers:\n")
	for _, w := range workers {
		fmt.Fprintf(&out, "  - %s\n", w.url)
	}
	return out.String()
}
