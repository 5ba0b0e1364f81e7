package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// member is one worker of the fleet over all its lives.
type member struct {
	name, key, models string
	port, events      int // events is 0 where it tells nothing of its cache

	mu    sync.Mutex
	life  int
	cmd   *exec.Cmd
	in    io.WriteCloser
	ended chan struct{}
}

// freePort is a port of this machine that nobody has.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// start begins a life of the worker. What it notes goes to heard, in order.
func (m *member) start(heard func(note)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd != nil {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	m.life++
	cmd := exec.Command(self, "worker", m.name, fmt.Sprint(m.life), fmt.Sprint(m.port), m.key, m.models, fmt.Sprint(m.events))
	cmd.Env = append(os.Environ(), workerMark+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if m.in, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	m.cmd, m.ended = cmd, make(chan struct{})
	up := make(chan struct{})
	go func(ended chan struct{}) {
		defer close(ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var n note
			if json.Unmarshal(lines.Bytes(), &n) != nil {
				continue
			}
			if n.ID == ready && !n.Over && n.Bad == "" {
				close(up)
				continue
			}
			heard(n)
		}
		cmd.Wait()
	}(m.ended)
	select {
	case <-up:
		return nil
	case <-m.ended:
		return fmt.Errorf("worker %s ended at once", m.name)
	case <-time.After(20 * time.Second):
		return fmt.Errorf("worker %s did not start", m.name)
	}
}

// workerMark tells a test binary that it was started as a worker.
const workerMark = "WARMPATH_CHAOS_WORKER"

func (m *member) signal(s syscall.Signal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd != nil {
		m.cmd.Process.Signal(s)
	}
}

// kill ends the life at once and returns when all that it noted was heard.
func (m *member) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd == nil {
		return
	}
	m.cmd.Process.Kill()
	<-m.ended
	m.cmd = nil
}

// turn has the worker answer in a mode for a while. A frozen one hears of it when it thaws.
func (m *member) turn(to mode, lasts time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd != nil {
		fmt.Fprintf(m.in, "%s %d\n", to, lasts.Milliseconds())
	}
}
