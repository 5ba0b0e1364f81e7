package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a contestant's, or the mock workers', with its children: they share a process group.
type process struct {
	name string
	cmd  *exec.Cmd
	addr string // where it serves
	out  *bytes.Buffer
	done chan struct{}
}

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 5 * time.Second
	tickSeconds  = 0.01 // of /proc/PID/stat: USER_HZ is 100 on Linux, whatever the kernel's own tick
)

// startProcess runs a command in a process group of its own.
func startProcess(name, addr string, argv []string, env ...string) (*process, error) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return nil, errors.New("bench reads CPU times from /proc and runs on Linux only")
	}
	p := &process{name: name, addr: addr, cmd: exec.Command(argv[0], argv[1:]...), out: &bytes.Buffer{}, done: make(chan struct{})}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// stop ends the process and its children.
func (p *process) stop() {
	if p == nil {
		return
	}
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	t := time.NewTimer(stopTimeout)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
	}
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// ready waits until a request through the process is answered well.
func (p *process) ready(ctx context.Context, request []byte) error {
	limit := time.Now().Add(startTimeout)
	var last error
	for time.Now().Before(limit) && ctx.Err() == nil {
		select {
		case <-p.done:
			return fmt.Errorf("%s ended at its start: %s", p.name, lastLines(p.out.String()))
		default:
		}
		k := newClient(p.addr)
		_, last = k.ask(request, nil)
		k.close()
		if last == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("%s does not answer within %v: %w", p.name, startTimeout, last)
}

func lastLines(s string) string { return s[max(0, len(s)-600):] }

// group lists the processes of p's group.
func (p *process) group() []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var pids []int
	for _, file := range stats {
		f := statFields(file)
		if len(f) > 2 && f[2] == strconv.Itoa(p.cmd.Process.Pid) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// statFields are the fields of a stat file behind the command's name, which may contain anything: state, parent, group, ...
func statFields(file string) []string {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

// cpu is what the process and its children have used, user and system.
func (p *process) cpu() time.Duration {
	ticks := 0
	for _, pid := range p.group() {
		if f := statFields(fmt.Sprintf("/proc/%d/stat", pid)); len(f) > 12 {
			user, _ := strconv.Atoi(f[11])
			system, _ := strconv.Atoi(f[12])
			ticks += user + system
		}
	}
	return time.Duration(float64(ticks) * tickSeconds * float64(time.Second))
}

// memory is the resident bytes of the process and its children.
func (p *process) memory() (bytes int) {
	for _, pid := range p.group() {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		for line := range strings.Lines(string(status)) {
			if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				kb, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
				bytes += kb << 10
			}
		}
	}
	return bytes
}

// freeAddr is a loopback address nobody listens on now, below the ports that the system gives to outgoing connections.
func freeAddr() (string, error) {
	for range 100 {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 16_000+rand.IntN(16_000))); err == nil {
			defer l.Close()
			return l.Addr().String(), nil
		}
	}
	return "", errors.New("no free port between 16000 and 32000")
}

func freeAddrs() (one, other string, err error) {
	if one, err = freeAddr(); err == nil {
		other, err = freeAddr()
	}
	return one, other, err
}

// workers are mock workers in a process of their own.
type workers struct {
	*process
	urls []string
}

// MockCommand is the argument that makes the binary play mock workers; their number follows.
const MockCommand = "bench-workers"

func startWorkers(ctx context.Context, o Options, n int) (*workers, error) {
	file, err := os.CreateTemp("", "warmpath-bench-*")
	if err != nil {
		return nil, err
	}
	file.Close()
	defer os.Remove(file.Name())
	p, err := startProcess("mock workers", "", []string{o.Self, MockCommand, strconv.Itoa(n), file.Name()})
	if err != nil {
		return nil, err
	}
	w := &workers{process: p}
	for limit := time.Now().Add(startTimeout); time.Now().Before(limit) && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		if b, err := os.ReadFile(file.Name()); err == nil && bytes.HasSuffix(b, []byte("\n")) {
			w.urls = strings.Fields(string(b))
			w.addr = strings.TrimPrefix(w.urls[0], "http://")
			return w, nil
		}
	}
	p.stop()
	return nil, fmt.Errorf("the mock workers did not start: %s", lastLines(p.out.String()))
}

func (w *workers) behave(b behaviour) error {
	_, err := mockGet(w.urls[0], fmt.Sprintf("/behave?events=%d&pace=%s&hold=%s", b.Events, b.Pace, b.Hold))
	return err
}

// served are the requests that each worker has answered.
func (w *workers) served() (n []int, err error) {
	b, err := mockGet(w.urls[0], "/counts")
	if err == nil {
		err = json.Unmarshal(b, &n)
	}
	return n, err
}
