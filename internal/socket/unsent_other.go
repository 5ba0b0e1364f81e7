//go:build !linux

package socket

import "net"

// LimitUnsent is for Linux.
func LimitUnsent(*net.TCPConn, int) {}
