package zmtp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/leash"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t *testing.T, endpoint string, kind Kind, o Options) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), endpoint, kind, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func publisher(t *testing.T, endpoint string, o Options) *Publisher {
	t.Helper()
	p, err := Publish(endpoint, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// sendUntil sends a message again and again, since a publisher's first ones are lost while a subscription is on its way.
func sendUntil(p *Publisher, stop <-chan struct{}, frames ...[]byte) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			p.Send(frames...)
		}
	}
}

func TestASubscriberGetsWhatItAskedForWhateverItsSize(t *testing.T) {
	for _, endpoint := range []string{"tcp://127.0.0.1:0", "ipc://" + filepath.Join(t.TempDir(), "s")} {
		p := publisher(t, endpoint, Options{})
		c := dial(t, p.Endpoint(), SUB, Options{})
		if err := c.Subscribe("kv"); err != nil {
			t.Fatal(err)
		}
		big := bytes.Repeat([]byte{7}, 300_000)
		stop := make(chan struct{})
		go sendUntil(p, stop, []byte("kv@a"), []byte{1}, big, nil)
		go sendUntil(p, stop, []byte("other"))
		frames, err := c.Receive(nil)
		close(stop)
		if err != nil || len(frames) != 4 || string(frames[0]) != "kv@a" || !bytes.Equal(frames[2], big) || len(frames[3]) != 0 {
			t.Errorf("%s: got %d frames, %v", endpoint, len(frames), err)
		}
	}
}

func TestADealerAsksARouterAndGetsSeveralAnswers(t *testing.T) {
	r, err := Route("tcp://127.0.0.1:0", Options{}, func(message [][]byte, reply func(...[]byte) error) {
		for i := range 3 {
			_ = reply([]byte{}, message[1], []byte{byte(i)})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := dial(t, r.Endpoint(), DEALER, Options{})
	if err := c.Send(nil, []byte("from 5")); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		frames, err := c.Receive(nil)
		if err != nil || len(frames) != 3 || string(frames[1]) != "from 5" || frames[2][0] != byte(i) {
			t.Fatalf("answer %d: %q, %v", i, frames, err)
		}
	}
}

// peer is a hand-made other side: it gets the connection after our greeting was read, and its own was sent.
func peer(t *testing.T, minor byte, mechanism string, speak func(net.Conn, *bufio.Reader)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-done })
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		r := bufio.NewReader(conn)
		g := [greetingBytes]byte{0: 0xff, 9: 0x7f, 10: 3, 11: minor}
		copy(g[12:], mechanism)
		_, _ = conn.Write(g[:])
		_, _ = io.ReadFull(r, make([]byte, greetingBytes))
		speak(conn, r)
	}()
	return "tcp://" + l.Addr().String()
}

func ready(kind string) []byte { return property([]byte("\x05READY"), "SOCKET-TYPE", kind) }

func readFrame(r *bufio.Reader) (byte, string) {
	c := &Conn{r: r, o: DefaultOptions()}
	flags, size, err := c.head()
	if err != nil {
		return 0, err.Error()
	}
	b := make([]byte, size)
	_, _ = io.ReadFull(r, b)
	return flags, string(b)
}

func TestSubscriptionsAreSaidAsThePeersVersionWants(t *testing.T) {
	for minor, want := range []string{"\x01kv", "\x09SUBSCRIBEkv"} {
		got := make(chan string, 1)
		endpoint := peer(t, byte(minor), "NULL", func(conn net.Conn, r *bufio.Reader) {
			_, _ = readFrame(r)
			_, _ = conn.Write(appendFrame(nil, flagCommand, ready("XPUB")))
			_, text := readFrame(r)
			got <- text
		})
		if err := dial(t, endpoint, SUB, Options{}).Subscribe("kv"); err != nil {
			t.Fatal(err)
		}
		if text := <-got; text != want {
			t.Errorf("version 3.%d got %q, want %q", minor, text, want)
		}
	}
}

