package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// hostile is what a client sends that means no good. Nothing in it may reach a worker, but for the outer request of a smuggler where that
// is well formed.
func (r *request) hostile() []byte {
	switch r.kind {
	case garbage:
		return r.garbage()
	case floods:
		if r.variant%2 == 0 {
			return r.head(len(r.body), "X-Flood: "+strings.Repeat("f", 200<<10)+"\r\n")
		}
		return r.head(len(r.body), strings.Repeat("X-Flood: f\r\n", 20_000))
	}
	return r.smuggle()
}

func (r *request) garbage() []byte {
	switch r.variant % 5 {
	case 0:
		return []byte(strings.Repeat("\x16\x03\x01\x02\x00\x01\x00", 30) + "\r\n\r\n")
	case 1:
		return []byte("GET\r\n\r\n")
	case 2:
		return []byte("POST /v1/chat/completions HTTP/9.9\r\nHost: chaos\r\n\r\n")
	case 3:
		return []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	}
	return []byte("POST /v1/chat/completions HTTP/1.1\r\nHost: chaos\r\nBad Name : x\r\nContent-Length: 5\r\n\r\nhello")
}

// smuggle is a request within a request. Servers that read its framing in two ways would see the inner one; its id is forbidden.
func (r *request) smuggle() []byte {
	inner := &request{id: r.id, want: r.want, ask: r.ask}
	inner.ask.id = r.id + idsEach - 1
	inner.body = []byte(strings.Replace(string(r.body), r.ask.String(), inner.ask.String(), 1))
	within := inner.bytes()
	head := func(framing string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: chaos\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\n%s\r\n", paths[r.want.api], clientKey, framing)
	}
	rest := fmt.Sprintf("Content-Length: %d\r\n", len(within)+5)
	chunk := "0\r\n\r\n" + string(within)
	switch r.variant % 12 {
	case 0: // which one counts?
		return []byte(head(rest+"Transfer-Encoding: chunked\r\n") + chunk)
	case 1:
		return []byte(head("Transfer-Encoding: chunked\r\n"+rest) + chunk)
	case 2:
		return []byte(head("Transfer-Encoding: xchunked\r\n"+rest) + chunk)
	case 3:
		return []byte(head("Transfer-Encoding : chunked\r\n"+rest) + chunk)
	case 4:
		return []byte(head("Transfer-Encoding: chunked, identity\r\n"+rest) + chunk)
	case 5:
		return []byte(head("Content-Length: 0\r\n"+fmt.Sprintf("Content-Length: %d\r\n", len(within))) + string(within))
	case 6:
		return []byte(head(fmt.Sprintf("Content-Length: 0, %d\r\n", len(within))) + string(within))
	case 7:
		return []byte(head(fmt.Sprintf("Content-Length: +%d\r\n", len(within))) + string(within))
	case 8: // a line that goes on in the next
		return []byte(head("X-Fold: a\r\n Transfer-Encoding: chunked\r\n"+rest) + chunk)
	case 9:
		return []byte(head("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"+rest) + chunk)
	case 10: // a chunk's size that is cut short, or is not
		return []byte(head("Transfer-Encoding: chunked\r\n") + "10000000000000000\r\n" + chunk)
	}
	return []byte(head("Transfer-Encoding: chunked\r\n") + "0x1\r\nz\r\n" + chunk)
}

// crawl begins something and does not end it.
func (l *link) crawl(r *request, began time.Time, done func(*result)) bool {
	all := r.bytes()
	headEnd := len(all) - len(r.body)
	res := &result{r: r, began: began, connected: true}
	if r.kind == vanishes {
		l.Write(all[:[]int{0, headEnd / 2, headEnd, headEnd + len(r.body)/2}[r.variant%4]])
		if r.variant%8 < 4 {
			l.Conn.(*net.TCPConn).SetLinger(0)
		}
		l.Close()
		res.left, res.end = true, time.Now()
		done(res)
		return false
	}
	at := headEnd - 20
	if r.variant%2 == 0 {
		at = len(all) - 20
	}
	l.Write(all[:at])
	stop := began.Add(time.Duration(1+r.variant%6) * time.Second)
	for time.Now().Before(stop) && at < len(all)-3 {
		l.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		if _, err := l.in.Peek(1); err == nil {
			l.SetReadDeadline(time.Now().Add(5 * time.Second))
			l.answer(res, http.MethodPost, io.ReadAll)
			break
		} else if nerr, ok := err.(net.Error); !ok || !nerr.Timeout() {
			break
		}
		l.Write(all[at : at+1])
		at++
	}
	res.left, res.end = res.status == 0, time.Now()
	l.Close()
	done(res)
	return false
}
