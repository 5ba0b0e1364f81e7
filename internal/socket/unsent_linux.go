package socket

import (
	"net"
	"syscall"
	"unsafe"
)

// notSentLowat is TCP_NOTSENT_LOWAT (tcp(7)), which package syscall does not name.
const notSentLowat = 25

// LimitUnsent bounds what the kernel holds of what was written to a connection and cannot be sent yet, because the other side reads slowly. Without
// it that grows to megabytes, and only when a third of them is gone may more be written: a reader that reads all the time, but slowly, would
// look as if it had stopped. Nothing is wrong where it cannot be set.
func LimitUnsent(c *net.TCPConn, bytes int) {
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, notSentLowat, bytes) })
	}
}

// Untaken is how many bytes that were written to a connection its other side has not acknowledged (SIOCOUTQ, tcp(7)). known is false where the
// system does not tell.
func Untaken(c syscall.RawConn) (bytes int, known bool) {
	var n int32
	err := c.Control(func(fd uintptr) {
		_, _, failed := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCOUTQ, uintptr(unsafe.Pointer(&n)))
		known = failed == 0
	})
	return int(n), known && err == nil
}
