package engine

import (
	"context"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// pause sleeps to within some tens of microseconds. The runtime's own timers end up to a millisecond late when the
// process is otherwise idle (epoll counts in milliseconds), which would be two steps of a fast engine; spinning would
// cost a core. A kernel timer that the network poller waits for is exact and costs no thread.
type pause struct {
	ctx  context.Context
	file *os.File
	raw  syscall.RawConn
	buf  [8]byte
}

// itimerspec is the kernel's struct: interval, then first expiry.
type itimerspec struct {
	interval, value syscall.Timespec
}

const (
	clockMonotonic = 1
	tfdNonblock    = syscall.O_NONBLOCK
	tfdCloexec     = syscall.O_CLOEXEC
)

func newPause(ctx context.Context) (*pause, error) {
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, tfdNonblock|tfdCloexec, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("timerfd_create", errno)
	}
	p := &pause{ctx: ctx, file: os.NewFile(fd, "timerfd")}
	raw, err := p.file.SyscallConn()
	if err != nil {
		p.file.Close()
		return nil, err
	}
	p.raw = raw
	context.AfterFunc(ctx, p.close) // ends a read that is under way
	return p, nil
}

// until returns at that instant, or at once when it has passed or the context ends.
func (p *pause) until(deadline time.Time) {
	left := time.Until(deadline)
	if left <= 0 {
		return
	}
	spec := itimerspec{value: syscall.NsecToTimespec(int64(left))}
	set := false
	err := p.raw.Control(func(fd uintptr) {
		_, _, errno := syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
		set = errno == 0
	})
	if err == nil && set {
		_, err = p.file.Read(p.buf[:])
	}
	if err != nil || !set {
		sleep(p.ctx, deadline)
	}
}

func (p *pause) close() { p.file.Close() }
