package downstream

import (
	"os"
	"sync"
	"syscall"
)

// watcher learns from the kernel when a client closes its side, whether anybody reads from the connection or not. The events are
// edge-triggered and only those of an end, so that a request in the ordinary way costs nothing here.
type watcher struct {
	file *os.File // the epoll descriptor, which the runtime's own poller waits for
	raw  syscall.RawConn
	fd   int

	mu   sync.Mutex
	left map[uint64]func() // by number: a descriptor's own may be used again while its event is on the way
	next uint64
}

// EPOLLRDHUP and EPOLLET as the kernel has them (epoll_ctl(2)); package syscall has the second negative.
const watchedEvents = syscall.EPOLLRDHUP | 1<<31

func newWatcher() (*watcher, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		syscall.Close(fd)
		return nil, err
	}
	w := &watcher{file: os.NewFile(uintptr(fd), "epoll"), fd: fd, left: map[uint64]func(){}}
	if w.raw, err = w.file.SyscallConn(); err != nil {
		w.file.Close()
		return nil, err
	}
	return w, nil
}

// add has left called once when the other side of fd closes. It must not block. The watch ends with remove, or the descriptor.
func (w *watcher) add(fd int, left func()) (number uint64, err error) {
	w.mu.Lock()
	w.next++
	number = w.next
	w.left[number] = left
	w.mu.Unlock()
	e := syscall.EpollEvent{Events: watchedEvents, Fd: int32(uint32(number)), Pad: int32(uint32(number >> 32))}
	if err := syscall.EpollCtl(w.fd, syscall.EPOLL_CTL_ADD, fd, &e); err != nil {
		w.forget(number)
		return 0, os.NewSyscallError("epoll_ctl", err)
	}
	return number, nil
}

// remove takes back a watch whose descriptor lives on.
func (w *watcher) remove(fd int, number uint64) {
	syscall.EpollCtl(w.fd, syscall.EPOLL_CTL_DEL, fd, &syscall.EpollEvent{})
	w.forget(number)
}

// forget ends a watch whose descriptor is closed.
func (w *watcher) forget(number uint64) {
	w.mu.Lock()
	delete(w.left, number)
	w.mu.Unlock()
}

func (w *watcher) run() {
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
		if err != nil {
			return // closed
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

func (w *watcher) close() { w.file.Close() }