func TestHeartbeatsAreAnsweredBetweenFramesAndSentIntoSilence(t *testing.T) {
	asked, answered := make(chan string, 1), make(chan string, 1)
	endpoint := peer(t, 1, "NULL", func(conn net.Conn, r *bufio.Reader) {
		_, _ = readFrame(r)
		b := appendFrame(nil, flagCommand, ready("PUB"))
		b = appendFrame(b, flagMore, []byte("a"))
		b = appendFrame(b, flagCommand, []byte("\x04PING\x00\x0acontext"))
		b = appendFrame(b, flagCommand, []byte("\x07UNKNOWNwords"))
		b = appendFrame(b, 0, []byte("b"))
		_, _ = conn.Write(b)
		_, text := readFrame(r)
		answered <- text
		_, text = readFrame(r)
		asked <- text
		_, _ = readFrame(r) // until it hangs up
	})
	c := dial(t, endpoint, SUB, Options{Heartbeat: 200 * time.Millisecond})
	if frames, err := c.Receive(nil); err != nil || len(frames) != 2 {
		t.Fatalf("%q, %v", frames, err)
	}
	if text := <-answered; text != "\x04PONGcontext" {
		t.Errorf("a heartbeat was answered by %q", text)
	}
	if _, err := c.Receive(nil); !errors.Is(err, ErrSilent) {
		t.Errorf("silence ended with %v", err)
	}
	if text := <-asked; !strings.HasPrefix(text, "\x04PING") {
		t.Errorf("into the silence went %q", text)
	}
	_ = c.Close()
}

func TestAPeerThatAnswersHeartbeatsStays(t *testing.T) {
	p := publisher(t, "tcp://127.0.0.1:0", Options{Heartbeat: time.Hour})
	c := dial(t, p.Endpoint(), SUB, Options{Heartbeat: 30 * time.Millisecond})
	if err := c.Subscribe(""); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(300*time.Millisecond, func() { p.Send([]byte("late")) })
	defer late.Stop()
	if frames, err := c.Receive(nil); err != nil || string(frames[0]) != "late" {
		t.Errorf("%q, %v", frames, err)
	}
}

func TestWhatIsNotAPeerIsRefusedByName(t *testing.T) {
	kind := func(k string) func(net.Conn, *bufio.Reader) {
		return func(conn net.Conn, r *bufio.Reader) {
			_, _ = conn.Write(appendFrame(nil, flagCommand, ready(k)))
			_, _ = readFrame(r)
		}
	}
	for _, c := range []struct{ endpoint, want string }{
		{peer(t, 1, "CURVE", kind("PUB")), `"CURVE"`},
		{peer(t, 1, "NULL", kind("REP")), `"REP" socket`},
		{peer(t, 1, "NULL", func(conn net.Conn, r *bufio.Reader) {
			_, _ = conn.Write(appendFrame(nil, flagCommand, []byte("\x05ERROR\x04busy")))
			_, _ = readFrame(r)
		}), "busy"},
		{peer(t, 1, "NULL", func(conn net.Conn, r *bufio.Reader) {
			_, _ = conn.Write(appendFrame(nil, 0, []byte("hello")))
			_, _ = readFrame(r)
		}), "no command"},
		{"tcp://127.0.0.1", "host and a port"},
		{"inproc://x", "only tcp"},
		{"tcp://127.0.0.1:99999", `port "99999" is not a number from 0 to 65535`},
		{"tcp://127.0.0.1:events", `port "events" is not a number`},
	} {
		_, err := Dial(t.Context(), c.endpoint, SUB, Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want it to say %s", err, c.want)
		}
	}
}

