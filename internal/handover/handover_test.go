package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// envRole says what the test's own program does when it is started as a successor.
const envRole = "HANDOVER_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(envRole); role != "" {
		os.Exit(succeed(role))
	}
	goleak.VerifyTestMain(m)
}

// succeed is a successor: it answers each connection with what it was told, or does what else its role says.
func succeed(role string) int {
	in, err := Inherit()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 9
	}
	if os.Getenv("LISTEN_FDS")+os.Getenv(envSucceeds) != "" {
		in.Failed(errors.New("the environment still speaks of what came"))
		return 1
	}
	estate, err := in.Legacy()
	if err != nil {
		in.Failed(err)
		return 1
	}
	switch role {
	case "fails":
		in.Failed(errors.New("this is why\nin two lines"))
		return 2
	case "dies":
		return 7
	case "hangs":
		select {}
	}
	l, came, err := in.Listen(Data, os.Getenv("ADDRESS"))
	if err != nil {
		in.Failed(err)
		return 1
	}
	in.Ready()
	last, err := in.Legacy()
	if err != nil {
		return 3
	}
	http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "came %t from %d, %d ready there, estate %d, last %q, of init %t", came, in.From(), in.ReadyThere(), len(estate), last, in.OfInit(Data))
	}))
	return 0
}

func listen(t *testing.T) *net.TCPListener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.(*net.TCPListener)
}

func next(l *net.TCPListener, asked string) Next {
	return Next{Path: os.Args[0], Sockets: []Socket{{Name: Data, Address: asked, Listener: l}}, Ready: 3, Estate: []byte(strings.Repeat("x", 1<<20)), Stderr: os.Stderr}
}

func TestASuccessorHasTheSocketTheEstateAndTheLastWord(t *testing.T) {
	for _, c := range []struct{ asked, address, want string }{
		{"127.0.0.1:1", "127.0.0.1:1", "came true from %d, 3 ready there, estate 1048576, last \"goodbye\", of init false"},
		{"", "127.0.0.1:1", "came true from %d, 3 ready there, estate 1048576, last \"goodbye\", of init true"}, // an init system's counts whatever the setting says
	} {
		t.Setenv(envRole, "serves")
		t.Setenv("ADDRESS", c.address)
		l := listen(t)
		s, err := Start(t.Context(), next(l, c.asked))
		if err != nil {
			t.Fatal(err)
		}
		defer s.ended.Wait()
		defer syscall.Kill(s.PID, syscall.SIGKILL)
		raw, err := l.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		raw.Control(func(fd uintptr) {
			if flags, _, e := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFL, 0); e != 0 || flags&syscall.O_NONBLOCK == 0 {
				t.Error("the socket that was passed on blocks here now")
			}
		})
		l.Close()
		if err := s.Leave([]byte("goodbye")); err != nil {
			t.Error(err)
		}
		tr := &http.Transport{DisableKeepAlives: true}
		resp, err := (&http.Client{Transport: tr}).Get("http://" + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if want := fmt.Sprintf(c.want, os.Getpid()); string(said) != want {
			t.Errorf("it says %s, want %s", said, want)
		}
	}
}

func TestASuccessorThatIsNotReadyIsGoneAndSaysWhy(t *testing.T) {
	for _, c := range []struct{ role, want string }{
		{"fails", "cannot take over: this is why\nin two lines"},
		{"dies", "exit status 7"},
		{"hangs", "not ready in time: too slow"},
	} {
		t.Setenv(envRole, c.role)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 500*time.Millisecond, errors.New("too slow"))
		if c.role != "hangs" {
			ctx = t.Context()
		}
		l := listen(t)
		if _, err := Start(ctx, next(l, "")); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.role, err)
		}
		cancel()
		go func() {
			if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
				c.Close()
			}
		}()
		if c, err := l.Accept(); err != nil {
			t.Errorf("after it the socket is no good here: %v", err)
		} else {
			c.Close()
		}
	}
	if _, err := Start(t.Context(), Next{Path: "/nowhere/at/all"}); err == nil || !strings.Contains(err.Error(), "cannot be started") {
		t.Errorf("a program that is not there: %v", err)
	}
}

func TestWhatNobodySentIsNotTaken(t *testing.T) {
	for _, c := range []struct{ what, fds, pid, from, want string }{
		{"nothing", "", "", "", ""},
		{"sockets of another process", "2", "1", "", ""},
		{"a number that is none", "two", fmt.Sprint(os.Getpid()), "", `LISTEN_FDS is "two"`},
		{"too many", "99", fmt.Sprint(os.Getpid()), "", "from 0 to 16"},
		{"what no predecessor writes", "0", "", "{", envSucceeds},
	} {
		t.Setenv("LISTEN_FDS", c.fds)
		t.Setenv("LISTEN_PID", c.pid)
		t.Setenv(envSucceeds, c.from)
		in, err := Inherit()
		if c.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.what, err)
		}
		if err != nil {
			continue
		}
		l, came, err := in.Listen(Data, "127.0.0.1:0")
		if err != nil || came {
			t.Errorf("%s: %v, came %t", c.what, err, came)
			continue
		}
		l.Close()
	}
}

func TestNotifyWithoutAnybodyWhoAsksIsSilent(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := Notify(IsReady, MainPID(7), IsStopping); err != nil {
		t.Error(err)
	}
	t.Setenv("NOTIFY_SOCKET", t.TempDir()+"/nobody")
	if err := Notify(IsReady); err == nil || !strings.Contains(err.Error(), "NOTIFY_SOCKET") {
		t.Errorf("a socket that is not there: %v", err)
	}
}
