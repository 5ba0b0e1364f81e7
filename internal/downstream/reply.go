package downstream

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/header"
)

// reply is the http.ResponseWriter of the request that is being answered. Head and body gather in one buffer and leave at Flush, when
// it is full, or at the end; while nothing is in it there is none.
type reply struct {
	c      *conn
	header http.Header
	status int           // 0: not said yet
	fields header.Fields // of WriteFields
	out    []byte
	held   *[]byte

	headed   bool          // the head is in out, or gone
	chunked  bool          // the length is not known
	begun    bool          // some of it has left
	bare     bool          // the status allows no body
	declared int64         // Content-Length, -1 without one
	written  int64         // of the body
	close    bool          // the connection ends with this answer
	err      error         // of the connection
	until    time.Time     // of a write that waits,
	limit    time.Duration // or how long it may
}

// writeBufferBytes holds a head and the longest piece of a worker's answer together, so that they leave in one write.
const writeBufferBytes = 20 << 10

var writeBuffers = sync.Pool{New: func() any { b := make([]byte, writeBufferBytes); return &b }}

// gatheredMax is the longest piece that is copied behind what is waiting.
const gatheredMax = 16 << 10

const chunkRoom = 18 // bytes that frame a chunk: 16 digits would do for any, and CRLF

func (w *reply) begin(h *head) {
	byName := w.header
	if byName == nil {
		byName = http.Header{}
	}
	if len(byName) > 0 {
		clear(byName)
	}
	*w = reply{c: w.c, header: byName, fields: w.fields[:0], declared: -1, close: h.close}
}

// Header implements http.ResponseWriter.
func (w *reply) Header() http.Header { return w.header }

// RequestFields are the fields of the request's head, in order, without Host. They are valid while it is answered.
func (w *reply) RequestFields() header.Fields { return w.c.head.fields }

// WriteFields is WriteHeader with fields that are sent in their order before those of Header.
func (w *reply) WriteFields(status int, f header.Fields) {
	if w.status != 0 || status < 200 {
		return
	}
	w.status = status
	w.fields = append(w.fields, f...)
	if n := f.Get("Content-Length"); n != "" {
		w.declare(n)
	}
}

// declare takes the length that the handler says its answer has.
func (w *reply) declare(length string) {
	if v, err := strconv.ParseInt(length, 10, 64); err == nil && v >= 0 {
		w.declared = v
	}
}

// WriteHeader implements http.ResponseWriter. Interim answers are not sent.
func (w *reply) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
}

// Write implements http.ResponseWriter. Until the head must leave it may still become one with a length.
func (w *reply) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if w.status == http.StatusNoContent || w.status == http.StatusNotModified {
		return 0, http.ErrBodyNotAllowed
	}
	if !w.headed {
		if w.declared < 0 && w.header["Content-Length"] == nil && len(p) < bufferBytes/4 && w.out == nil {
			w.room(len(p))
			w.written += int64(len(p))
			w.out = append(w.out, p...) // the whole body, for all that is known: the head goes before it at the end
			return len(p), nil
		}
		w.head(false)
	}
	if w.declared >= 0 && w.written+int64(len(p)) > w.declared {
		return 0, http.ErrContentLength
	}
	w.written += int64(len(p))
	return len(p), w.body(p)
}

// body puts bytes of the body behind the head, framed. Long ones leave from the caller's memory.
func (w *reply) body(p []byte) error {
	if len(p) == 0 {
		return w.err
	}
	w.room(min(len(p), gatheredMax) + chunkRoom)
	if w.chunked {
		w.out = strconv.AppendInt(w.out, int64(len(p)), 16)
		w.out = append(w.out, "\r\n"...)
	}
	if len(p) <= gatheredMax {
		w.out = append(w.out, p...)
	} else {
		w.push()
		w.send(p)
		w.room(chunkRoom)
	}
	if w.chunked {
		w.out = append(w.out, "\r\n"...)
	}
	return w.err
}

// room sees to it that out has room for n more bytes.
func (w *reply) room(n int) {
	if w.out != nil && len(w.out)+n > cap(w.out) && w.headed {
		w.push()
	}
	if w.out == nil {
		w.held = writeBuffers.Get().(*[]byte)
		w.out = (*w.held)[:0]
	}
}

// push sends what has gathered and gives the buffer back.
func (w *reply) push() {
	if len(w.out) > 0 {
		w.send(w.out)
	}
	w.drop()
}

func (w *reply) drop() {
	if w.held != nil {
		writeBuffers.Put(w.held) // not out: that may have grown
	}
	w.out, w.held = nil, nil
}

func (w *reply) send(p []byte) {
	w.begun = true
	if w.err == nil {
		w.err = w.c.write(p, w.until, w.limit)
	}
}

