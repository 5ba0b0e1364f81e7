package socket

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 10 * time.Second

func within[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not happen within %v", what, patience)
		panic("unreachable")
	}
}

// pair is a connection of ours and its other side.
func pair(t *testing.T, w *Watcher) (*Conn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ours, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(ours.(*net.TCPConn), w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		theirs.Close()
	})
	return c, theirs.(*net.TCPConn)
}

// everyWay runs a test with a watcher, without one, and with one that is closed while it runs.
func everyWay(t *testing.T, test func(t *testing.T, w *Watcher, closeWatcher func())) {
	for _, way := range []string{"watched", "not watched", "no longer watched"} {
		t.Run(way, func(t *testing.T) {
			if way == "not watched" {
				test(t, nil, func() {})
				return
			}
			w, err := NewWatcher()
			if err != nil {
				t.Fatal(err)
			}
			if w == nil {
				t.Log("this system has none")
				test(t, nil, func() {})
				return
			}
			ended := make(chan struct{})
			go func() {
				w.Run()
				close(ended)
			}()
			closeWatcher := func() {
				w.Close()
				within(t, ended, "the watcher's end")
			}
			if way == "watched" {
				test(t, w, func() {})
				closeWatcher()
				return
			}
			test(t, w, closeWatcher)
		})
	}
}

// take reads until the end or an error and calls got for each piece.
func take(c *Conn, room int, got func(p []byte)) (err error) {
	buf := make([]byte, room)
	waitErr := c.Attend(func() bool {
		for {
			n, tryErr := c.Try(buf)
			if tryErr != nil {
				err = tryErr
				return true
			}
			if n == 0 {
				return false
			}
			got(buf[:n])
		}
	})
	if waitErr != nil {
		return waitErr
	}
	return err
}

func TestBytesThatComeWhileAStepIsAtWorkAreNotMissed(t *testing.T) {
	everyWay(t, func(t *testing.T, w *Watcher, closeWatcher func()) {
		c, peer := pair(t, w)
		go peer.Write([]byte("0"))
		n := byte('0')
		all := make(chan error, 1)
		go func() {
			all <- take(c, 100, func(p []byte) {
				for _, b := range p {
					if b != n {
						t.Errorf("%q after %q", b, n-1)
					}
					n++
				}
				if n == '5' {
					closeWatcher()
				}
				if n <= '9' {
					peer.Write([]byte{n}) // it is there before the step asks for more
				} else {
					peer.CloseWrite()
				}
			})
		}()
		if err := within(t, all, "the end"); err != io.EOF || n != '9'+1 {
			t.Fatalf("%v at %q", err, n)
		}
	})
}

func TestAnEndThatComesTogetherWithBytesIsSeen(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(peer *net.TCPConn)
		want error
	}{
		{"closed", func(p *net.TCPConn) { p.Close() }, io.EOF},
		{"half closed", func(p *net.TCPConn) { p.CloseWrite() }, io.EOF},
		{"reset", func(p *net.TCPConn) { p.SetLinger(0); p.Close() }, syscall.ECONNRESET},
	} {
		t.Run(c.name, func(t *testing.T) {
			everyWay(t, func(t *testing.T, w *Watcher, closeWatcher func()) {
				for i := range 50 {
					ours, peer := pair(t, w)
					done := make(chan error, 1)
					begin := func() {
						go func() { done <- take(ours, 100, func([]byte) {}) }()
					}
					if i%2 == 0 {
						begin()
					}
					peer.Write([]byte("last words"))
					c.end(peer)
					if i%2 == 1 {
						begin()
					}
					if i == 25 {
						closeWatcher()
					}
					if err := within(t, done, "the end"); !errors.Is(err, c.want) {
						t.Fatalf("round %d: %v, want %v", i, err, c.want)
					}
					if ours.watcher != nil {
						within(t, ended(ours), "the watcher's news")
					}
				}
			})
		})
	}
}

func ended(c *Conn) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		for !c.Ended() {
			<-time.After(time.Millisecond)
		}
		close(done)
	}()
	return done
}

