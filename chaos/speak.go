package main

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// answer says what the mode has it say, and reports whether all of it was written.
func (e *engine) answer(w http.ResponseWriter, r *http.Request, a ask, n note) bool {
	asked := want{api: n.API, stream: n.Stream, usage: n.Usage, model: n.Model, prompt: n.Prompt, cached: n.Cached}
	s := n.Mode.says(a, asked, n.Tag)
	late := time.Duration(a.first) * time.Microsecond
	if n.Mode == slow {
		late += 250 * time.Millisecond
	}
	if n.Mode == deaf {
		late += 1500 * time.Millisecond
	}
	if !pause(r, late) {
		return false
	}
	if !s.head || !s.whole || n.Mode == tail || n.Mode == shortCL {
		return e.answerRaw(w, a, asked, s, n.Mode)
	}
	h := w.Header()
	h.Set("Content-Type", contentType(asked, s))
	h.Set("X-Chaos-Tag", n.Tag)
	if s.status == http.StatusTooManyRequests {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(s.status)
	out := http.NewResponseController(w)
	if asked.stream {
		out.Flush()
	}
	for _, p := range s.pieces {
		for _, part := range parts(p.text, n.Mode) {
			if _, err := w.Write([]byte(part)); err != nil {
				return false
			}
			if len(s.pieces) > 1 || n.Mode == dribble {
				out.Flush()
			}
		}
		if len(s.pieces) > 1 && !pause(r, time.Duration(a.gap)*time.Microsecond) {
			return false
		}
	}
	return r.Context().Err() == nil
}

// parts are the writes in which a piece leaves.
func parts(text string, m mode) (out []string) {
	if m != dribble {
		return []string{text}
	}
	for len(text) > 7 {
		out, text = append(out, text[:7]), text[7:]
	}
	return append(out, text)
}

func contentType(w want, s said) string {
	if w.stream && s.status == http.StatusOK {
		return "text/event-stream; charset=utf-8"
	}
	return "application/json"
}

// pause waits, and reports whether the peer is still there.
func pause(r *http.Request, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// answerRaw writes answers that net/http would not write.
func (e *engine) answerRaw(w http.ResponseWriter, a ask, asked want, s said, m mode) bool {
	nc, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return false
	}
	c := nc.(*net.TCPConn)
	defer c.Close()
	c.SetWriteDeadline(time.Now().Add(10 * time.Second))
	body := joined(s.pieces)
	head := "HTTP/1.1 200 OK\r\nContent-Type: " + contentType(asked, s) + "\r\n"
	length := func(n int) string { return fmt.Sprintf("%sContent-Length: %d\r\n\r\n", head, n) }
	switch m {
	case closes, deaf:
		return true
	case garbled:
		fmt.Fprintf(c, "\x16\x03\x01 this is no HTTP \r\n\x00\x00%s", strings.Repeat("\xde\xad", 500))
	case hugeHead:
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Long: %s\r\n\r\n", strings.Repeat("h", 200<<10))
	case interim:
		fmt.Fprint(c, strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 1000))
	case longCL:
		fmt.Fprint(c, length(len(body)+100), body)
	case shortCL:
		fmt.Fprint(c, length(len(body)), body, "and more than was said")
	case tail:
		fmt.Fprint(c, length(len(body)), body, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nghost")
	default:
		e.chunked(c, head, a, s, m)
	}
	return true
}

// chunked writes a body in chunks and breaks it off.
func (e *engine) chunked(c *net.TCPConn, head string, a ask, s said, m mode) {
	fmt.Fprint(c, head, "Transfer-Encoding: chunked\r\n\r\n")
	for _, p := range s.pieces {
		if len(p.text) > 0 {
			fmt.Fprintf(c, "%x\r\n%s\r\n", len(p.text), p.text)
		}
		time.Sleep(time.Duration(a.gap) * time.Microsecond)
	}
	switch m {
	case badChunk:
		fmt.Fprint(c, "fffffffffffffffffffffff\r\nxx")
	case resets:
		c.SetLinger(0)
	}
}
