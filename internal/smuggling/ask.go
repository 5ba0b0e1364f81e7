package smuggling

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Ask is how a case is sent.
type Ask struct {
	Dial   func() (net.Conn, error)
	Number int
	After  bool // behind a good request, in one write with it

	// Ends has the client close its side behind what it sends. It tells a server that does not mind (nginx, told so) that nothing more comes;
	// ours takes it for a client that left.
	Ends bool

	// Expect is what came the last time: with it no time passes for nothing. Without it what does not come within Quiet is taken not to come.
	Expect *Outcome
	Quiet  time.Duration
}

// patience bounds a case that goes wrong.
const patience = 20 * time.Second

// Targets of requests that are no part of a case; the origin does not keep them.
const (
	beforeTarget = "/before"
	probeTarget  = "/probe"
)

// good is a request that every server passes on.
func good(number int, target string) string {
	return fmt.Sprintf("GET /v1/%04d%s HTTP/1.1\r\nHost: h\r\n\r\n", number, target)
}

// Run sends a case and returns what the client saw of it. Reached is the origin's to tell, once nothing runs any more.
func (a Ask) Run(c Case) (got Outcome, err error) {
	text, err := c.Bytes(a.Number)
	if err != nil {
		return got, err
	}
	if a.After {
		text = append([]byte(good(a.Number, beforeTarget)), text...)
	}
	conn, err := a.Dial()
	if err != nil {
		return got, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		conn.Write(text) // a server may close before it has read all
		if half, ok := conn.(interface{ CloseWrite() error }); ok && a.Ends {
			half.CloseWrite()
		}
	}()
	defer func() { conn.Close(); <-sent }()
	got.Answers, got.End = a.read(conn, strings.HasPrefix(string(text), "HEAD "))
	return got, nil
}

// read takes answers until the connection ends, as many as are expected have come, or nothing comes any more.
func (a Ask) read(conn net.Conn, head bool) (answers []string, end string) {
	in := bufio.NewReader(conn)
	for {
		if a.Expect != nil && len(answers) == len(a.Expect.Answers) && a.Expect.End != Closed {
			return answers, a.probe(conn, in)
		}
		if a.Expect == nil && !a.Ends {
			conn.SetReadDeadline(time.Now().Add(a.Quiet))
		}
		status, _, err := answer(in, head)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && a.Expect == nil && !a.Ends:
			return answers, a.probe(conn, in)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return answers, "silent"
		case err != nil:
			return answers, Closed
		}
		answers = append(answers, status)
	}
}

// probe tells a connection that waits for a request from one that waits for the rest of one: the former answers another request. One that
// is known to wait for more is left as it is, since what is sent would belong to what it waits for.
func (a Ask) probe(conn net.Conn, in *bufio.Reader) string {
	if a.Expect != nil && a.Expect.End == Waits {
		return Waits
	}
	limit := patience
	if a.Expect == nil {
		limit = a.Quiet
	}
	conn.SetDeadline(time.Now().Add(limit))
	io.WriteString(conn, good(a.Number, probeTarget))
	status, body, err := answer(in, false)
	switch {
	case err == nil && strings.HasSuffix(body, probeTarget): // the origin says what it was asked for
		return Idle
	case a.Expect == nil:
		return Waits
	case err != nil:
		return "gone"
	}
	return "then-" + status
}

// answer reads one answer whole.
func answer(in *bufio.Reader, head bool) (status, body string, err error) {
	ask := &http.Request{Method: http.MethodGet}
	if head {
		ask.Method = http.MethodHead
	}
	r, err := http.ReadResponse(in, ask)
	if err != nil {
		return "", "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // cut off behind its head: its status is an answer, and the connection's end is seen next
	}
	return strconv.Itoa(r.StatusCode), string(text), err
}