func TestBytesArriveWholeAndInOrderHoweverTheyAreCut(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	everyWay(t, func(t *testing.T, w *Watcher, closeWatcher func()) {
		random := rand.New(rand.NewPCG(seed, 0))
		want := strings.Repeat("0123456789abcdef", 20_000)
		for round := range 10 {
			c, peer := pair(t, w)
			room := 1 + random.IntN(1<<(4+random.IntN(12)))
			cuts := rand.New(rand.NewPCG(seed, uint64(round)))
			go func() {
				for rest := want; len(rest) > 0; {
					n := min(len(rest), 1+cuts.IntN(1<<(6+cuts.IntN(10))))
					peer.Write([]byte(rest[:n]))
					rest = rest[n:]
				}
				peer.CloseWrite()
			}()
			if round == 5 {
				closeWatcher()
			}
			var got strings.Builder
			if err := take(c, room, func(p []byte) { got.Write(p) }); err != io.EOF || got.String() != want {
				t.Fatalf("round %d, room %d: %v, %d bytes of %d", round, room, err, got.Len(), len(want))
			}
		}
	})
}

func TestAWaitThatTakesTooLongEndsWithItsDeadlineAndOneThatWasWokenDoesNot(t *testing.T) {
	everyWay(t, func(t *testing.T, w *Watcher, closeWatcher func()) {
		c, peer := pair(t, w)
		c.SetWait(30 * time.Millisecond)
		peer.Write([]byte("a"))
		if err := take(c, 10, func([]byte) {}); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		c.SetDeadline(30 * time.Millisecond)
		closeWatcher()
		if err := take(c, 10, func([]byte) {}); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		c.SetWait(time.Hour)
		go func() {
			peer.Write([]byte("b"))
			peer.Close()
		}()
		got := ""
		if err := take(c, 10, func(p []byte) { got += string(p) }); err != io.EOF || got != "b" {
			t.Fatalf("%q, %v", got, err)
		}
	})
}

func TestAnAbortReachesTheOtherSideWhileAStepIsAtWork(t *testing.T) {
	everyWay(t, func(t *testing.T, w *Watcher, closeWatcher func()) {
		defer closeWatcher()
		c, peer := pair(t, w)
		working, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			done <- take(c, 10, func([]byte) {
				working <- struct{}{}
				<-goOn
			})
		}()
		peer.Write([]byte("a"))
		within(t, working, "the step")
		c.Abort(false) // returns though the step goes on
		peer.SetReadDeadline(time.Now().Add(patience))
		if n, err := peer.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Fatalf("the other side read %d bytes, %v", n, err)
		}
		close(goOn)
		if err := within(t, done, "the end of Attend"); !errors.Is(err, net.ErrClosed) {
			t.Fatal(err)
		}
	})
}

func TestCloseAndAbortEndAWait(t *testing.T) {
	for name, end := range map[string]func(*Conn){"close": func(c *Conn) { c.Close() }, "abort": func(c *Conn) { c.Abort(false) }, "reset": func(c *Conn) { c.Abort(true) }} {
		t.Run(name, func(t *testing.T) {
			everyWay(t, func(t *testing.T, w *Watcher, closeWatcher func()) {
				defer closeWatcher()
				c, peer := pair(t, w)
				got, done := make(chan struct{}, 1), make(chan error, 1)
				go func() { done <- take(c, 10, func([]byte) { got <- struct{}{} }) }()
				peer.Write([]byte("a"))
				within(t, got, "the byte")
				end(c)
				if err := within(t, done, "the end of Attend"); !errors.Is(err, net.ErrClosed) {
					t.Fatal(err)
				}
				peer.SetReadDeadline(time.Now().Add(patience))
				if _, err := peer.Read(make([]byte, 1)); errors.Is(err, syscall.ECONNRESET) != (name == "reset") {
					t.Fatal(err)
				}
			})
		})
	}
}

func TestAnIdleConnectionIsQuietUntilItsEndOrBytesNobodyAskedFor(t *testing.T) {
	c, peer := pair(t, nil)
	if !c.Quiet() {
		t.Fatal("not quiet")
	}
	peer.Write([]byte("408"))
	if c.Quiet() {
		t.Fatal("quiet with bytes to read")
	}
	c, peer = pair(t, nil)
	peer.Close()
	if c.Quiet() {
		t.Fatal("quiet after the end")
	}
}

func TestPushTakesWhatTheKernelTakesAndReturnsTheRest(t *testing.T) {
	c, _ := pair(t, nil) // whose other side reads nothing
	sent := 0
	for _, size := range []int{10, 64 << 20} {
		c.Attend(func() bool {
			rest, err := c.Push(make([]byte, size))
			if err != nil {
				t.Error(err)
			}
			sent = size - len(rest)
			return true
		})
		if size == 10 && sent != 10 || sent == 0 || sent == 64<<20 {
			t.Fatalf("%d of %d", sent, size)
		}
	}
}
