package handover

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// What an init system is told, see sd_notify(3).
const (
	IsReady    = "READY=1"
	IsStopping = "STOPPING=1"
)

// IsReloading begins a reload, which IsReady ends.
func IsReloading() []string {
	return []string{"RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", monotonic().Microseconds())}
}

// MainPID says which process is the service now.
func MainPID(pid int) string { return fmt.Sprintf("MAINPID=%d", pid) }

// notifyTime bounds the wait for an init system that does not take what it is told.
const notifyTime = 500 * time.Millisecond

// Notify tells the init system how this process stands, where there is one that asks for it (NOTIFY_SOCKET).
func Notify(lines ...string) error {
	address := os.Getenv("NOTIFY_SOCKET")
	if address == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"}) // a leading @ is an abstract name there and here
	if err != nil {
		return fmt.Errorf("the init system cannot be told (NOTIFY_SOCKET): %w", err)
	}
	defer c.Close()
	c.SetWriteDeadline(time.Now().Add(notifyTime))
	if _, err = c.Write([]byte(strings.Join(lines, "\n"))); err != nil {
		return fmt.Errorf("the init system cannot be told (NOTIFY_SOCKET): %w", err)
	}
	return nil
}
