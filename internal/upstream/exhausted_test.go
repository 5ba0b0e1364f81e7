//go:build unix

package upstream

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
)

// lastDescriptor lowers the limit of open files to what is open, for the rest of the test.
func lastDescriptor(t *testing.T) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	next, err := os.Open(os.DevNull) // the number that the next one would get
	if err != nil {
		t.Fatal(err)
	}
	lowered := limit
	lowered.Cur = uint64(next.Fd())
	next.Close()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lowered); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) })
}

func TestAMachineWithoutDescriptorsIsNotTheWorkersFault(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			client, err := New(scheme+"://"+listener.Addr().String(), DefaultOptions())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			lastDescriptor(t)
			_, err = client.Do(t.Context(), &Request{Method: "GET", Path: "/"})
			var broken *Error
			if !errors.As(err, &broken) || broken.Class != Exhausted || broken.Sent {
				t.Error(err)
			}
		})
	}
}

func TestShortagesOfThisMachineAreToldFromRefusals(t *testing.T) {
	for err, want := range map[error]bool{
		&net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}:              true,
		&net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.ENFILE)}:              true,
		&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)}:      true,
		&net.OpError{Op: "dial", Err: &net.DNSError{Err: "dial udp: " + syscall.EMFILE.Error()}}: true,
		&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}:       false,
		&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}:       false,
		&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}:      false,
	} {
		if exhausted(err) != want {
			t.Errorf("%v: %v, want %v", err, !want, want)
		}
	}
}
