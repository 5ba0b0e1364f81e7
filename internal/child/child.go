// Package child starts the processes of a measurement, each in a process group of its own, and tells what they use. It reads /proc, so
// it is for Linux.
//
//	p, err := child.Start("nginx", addr, []string{"nginx", "-c", file})
//	defer p.Stop()
//	before := p.CPU()
package child

import (
	"bytes"
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

// Process is one that was started, with its children: they share a process group.
type Process struct {
	Name string
	Addr string // where it serves
	cmd  *exec.Cmd
	out  *bytes.Buffer
	done chan struct{}
}

const (
	stopTimeout = 5 * time.Second
	tickSeconds = 0.01 // of /proc/PID/stat: USER_HZ is 100 on Linux, whatever the kernel's own tick
)

// Start runs a command in a process group of its own.
func Start(name, addr string, argv []string, env ...string) (*Process, error) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return nil, errors.New("measurements read CPU times from /proc and run on Linux only")
	}
	p := &Process{Name: name, Addr: addr, cmd: exec.Command(argv[0], argv[1:]...), out: &bytes.Buffer{}, done: make(chan struct{})}
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

// Stop ends the process and its children; of nil it does nothing.
func (p *Process) Stop() {
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

// group lists the living processes of the group.
func (p *Process) group() []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var pids []int
	for _, file := range stats {
		f := statFields(file)
		if len(f) > 2 && f[0] != "Z" && f[2] == strconv.Itoa(p.cmd.Process.Pid) {
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

// CPU is what the process and its children have used, user and system.
func (p *Process) CPU() time.Duration {
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

// Memory is the resident bytes of the process and its children.
func (p *Process) Memory() int { return p.status("VmRSS:") }

// PeakMemory is the most that they were at any time, each by itself.
func (p *Process) PeakMemory() int { return p.status("VmHWM:") }

func (p *Process) status(field string) (bytes int) {
	for _, pid := range p.group() {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		for line := range strings.Lines(string(status)) {
			if rest, ok := strings.CutPrefix(line, field); ok {
				kb, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
				bytes += kb << 10
			}
		}
	}
	return bytes
}

// Ended is closed when the process is.
func (p *Process) Ended() <-chan struct{} { return p.done }

// LastWords are the end of what it wrote. It is to be asked once the process has ended, or is stopped.
func (p *Process) LastWords() string {
	s := p.out.String()
	return s[max(0, len(s)-600):]
}

// FreeAddr is a loopback address nobody listens on now, below the ports that the system gives to outgoing connections.
func FreeAddr() (string, error) {
	for range 100 {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 16_000+rand.IntN(16_000))); err == nil {
			defer l.Close()
			return l.Addr().String(), nil
		}
	}
	return "", errors.New("no free port between 16000 and 32000")
}

// FreeAddrs are two of them.
func FreeAddrs() (one, other string, err error) {
	if one, err = FreeAddr(); err == nil {
		other, err = FreeAddr()
	}
	return one, other, err
}
