//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/zmtp"
)

const published = 3000

// libzmq is the real library, publishing as an engine does.
type libzmq struct {
	cmd          *exec.Cmd
	in           io.WriteCloser
	port, replay int
}

func startLibzmq(t *testing.T, connectTo ...string) *libzmq {
	t.Helper()
	l := &libzmq{cmd: exec.Command(python, append([]string{"publisher.py", fmt.Sprint(published)}, connectTo...)...)}
	l.cmd.Stderr = os.Stderr
	in, err := l.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.cmd.Start(); err != nil {
		t.Fatalf("%s does not start: %v (make e2e installs what is needed)", python, err)
	}
	l.in = in
	t.Cleanup(func() {
		_ = in.Close()
		_ = l.cmd.Wait()
	})
	if _, err := fmt.Fscan(bufio.NewReader(out), &l.port, &l.replay); err != nil {
		t.Fatal(err)
	}
	return l
}

// publish starts the messages.
func (l *libzmq) publish() { _, _ = io.WriteString(l.in, "\n") }

// expect reads message number seq, whose last two frames are the number and the payload.
func expect(t *testing.T, c *zmtp.Conn, seq int) {
	t.Helper()
	frames, err := c.Receive(nil)
	if err != nil || len(frames) < 3 {
		t.Fatalf("message %d: %d frames, %v", seq, len(frames), err)
	}
	number, payload := frames[len(frames)-2], frames[len(frames)-1]
	want := bytes.Repeat([]byte{byte(seq % 251)}, 1+seq*37%5000)
	if binary.BigEndian.Uint64(number) != uint64(seq) || !bytes.Equal(payload, want) {
		t.Fatalf("message %d is number %x with %d bytes", seq, number, len(payload))
	}
}

func TestOurSubscriberAndDealerSpeakWithLibzmq(t *testing.T) {
	l := startLibzmq(t)
	c, err := zmtp.Dial(t.Context(), fmt.Sprintf("tcp://127.0.0.1:%d", l.port), zmtp.SUB, zmtp.Options{Heartbeat: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Subscribe("kv"); err != nil {
		t.Fatal(err)
	}
	// The library reads the subscription before the heartbeat behind it, which it has to answer: so silence survived means subscribed.
	quiet := time.AfterFunc(1500*time.Millisecond, l.publish)
	defer quiet.Stop()
	for seq := range published {
		expect(t, c, seq)
	}
	d, err := zmtp.Dial(t.Context(), fmt.Sprintf("tcp://127.0.0.1:%d", l.replay), zmtp.DEALER, zmtp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	defer time.AfterFunc(time.Minute, func() { d.Close() }).Stop() // rather than wait for a message that was lost
	if err := d.Send(nil, binary.BigEndian.AppendUint64(nil, 1000)); err != nil {
		t.Fatal(err)
	}
	for seq := 1000; seq < published; seq++ {
		expect(t, d, seq)
	}
	frames, err := d.Receive(nil)
	if err != nil || len(frames) != 4 || binary.BigEndian.Uint64(frames[2]) != 1<<64-1 {
		t.Fatalf("the end marker is %q, %v", frames, err)
	}
}

func TestLibzmqConnectsToOurSubscriber(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	l := startLibzmq(t, "tcp://"+listener.Addr().String())
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c, err := zmtp.Handshake(conn, zmtp.SUB, zmtp.Options{Heartbeat: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Subscribe(""); err != nil {
		t.Fatal(err)
	}
	quiet := time.AfterFunc(1500*time.Millisecond, l.publish)
	defer quiet.Stop()
	for seq := range published {
		expect(t, c, seq)
	}
}