func TestWhatIsTooLongEndsTheConnectionByName(t *testing.T) {
	for _, c := range []struct {
		send []byte
		want string
	}{
		{binary.BigEndian.AppendUint64([]byte{flagLong}, 1<<40), "FrameBytesMax"},
		{appendFrame(appendFrame(nil, flagMore, make([]byte, 900)), 0, make([]byte, 900)), "MessageBytesMax"},
		{bytes.Repeat([]byte{flagMore, 0}, 40), "MessageFramesMax"},
		{binary.BigEndian.AppendUint64([]byte{flagLong | flagCommand}, 5000), "command of 5000 bytes"},
		{[]byte{0x40, 0}, "flags 0x40"},
	} {
		_, err := received(c.send, Options{FrameBytesMax: 1 << 16, MessageBytesMax: 1000})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want it to name %s", err, c.want)
		}
	}
}

func TestADialThatIsGivenUpReturnsAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	endpoint := peer(t, 1, "NULL", func(_ net.Conn, r *bufio.Reader) {
		cancel()
		_, _ = readFrame(r)
		_, _ = readFrame(r)
	})
	if _, err := Dial(ctx, endpoint, SUB, Options{Handshake: time.Hour}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// canned is a connection that reads what it was given.
type canned struct {
	net.Conn
	from *bytes.Reader
}

func (c canned) Read(b []byte) (int, error)         { return c.from.Read(b) }
func (c canned) Write(b []byte) (int, error)        { return len(b), nil }
func (c canned) SetReadDeadline(time.Time) error    { return nil }
func (c canned) SetWriteDeadline(time.Time) error   { return nil }
func (c canned) SetDeadline(time.Time) error        { return nil }
func received(b []byte, o Options) (n int, e error) { return receivedFrames(b, o, func([][]byte) {}) }

func receivedFrames(b []byte, o Options, f func([][]byte)) (messages int, err error) {
	conn := canned{from: bytes.NewReader(b)}
	c := &Conn{conn: conn, r: bufio.NewReaderSize(conn, 512), o: o.withDefaults(), minor: 1}
	var frames [][]byte
	for {
		if frames, err = c.Receive(frames[:0]); err != nil {
			return messages, err
		}
		messages++
		f(frames)
	}
}

// FuzzReceive reads anything as frames, and what was read, written again, reads the same.
func FuzzReceive(f *testing.F) {
	f.Add(appendFrame(appendFrame(nil, flagMore, []byte("kv")), 0, bytes.Repeat([]byte{1}, 300)))
	f.Add(appendFrame(appendFrame(nil, flagCommand, []byte("\x04PING\x00\x01x")), 0, nil))
	f.Add([]byte{flagLong, 0, 0, 0, 0, 0, 0, 0, 1, 9})
	f.Fuzz(func(t *testing.T, b []byte) {
		defer leash.Hold(t, len(b))()
		o := Options{FrameBytesMax: 1 << 12, MessageBytesMax: 1 << 13, MessageFramesMax: 4}
		var again []byte
		var first []string
		n, err := receivedFrames(b, o, func(frames [][]byte) {
			for i, frame := range frames {
				flags := byte(flagMore)
				if i == len(frames)-1 {
					flags = 0
				}
				again = appendFrame(again, flags, frame)
				first = append(first, fmt.Sprintf("%d %q", i, frame))
			}
		})
		if err == nil {
			t.Fatal("the end was not seen")
		}
		var second []string
		m, _ := receivedFrames(again, o, func(frames [][]byte) {
			for i, frame := range frames {
				second = append(second, fmt.Sprintf("%d %q", i, frame))
			}
		})
		if m != n || !slices.Equal(first, second) {
			t.Fatalf("%d messages became %d", n, m)
		}
	})
}

// FuzzHandshake lets anything introduce itself.
func FuzzHandshake(f *testing.F) {
	g := [greetingBytes]byte{0: 0xff, 9: 0x7f, 10: 3, 11: 1}
	copy(g[12:], "NULL")
	f.Add(appendFrame(slices.Clone(g[:]), flagCommand, ready("PUB")))
	f.Add(g[:40])
	f.Fuzz(func(t *testing.T, b []byte) {
		defer leash.Hold(t, len(b))()
		_, _ = Handshake(canned{from: bytes.NewReader(b)}, SUB, Options{})
	})
}
