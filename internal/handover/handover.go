// Package handover has the sockets of a process outlive it: they come from an init system or from the process before, and go on to the one after,
// so that no connection is refused in between.
//
//	came, err := handover.Inherit()                         // at the start, before flags are read
//	l, err := came.Listen("data", "127.0.0.1:8800")         // the socket that came by that name, or a new one
//	...
//	came.Ready()                                            // whoever handed over learns that it may go
//	...
//	next, err := handover.Start(ctx, handover.Next{Path: exe, Args: os.Args[1:], Sockets: sockets}) // and on to the next
//
// Sockets come as systemd passes them (LISTEN_FDS, LISTEN_FDNAMES and LISTEN_PID, see sd_listen_fds(3)). A process that hands over passes them the
// same way, without LISTEN_PID, which it cannot know, and with WARMPATH_SUCCEEDS beside them: two pipes, by which the successor says that it is ready
// or why it cannot be, and by which it is told what is in no file.
package handover

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// firstFD is the number of the first descriptor that is passed (SD_LISTEN_FDS_START).
const firstFD = 3

// socketsMax bounds the sockets that are taken: a router has two ports.
const socketsMax = 16

// envSucceeds holds, as JSON, what a successor has to know.
const envSucceeds = "WARMPATH_SUCCEEDS"

// passed is the content of envSucceeds.
type passed struct {
	PID       int               `json:"pid"`       // of the process that hands over
	Addresses map[string]string `json:"addresses"` // by name of the socket, as they were asked for; one that is not here is an init system's
	Word      int               `json:"word"`      // descriptor on which readiness is told
	Legacy    int               `json:"legacy"`    // and that of what else there is to tell
	Ready     int               `json:"ready"`     // workers that can serve there
}

// Inherited is what came with the process. Its methods are safe for concurrent use; all but Listen do nothing where nothing came.
type Inherited struct {
	from      *passed // nil: nobody handed over
	mu        sync.Mutex
	listeners map[string]net.Listener
	taken     []string
	word      *os.File
	legacy    *bufio.Reader
	end       *os.File // of legacy
}

// Inherit takes what came with the process, once, and removes its traces from the environment, so that children do not take it for theirs.
// A socket that cannot be used is an error.
func Inherit() (*Inherited, error) {
	in := &Inherited{listeners: map[string]net.Listener{}}
	count, names, pid, from := os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_FDNAMES"), os.Getenv("LISTEN_PID"), os.Getenv(envSucceeds)
	for _, name := range []string{"LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", envSucceeds} {
		os.Unsetenv(name)
	}
	if from != "" {
		p := new(passed)
		if err := json.Unmarshal([]byte(from), p); err != nil {
			return nil, fmt.Errorf("the environment variable %s cannot be read: %w", envSucceeds, err)
		}
		in.from, in.word, in.end = p, own(p.Word, "readiness"), own(p.Legacy, "legacy")
		in.legacy = bufio.NewReader(in.end)
	} else if pid != strconv.Itoa(os.Getpid()) {
		return in, nil
	}
	n, err := strconv.Atoi(count)
	if count != "" && (err != nil || n < 0 || n > socketsMax) {
		return nil, fmt.Errorf("LISTEN_FDS is %q: it must be a number of sockets from 0 to %d", count, socketsMax)
	}
	named := strings.Split(names, ":")
	for i := range n {
		name := ""
		if i < len(named) {
			name = named[i]
		}
		if err := in.adopt(firstFD+i, name); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// own takes a descriptor that came; it is closed in children.
func own(fd int, what string) *os.File {
	syscall.CloseOnExec(fd)
	syscall.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), what)
}

// Names of the two sockets of a router.
const (
	Data  = "data"
	Admin = "admin"
)

// adopt takes one socket. Where names say nothing of ours, the first is that of the data port and the second that of the admin port.
func (in *Inherited) adopt(fd int, name string) error {
	if short := strings.TrimSuffix(strings.TrimPrefix(name, "warmpath-"), ".socket"); short == Data || short == Admin {
		name = short
	} else {
		name = []string{Data, Admin}[min(len(in.listeners), 1)]
	}
	f := own(fd, name)
	defer f.Close() // the listener has a copy
	l, err := net.FileListener(f)
	if err != nil {
		return fmt.Errorf("the socket that came for the %s port, descriptor %d, cannot be listened on (LISTEN_FDS): %w", name, fd, err)
	}
	if _, ok := l.(*net.TCPListener); !ok || in.listeners[name] != nil {
		l.Close()
		if !ok {
			return fmt.Errorf("the socket that came for the %s port, descriptor %d, is not a TCP socket but %s (LISTEN_FDS)", name, fd, l.Addr().Network())
		}
		return fmt.Errorf("two sockets came for the %s port: name them %s and %s (LISTEN_FDNAMES, FileDescriptorName= of the socket unit)", name, Data, Admin)
	}
	in.listeners[name] = l
	return nil
}

// Listen is the socket that came by a name, or a new one. One that a former process handed over counts for the address only that it was asked
// for there, so that a changed setting takes effect; one of an init system counts whatever the setting says. came says that it came with the process.
func (in *Inherited) Listen(name, address string) (l net.Listener, came bool, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if l = in.listeners[name]; l != nil && in.fits(name, address) {
		delete(in.listeners, name)
		in.taken = append(in.taken, name)
		return l, true, nil
	}
	l, err = net.Listen("tcp", address)
	return l, false, err
}

func (in *Inherited) fits(name, address string) bool {
	if in.from == nil {
		return true
	}
	asked, known := in.from.Addresses[name]
	return !known || asked == address
}

// OfInit says whether a socket that was taken is an init system's, here or in a process before.
func (in *Inherited) OfInit(name string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !slices.Contains(in.taken, name) {
		return false
	}
	if in.from == nil {
		return true
	}
	_, known := in.from.Addresses[name]
	return !known
}

// From is the process that hands over; 0: none does.
func (in *Inherited) From() int {
	if in.from == nil {
		return 0
	}
	return in.from.PID
}

// ReadyThere is how many workers can serve in the process that hands over.
func (in *Inherited) ReadyThere() int {
	if in.from == nil {
		return 0
	}
	return in.from.Ready
}

// Ready tells the process that hands over that it may go. Sockets that nobody wanted are closed.
func (in *Inherited) Ready() { in.tell("ready\n") }

// Failed tells it why this one ends. After Ready it says nothing.
func (in *Inherited) Failed(why error) {
	in.tell("failed " + strings.ReplaceAll(why.Error(), "\n", "\x00") + "\n")
}

func (in *Inherited) tell(text string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for name, l := range in.listeners {
		l.Close()
		delete(in.listeners, name)
	}
	if in.word == nil {
		return
	}
	io.WriteString(in.word, text) // whoever is gone needs no telling
	in.word.Close()
	in.word = nil
}

// Legacy is what the process that handed over has to tell, in pieces: the first is there at once (Next.Estate), the second comes when its last
// request is over (Successor.Leave). It waits for the next one; nil says that none will come. Close ends the wait. Calls follow each other.
func (in *Inherited) Legacy() ([]byte, error) {
	if in.legacy == nil {
		return nil, nil
	}
	text, err := readPiece(in.legacy)
	if errors.Is(err, os.ErrClosed) || errors.Is(err, io.EOF) {
		return nil, nil
	}
	return text, err
}

// Close ends the wait for what else there is to tell.
func (in *Inherited) Close() {
	if in.end != nil {
		in.end.Close()
	}
}