// head puts the answer's head into out, before what may be there already. last says that the body is whole.
func (w *reply) head(last bool) {
	early := w.out
	w.headed = true
	h := w.header
	w.bare = w.status == http.StatusNoContent || w.status == http.StatusNotModified
	if n := h["Content-Length"]; len(n) == 1 {
		w.declare(n[0])
	}
	if w.bare {
		w.declared = -1
	}
	if c := h["Connection"]; len(c) > 0 && c[0] == "close" || w.c.body.left > unreadBytesMax || !w.c.lasts() {
		w.close = true
	}
	held := writeBuffers.Get().(*[]byte)
	b := append((*held)[:0], "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(w.status), 10)
	b = append(append(b, ' '), http.StatusText(w.status)...)
	b = append(b, "\r\n"...)
	dated := h["Date"] != nil
	for i := range w.fields {
		f := &w.fields[i]
		if framing(f.Name) {
			continue
		}
		dated = dated || f.Name == "Date"
		b = appendField(b, f.Name, f.Value)
	}
	for name, values := range h {
		if framing(name) {
			continue
		}
		for _, v := range values {
			b = appendField(b, name, v)
		}
	}
	if !dated {
		b = append(append(b, "Date: "...), date()...)
		b = append(b, "\r\n"...)
	}
	switch {
	case w.bare:
	case w.declared >= 0:
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), w.declared, 10), "\r\n"...)
	case last:
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), int64(len(early)), 10), "\r\n"...)
	default:
		w.chunked = true
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	}
	if w.close {
		b = append(b, "Connection: close\r\n"...)
	}
	b = append(b, "\r\n"...)
	before := w.held
	w.out, w.held = b, held
	if len(early) > 0 {
		w.body(early)
	}
	if before != nil {
		writeBuffers.Put(before)
	}
}

// framing are the fields that the server writes itself.
func framing(name string) bool {
	return name == "Content-Length" || name == "Transfer-Encoding" || name == "Connection"
}

// appendField writes a header line. A value that could end its line is made harmless, as net/http does.
func appendField(b []byte, name, value string) []byte {
	b = append(append(b, name...), ": "...)
	from := len(b)
	b = append(b, value...)
	for i := from; i < len(b); i++ {
		if b[i] == '\r' || b[i] == '\n' {
			b[i] = ' '
		}
	}
	return append(b, "\r\n"...)
}

// Flush implements http.Flusher.
func (w *reply) Flush() { w.FlushError() }

// FlushError sends what has gathered, the head first if it is still here.
func (w *reply) FlushError() error {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if !w.headed {
		w.head(false)
	}
	w.push()
	return w.err
}

// SetReadDeadline and the next two are what http.ResponseController asks for.
func (w *reply) SetReadDeadline(t time.Time) error {
	w.c.wanted = t
	return nil
}

// WakeRead ends a read of the body that is under way, or the next one, as if its deadline were over. Any goroutine may call it.
func (w *reply) WakeRead() { w.c.nc.SetReadDeadline(longPast) }

// SetWriteDeadline bounds the writes of this answer that find their client taking nothing.
func (w *reply) SetWriteDeadline(t time.Time) error {
	w.until = t
	return nil
}

// LimitWrites bounds each write of this answer that finds its client taking nothing; 0 is no bound.
func (w *reply) LimitWrites(d time.Duration) { w.limit = d }

// EnableFullDuplex is how it always is here: an answer may begin while the body is still coming.
func (w *reply) EnableFullDuplex() error { return nil }

var errShort = errors.New("the handler wrote less than it declared")

// end completes the answer and reports whether it was whole.
func (w *reply) end() bool {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if !w.headed {
		w.head(true)
	}
	switch {
	case w.chunked:
		w.room(chunkRoom)
		w.out = append(w.out, "0\r\n\r\n"...)
	case w.declared >= 0 && w.written != w.declared && !w.bare && w.err == nil:
		w.push()
		w.err = errShort
	}
	w.push()
	return w.err == nil
}

// TakeBack takes the answer back as long as nothing of it has left, so that there can be another one. Fields of Header stay.
func (w *reply) TakeBack() bool {
	if w.begun || w.err != nil {
		return false
	}
	w.drop()
	w.status, w.fields, w.headed, w.chunked, w.bare, w.declared, w.written = 0, w.fields[:0], false, false, false, -1, 0
	return true
}

// abort lets go what has a head, and forgets the rest: the connection then closes without the answer's end.
func (w *reply) abort() {
	if w.headed {
		w.push()
	}
	w.drop()
}

// today is the Date of answers that bring none of their own, made once a second.
var today atomic.Pointer[dated]

type dated struct {
	second int64
	text   string
}

func date() string {
	now := time.Now()
	if d := today.Load(); d != nil && d.second == now.Unix() {
		return d.text
	}
	d := &dated{now.Unix(), now.UTC().Format(http.TimeFormat)}
	today.Store(d)
	return d.text
}
