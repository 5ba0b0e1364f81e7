package intake

import (
	"io"
	"net/http"
	"time"
)

// What of a refused body is still taken, so that a client that sends before it reads comes to read the answer: a connection closed
// with bytes on their way is reset, and the reset overtakes the answer.
const (
	unreadBytesMax = 1 << 30
	unreadTime     = 10 * time.Second
	unaskedTime    = time.Second // for what a client sends unasked that said it would wait
)

// AnswerEarly has an answer written while the client may still be sending, and takes what it sends to the end or to the bounds above.
// A client that waits for 100 Continue is never asked for its body; begun says that it was, by reading some of it.
func AnswerEarly(w http.ResponseWriter, r *http.Request, begun bool, write func()) {
	if r.ContentLength == 0 {
		write()
		return
	}
	w.Header().Set("Connection", "close")
	c := http.NewResponseController(w)
	asked := begun || r.Header.Get("Expect") == ""
	if asked && c.EnableFullDuplex() != nil {
		asked = false
	}
	write()
	c.Flush()
	if !asked {
		c.SetReadDeadline(time.Now().Add(unaskedTime)) // the server itself waits for a short body, for ever
		return
	}
	c.SetReadDeadline(time.Now().Add(unreadTime))
	io.CopyN(io.Discard, r.Body, unreadBytesMax)
}
