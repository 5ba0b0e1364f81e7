package handover

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Socket is one that goes on to the next process.
type Socket struct {
	Name     string
	Address  string // that it was asked for; "" where it is an init system's
	Listener *net.TCPListener
}

// Next is the process that is to take over.
type Next struct {
	Path           string
	Args           []string // without the program's name
	Sockets        []Socket
	Ready          int    // workers that can serve here, see Inherited.ReadyThere
	Estate         []byte // what it is told at once, see Inherited.Legacy
	Stdout, Stderr *os.File
}

// Successor is a process that has taken over.
type Successor struct {
	PID    int
	legacy *os.File
	ended  sync.WaitGroup
}

// wordBytesMax bounds what a successor says of itself.
const wordBytesMax = 64 << 10

// endTime is how long a successor that gave up may take to end, before it is ended.
const endTime = 2 * time.Second

// Start starts the next process and returns once it is ready. An error means that it has ended, or was ended with ctx, and that nothing has changed
// here: the sockets are as they were.
func Start(ctx context.Context, n Next) (*Successor, error) {
	word, wordEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer word.Close()
	legacyEnd, legacy, err := os.Pipe()
	if err != nil {
		wordEnd.Close()
		return nil, err
	}
	given := []*os.File{wordEnd, legacyEnd}
	defer func() {
		for _, f := range given {
			f.Close()
		}
	}()
	s := &Successor{legacy: legacy}
	cmd, copies, err := n.command(wordEnd, legacyEnd)
	given = append(given, copies...)
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		legacy.Close()
		return nil, fmt.Errorf("the successor %s cannot be started: %w", n.Path, err)
	}
	wordEnd.Close()
	legacyEnd.Close()
	s.ended.Go(func() { writePiece(legacy, n.Estate) }) // a pipe takes little at once; whoever does not read it does not become ready
	said, err := hear(ctx, word)
	if err == nil && said == "ready" {
		s.PID = cmd.Process.Pid
		s.ended.Go(func() { cmd.Wait() }) // or it would stay as a zombie, where it ends before this process does
		return s, nil
	}
	err = end(cmd, word, said, err)
	legacy.Close() // it ends the writing
	s.ended.Wait()
	return nil, err
}

// command is the process with all that it is given.
func (n Next) command(word, legacy *os.File) (cmd *exec.Cmd, copies []*os.File, err error) {
	cmd = exec.Command(n.Path, n.Args...)
	cmd.Stdout, cmd.Stderr = n.Stdout, n.Stderr
	p := passed{PID: os.Getpid(), Addresses: map[string]string{}, Ready: n.Ready}
	var names []string
	for _, s := range n.Sockets {
		f, err := copyOf(s.Listener)
		if err != nil {
			return nil, copies, err
		}
		copies, names = append(copies, f), append(names, s.Name)
		if s.Address != "" {
			p.Addresses[s.Name] = s.Address
		}
	}
	p.Word = firstFD + len(copies)
	p.Legacy = p.Word + 1
	cmd.ExtraFiles = append(append([]*os.File(nil), copies...), word, legacy)
	text, err := json.Marshal(p)
	if err != nil {
		return nil, copies, err
	}
	cmd.Env = append(os.Environ(), fmt.Sprintf("LISTEN_FDS=%d", len(copies)), "LISTEN_FDNAMES="+strings.Join(names, ":"), envSucceeds+"="+string(text))
	return cmd, copies, nil
}

// copyOf is another descriptor of a socket. One of package os's own making would be set to block when it is passed on, and with it the socket
// itself, here too: Accept would hang behind a connection that the other process took.
func copyOf(l *net.TCPListener) (*os.File, error) {
	raw, err := l.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var failed error
	err = raw.Control(func(from uintptr) {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		if fd, failed = syscall.Dup(int(from)); failed == nil {
			syscall.CloseOnExec(fd)
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("a socket cannot be passed on: %w", err)
	}
	return os.NewFile(uintptr(fd), l.Addr().String()), nil
}

// hear waits for what the successor says of itself: "ready", "failed WHY", or "" when it ended without a word.
func hear(ctx context.Context, word *os.File) (string, error) {
	stop := context.AfterFunc(ctx, func() { word.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	line, err := bufio.NewReader(io.LimitReader(word, wordBytesMax)).ReadString('\n')
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err == io.EOF:
		return "", nil
	}
	return strings.TrimSuffix(line, "\n"), err
}

// end sees to it that a successor which did not become ready is gone, and says why.
func end(cmd *exec.Cmd, word *os.File, said string, heard error) error {
	kill := time.AfterFunc(endTime, func() { cmd.Process.Kill() })
	if heard != nil {
		cmd.Process.Signal(syscall.SIGTERM)
		word.SetReadDeadline(time.Now().Add(endTime))
		said, _ = hear(context.Background(), word) // what it was waiting for
	}
	ended := cmd.Wait()
	kill.Stop()
	why, told := strings.CutPrefix(said, "failed ")
	why = strings.ReplaceAll(why, "\x00", "\n")
	switch {
	case heard != nil && told:
		return fmt.Errorf("the successor was not ready in time: %w: %s", heard, why)
	case heard != nil:
		return fmt.Errorf("the successor was not ready in time: %w", heard)
	case told:
		return fmt.Errorf("the successor cannot take over: %s", why)
	case ended == nil:
		return errors.New("the successor ended before it was ready: does it serve?")
	}
	return fmt.Errorf("the successor ended before it was ready: %w", ended)
}

// Leave tells the successor the last that there is to tell, once.
func (s *Successor) Leave(text []byte) error {
	s.legacy.SetWriteDeadline(time.Now().Add(endTime))
	err := writePiece(s.legacy, text)
	s.legacy.Close()
	return err
}

// pieceBytesMax bounds what is told at once.
const pieceBytesMax = 64 << 20

// writePiece and readPiece are the form of what is told: a length in four bytes, most significant first, and so many bytes.
func writePiece(w io.Writer, text []byte) error {
	if len(text) > pieceBytesMax {
		return fmt.Errorf("%d bytes are more than the %d that a successor is told", len(text), pieceBytesMax)
	}
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

func readPiece(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > pieceBytesMax {
		return nil, fmt.Errorf("it has %d bytes, more than %d", n, pieceBytesMax)
	}
	text := make([]byte, n)
	_, err := io.ReadFull(r, text)
	return text, err
}
