package downstream

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A client that reads all the time is left alone, however little it reads within the limit and however much the kernel holds for it.
func TestAClientThatReadsVerySlowlyIsLeftAloneAndOneThatReadsNothingIsGivenUp(t *testing.T) {
	const limit, size = 600 * time.Millisecond, 260_000
	gone := make(chan error, 1)
	_, addr := start(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.(*reply).LimitWrites(limit)
		w.Header().Set("Connection", "close")
		_, err := io.WriteString(w, strings.Repeat("x", size))
		if f, ok := w.(interface{ FlushError() error }); ok && err == nil {
			err = f.FlushError()
		}
		gone <- err
	})
	slow := dial(t, addr)
	slow.Conn.(*net.TCPConn).SetReadBuffer(16 << 10)
	slow.send(post("a"))
	read, tick := 0, time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for piece := make([]byte, 1000); ; {
		<-tick.C
		n, err := slow.Conn.Read(piece)
		if read += n; err != nil {
			break
		}
	}
	if err := <-gone; err != nil || read < size {
		t.Errorf("%d bytes of %d came; the writer was told %v", read, size, err)
	}
	stuck := dial(t, addr)
	stuck.Conn.(*net.TCPConn).SetReadBuffer(16 << 10)
	stuck.send(post("a"))
	if err := <-gone; err == nil {
		t.Error("a client that takes nothing was waited for to the end")
	}
}
