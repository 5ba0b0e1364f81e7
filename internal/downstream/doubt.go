package downstream

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// headEnd is where a head ends, the empty line included; 0 while it is not whole. Lines may end in LF alone, as net/http has it.
func headEnd(b []byte) int {
	for at := 0; at < len(b); {
		line := bytes.IndexByte(b[at:], '\n')
		if line < 0 {
			return 0
		}
		if line == 0 || line == 1 && b[at] == '\r' {
			return at + line + 1
		}
		at += line + 1
	}
	return 0
}

// doubt says why a head is refused that is not plain, though net/http would take it: between a client and here there may be a server that
// reads it otherwise, and finds another request in it, or one request less. "" is no doubt. None of these is sent by a client in earnest.
func doubt(head []byte) string {
	lengths, codings, old := 0, 0, false
	for number := 0; len(head) > 0; number++ {
		line, rest, _ := bytes.Cut(head, []byte("\n"))
		head = rest
		if number == 0 {
			if bytes.HasPrefix(line, []byte("PRI * HTTP/2")) {
				return "HTTP/2 is not spoken here, HTTP/1.1 is"
			}
			old = bytes.HasSuffix(bytes.TrimRight(line, " \r"), []byte(" HTTP/1.0"))
			continue
		}
		if len(line) > 0 && (line[0] == ' ' || line[0] == '\t') {
			return "a field goes on on the next line"
		}
		name, _, _ := bytes.Cut(line, []byte(":"))
		switch name = bytes.TrimSpace(name); {
		case bytes.EqualFold(name, []byte("Content-Length")):
			lengths++
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			codings++
		}
	}
	switch {
	case lengths > 1:
		return "more than one Content-Length"
	case lengths+codings > 1:
		return "both Content-Length and Transfer-Encoding, or one of them twice"
	case codings > 0 && old:
		return "Transfer-Encoding in HTTP/1.0"
	}
	return ""
}

// refuse answers as net/http does what it cannot read, and closes in a way that lets the answer arrive.
func (c *conn) refuse(why string) {
	text := "400 Bad Request: " + why
	answer := "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" + text
	if c.write([]byte(answer), time.Time{}, lingerTime) != nil {
		return
	}
	c.nc.CloseWrite()
	c.nc.SetReadDeadline(time.Now().Add(lingerTime))
	io.Copy(io.Discard, c.nc)
}

// long is a head that does not fit the buffer, read on further than net/http would take it (which is 4 KiB beyond its bound), so that no head
// goes there without a look. What it returns is not whole where the client breaks off or it is too long; net/http knows what to say then.
func (c *conn) long() []byte {
	head := bytes.Clone(c.buffered())
	if len(head) < bufferBytes {
		return head
	}
	c.nc.SetReadDeadline(time.Now().Add(c.s.o.HeadTimeout))
	for piece := make([]byte, bufferBytes); headEnd(head) == 0 && len(head) < c.s.o.HeadBytesMax+bufferBytes; {
		n, err := c.nc.Read(piece)
		if head = append(head, piece[:n]...); err != nil {
			break
		}
	}
	return head
}

// handOver gives the connection to net/http, with what was read of it, for one request: heads that come later would not be looked at. It
// says whether it did; one with a doubtful head is refused.
func (c *conn) handOver() bool {
	head := c.long()
	if why := doubt(head[:headEnd(head)]); why != "" {
		c.refuse(why)
		return false
	}
	c.s.watcher.Remove(c.fd, c.number)
	c.nc.SetReadDeadline(time.Time{})
	c.s.handover.give(&replayed{TCPConn: c.nc, head: head, s: c.s})
	return true
}

// handedOver marks the requests of connections that began here.
type handedOver struct{}

func marked(ctx context.Context, c net.Conn) context.Context {
	if _, began := c.(*replayed); began {
		return context.WithValue(ctx, handedOver{}, true)
	}
	return ctx
}

// vetted is the handler of what net/http reads. It has a connection end with its last request: any once connections are no longer kept, and
// one behind which another might be hidden, or would not be looked at.
//
// A body in chunks may come with a length besides: RFC 9112 (6.1) wants such a request to be the last one, and net/http, which drops the
// length unseen, would go on with what is hidden. In HTTP/1.0 it is the coding that net/http drops unseen.
func (s *Server) vetted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) || r.Context().Value(handedOver{}) != nil || !s.lasting.Load() {
			w.Header().Set("Connection", "close")
		}
		if why := nowhere(r); why != "" {
			w.Header().Set("Connection", "close")
			http.Error(w, "400 Bad Request: "+why, http.StatusBadRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// nowhere says what is wrong with the place that a request is for.
func nowhere(r *http.Request) string {
	absolute := r.URL.Scheme != ""
	switch {
	case r.Host == "" && r.ProtoAtLeast(1, 1):
		return "an empty Host"
	case absolute && r.URL.Scheme != "http" && r.URL.Scheme != "https":
		return "a target with the scheme " + r.URL.Scheme
	case absolute && r.URL.Host == "" || r.URL.User != nil:
		return "a target without a host, or with a user"
	}
	return ""
}
