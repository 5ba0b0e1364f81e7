package socket

import (
	"os"
	"sync"
	"syscall"
)

// Watcher learns from the kernel when the other side of a connection closes it or breaks it, whether anybody reads from the connection
// or not. The events are edge-triggered and only those of an end, so that bytes in the ordinary way cost nothing here.
type Watcher struct {
	file *os.File // the epoll descriptor, which the runtime's own poller waits for
	raw  syscall.RawConn
	fd   int

	mu     sync.Mutex        // also keeps epoll_ctl, which never waits, from a descriptor that is closed and another's already
	left   map[uint64]func() // by number: a descriptor's own may be used again while its event is on the way
	next   uint64
	closed bool
}

// EPOLLRDHUP and EPOLLET as the kernel has them (epoll_ctl(2)); package syscall has the second negative.
const watchedEvents = syscall.EPOLLRDHUP | 1<<31

// NewWatcher makes a watcher; nil, without an error, where the system has none. Run must be running for it to tell anything.
func NewWatcher() (*Watcher, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		syscall.Close(fd)
		return nil, err
	}
	w := &Watcher{file: os.NewFile(uintptr(fd), "epoll"), fd: fd, left: map[uint64]func(){}}
	if w.raw, err = w.file.SyscallConn(); err != nil {
		w.file.Close()
		return nil, err
	}
	return w, nil
}

// Add has left called once when the other side of fd closes, or when the watcher is closed. It must not block. The watch ends with
// Remove, or with the descriptor; then Forget is to be called.
func (w *Watcher) Add(fd int, left func()) (number uint64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, os.ErrClosed
	}
	w.next++
	e := syscall.EpollEvent{Events: watchedEvents, Fd: int32(uint32(w.next)), Pad: int32(uint32(w.next >> 32))}
	if err := syscall.EpollCtl(w.fd, syscall.EPOLL_CTL_ADD, fd, &e); err != nil {
		return 0, os.NewSyscallError("epoll_ctl", err)
	}
	w.left[w.next] = left
	return w.next, nil
}

// Remove takes back a watch whose descriptor lives on.
func (w *Watcher) Remove(fd int, number uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		syscall.EpollCtl(w.fd, syscall.EPOLL_CTL_DEL, fd, &syscall.EpollEvent{})
	}
	delete(w.left, number)
}

// Forget ends a watch whose descriptor is closed.
func (w *Watcher) Forget(number uint64) {
	w.mu.Lock()
	delete(w.left, number)
	w.mu.Unlock()
}

// Run tells of ends until Close.
func (w *Watcher) Run() {
	var events [128]syscall.EpollEvent
	for {
		n := 0
		err := w.raw.Read(func(fd uintptr) bool {
			var err error
			if n, err = syscall.EpollWait(int(fd), events[:], 0); err == syscall.EINTR {
				n = 0
			}
			return n > 0
		})
		if err != nil { // closed
			w.mu.Lock()
			watched := w.left
			w.left = map[uint64]func(){}
			w.mu.Unlock()
			for _, left := range watched {
				left()
			}
			return
		}
		for _, e := range events[:max(n, 0)] {
			number := uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32
			w.mu.Lock()
			left := w.left[number]
			delete(w.left, number)
			w.mu.Unlock()
			if left != nil {
				left()
			}
		}
	}
}

// Close ends Run, which then calls left for every watch that there still is: nobody would be told from here on.
func (w *Watcher) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.file.Close()
}
