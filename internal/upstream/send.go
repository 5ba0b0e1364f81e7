package upstream

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// writePieceBytes is what must leave within one idle gap.
const writePieceBytes = 256 << 10

// lastWordsWait bounds the wait for an answer once writing the request has failed: it is there, or never comes.
const lastWordsWait = time.Second

// checkRequest refuses what could be read as more than one request.
func checkRequest(r *Request) error {
	if r.Method == "" || !validName(r.Method) {
		return fmt.Errorf("request method %q", r.Method)
	}
	if !strings.HasPrefix(r.Path, "/") || strings.ContainsAny(r.Path, " #") || !validValue(r.Path) {
		return fmt.Errorf("request path %q", r.Path)
	}
	if strings.ContainsAny(r.Host, " /\\") || !validValue(r.Host) {
		return fmt.Errorf("request host %q", r.Host)
	}
	for i := range r.Header {
		f := &r.Header[i]
		if !validName(f.Name) {
			return fmt.Errorf("request header name %q", f.Name)
		}
		if !validValue(f.Value) {
			return fmt.Errorf("request header %s has a control character in its value", f.Name)
		}
	}
	return nil
}

func validName(name string) bool {
	for i := range len(name) {
		if !token[name[i]] {
			return false
		}
	}
	return name != ""
}

// appendHead writes the request's head. The body's length must be known by now.
func (b *base) appendHead(out []byte, r *Request) []byte {
	out = append(out, r.Method...)
	out = append(out, ' ')
	out = append(out, b.path...)
	out = append(out, r.Path...)
	out = append(out, " HTTP/1.1\r\nHost: "...)
	if r.Host != "" {
		out = append(out, r.Host...)
	} else {
		out = append(out, b.host...)
	}
	out = append(out, "\r\n"...)
	for i := range r.Header {
		f := &r.Header[i]
		if ours(f.Name) {
			continue
		}
		out = append(out, f.Name...)
		out = append(out, ": "...)
		out = append(out, f.Value...)
		out = append(out, "\r\n"...)
	}
	if b.authorization != "" && !r.Header.Has("Authorization") {
		out = append(out, "Authorization: "...)
		out = append(out, b.authorization...)
		out = append(out, "\r\n"...)
	}
	length := int64(len(r.Body))
	if r.streams() {
		length = r.ContentLength
	}
	switch {
	case length < 0:
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	case length > 0 || r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch:
		out = append(out, "Content-Length: "...)
		out = strconv.AppendInt(out, length, 10)
		out = append(out, "\r\n"...)
	}
	return append(out, "\r\n"...)
}

// ours are the headers that frame a message, which the client writes itself.
func ours(name string) bool {
	switch len(name) {
	case 4, 6, 7, 10, 14, 17: // the lengths below; most names fall through here
	default:
		return false
	}
	for _, own := range [...]string{"Host", "Expect", "Upgrade", "Trailer", "Connection", "Content-Length", "Transfer-Encoding"} {
		if strings.EqualFold(name, own) {
			return true
		}
	}
	return false
}

func (r *Request) streams() bool { return r.Body == nil && r.BodyReader != nil }

// send, within the first step, writes the request: what the kernel takes at once right here, in one system call when it is small; the rest in
// a goroutine, because a worker may answer before it has read everything. An error means that the connection is
// broken; there may be an answer to read all the same.
func (x *exchange) send() error {
	c, r := x.c, x.req
	// The read buffer is free until the answer comes: the head and the start of the body leave from there.
	out := x.client.base.appendHead(c.rd.buf[:0], r)
	if r.streams() {
		x.written = make(chan struct{})
		go x.writeStream(append([]byte(nil), out...))
		return nil
	}
	first := min(len(r.Body), max(len(c.rd.buf)-len(out), 0))
	out = append(out, r.Body[:first]...)
	rest, err := c.Push(out)
	body := r.Body[first:]
	if err == nil && len(rest) == 0 && len(body) > 0 {
		body, err = c.Push(body)
	}
	if err != nil {
		return err
	}
	if len(rest) == 0 && len(body) == 0 {
		x.sent.Store(true)
		return nil
	}
	x.written = make(chan struct{})
	go x.writeRest(append([]byte(nil), rest...), body)
	return nil
}

func (x *exchange) writeRest(head, body []byte) {
	err := x.writeAll(head)
	if err == nil {
		err = x.writeAll(body)
	}
	x.wrote(err)
}

// writeAll writes in pieces, each within the idle gap, straight from the caller's memory.
func (x *exchange) writeAll(b []byte) error {
	for len(b) > 0 {
		piece := b[:min(len(b), writePieceBytes)]
		if gap := x.client.o.IdleGap; gap > 0 {
			if err := x.c.SetWriteDeadline(time.Now().Add(gap)); err != nil {
				return err
			}
		}
		if _, err := x.c.Write(piece); err != nil {
			return err
		}
		b = b[len(piece):]
	}
	return nil
}

// writeStream sends a body that comes from a reader, each piece as it comes.
func (x *exchange) writeStream(head []byte) {
	x.wrote(x.copyStream(head))
}

func (x *exchange) copyStream(head []byte) error {
	held := buffers.Get().(*[]byte)
	defer buffers.Put(held)
	const room = 8 // for a chunk-size line before, and CRLF after
	buf := (*held)[room : len(*held)-2]
	left, chunked := x.req.ContentLength, x.req.ContentLength < 0
	if left == 0 {
		return x.writeAll(head)
	}
	for {
		p := buf
		if !chunked {
			p = buf[:min(int64(len(buf)), left)]
		}
		n, err := x.req.BodyReader.Read(p)
		x.touched.Store(true)
		if n > 0 {
			out := p[:n]
			if chunked {
				line := strconv.AppendInt((*held)[:0:room], int64(n), 16)
				start := room - len(line) - 2
				copy((*held)[start:], append(line, "\r\n"...))
				out = append((*held)[start:room+n], "\r\n"...)
			}
			if head != nil {
				out, head = append(head, out...), nil
			}
			if err := x.writeAll(out); err != nil {
				return err
			}
			left -= int64(n)
		}
		switch {
		case !chunked && left == 0:
			return nil
		case errors.Is(err, io.EOF) && chunked:
			return x.writeAll(append(head, "0\r\n\r\n"...))
		case errors.Is(err, io.EOF):
			return sourceError{fmt.Errorf("ended %d bytes before its length of %d: %w", left, x.req.ContentLength, io.ErrUnexpectedEOF)}
		case err != nil:
			return sourceError{err}
		}
	}
}

// wrote ends the writing goroutine. What the reading side cannot notice by itself wakes it by closing the connection.
func (x *exchange) wrote(err error) {
	x.writeErr = err
	if err == nil {
		x.sent.Store(true)
	}
	close(x.written)
	if err == nil {
		return
	}
	var source sourceError
	if errors.As(err, &source) {
		x.c.Abort(true) // half a request: the worker must not take it for a whole one
	} else if !x.headCame.Load() && !brokenByPeer(err) {
		x.c.Close()
	}
}
