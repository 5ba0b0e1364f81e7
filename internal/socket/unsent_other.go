//go:build !linux

package socket

import (
	"net"
	"syscall"
)

// LimitUnsent is for Linux.
func LimitUnsent(*net.TCPConn, int) {}

// Untaken is for Linux.
func Untaken(syscall.RawConn) (bytes int, known bool) { return 0, false }
