package openbench

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// between passes bytes between a client and a worker, what change makes of those to the client.
func between(t *testing.T, to string, change func([]byte) []byte) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		in, err := l.Accept()
		if err != nil {
			return
		}
		defer in.Close()
		out, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer out.Close()
		request := make([]byte, 4<<10)
		n, _ := in.Read(request)
		out.Write(request[:n])
		var answer bytes.Buffer
		for !bytes.HasSuffix(answer.Bytes(), []byte("0\r\n\r\n")) {
			if _, err := io.CopyN(&answer, out, 1); err != nil {
				return
			}
		}
		in.Write(change(answer.Bytes()))
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}

func TestEveryByteOfAStreamIsChecked(t *testing.T) {
	w, err := startWorker(1)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	at := strings.TrimPrefix(w.urls()[0], "http://")
	p := plan{number: 17, events: 4, pace: time.Millisecond}
	same := func(b []byte) []byte { return b }
	for name, c := range map[string]struct {
		change               func([]byte) []byte
		whole, refused, lost int
	}{
		"as it came":     {same, 1, 0, 0},
		"a byte changed": {func(b []byte) []byte { return bytes.Replace(b, []byte("event 2"), []byte("event 7"), 1) }, 0, 0, 1},
		"another stream": {func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("s-17"), []byte("s-18")) }, 0, 0, 1},
		"cut short":      {func(b []byte) []byte { return b[:len(b)-120] }, 0, 0, 1},
		"without its end": {func(b []byte) []byte {
			return bytes.Replace(b, []byte("e\r\n"+doneEvent), []byte("e\r\n"+strings.Repeat("x", len(doneEvent))), 1)
		}, 0, 0, 1},
		"with its length": {func(b []byte) []byte {
			var body []byte
			for i := range p.events {
				body = appendEvent(body, p.number, i, 1e18)
			}
			body = append(body, doneEvent...)
			return append(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(body)), body...)
		}, 1, 0, 0},
		"refused": {func(b []byte) []byte { return bytes.Replace(b, []byte("200 OK"), []byte("503 No"), 1) }, 0, 1, 0},
	} {
		crowd := crowd{addr: between(t, at, c.change)}
		crowd.watch(t.Context(), p)
		if crowd.whole != c.whole || len(crowd.refused) != c.refused || len(crowd.lost) != c.lost || crowd.open != 0 {
			t.Errorf("%s: %d whole, refused %v, lost %v", name, crowd.whole, crowd.refused, crowd.lost)
		}
	}
	none := crowd{addr: "127.0.0.1:1"}
	none.watch(t.Context(), p)
	if len(none.refused) != 1 {
		t.Errorf("where nobody listens: refused %v, lost %v", none.refused, none.lost)
	}
}

func TestAPlanIsReadAsItIsWritten(t *testing.T) {
	for _, p := range []plan{{1, 2, time.Second}, {123456, 40, 20 * time.Millisecond}} {
		for _, text := range []string{p.String(), `{"stream":true,"x":"a stream of words, ` + p.String() + `"}`} {
			if got, ok := planOf([]byte(text)); !ok || got != p {
				t.Errorf("%q is %v, %v", text, got, ok)
			}
		}
	}
	if _, ok := planOf([]byte(`{"stream":true,"content":"stream it"}`)); ok {
		t.Error("a plan is read where there is none")
	}
}

func TestMoreStreamsThanDescriptorsAreRefusedWithTheLimit(t *testing.T) {
	o := DefaultOptions()
	o.Streams = 1 << 30
	if err := o.Possible(); err == nil || !strings.Contains(err.Error(), "ulimit -Hn 2147484048") {
		t.Errorf("%v", err)
	}
	o.Streams = 1
	if err := o.Possible(); err != nil {
		t.Error(err)
	}
}
