package intake

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/header"
	"github.com/warmpath/warmpath/internal/life"
)

// What one client may hold of the router: time, by being slow, and memory, by the bodies it sends.

const (
	// uploadPieceBytes is what must come of a body within its time limit. A limit on single reads would be kept alive by one byte at a
	// time, a limit on the whole body would cut long uploads that go well.
	uploadPieceBytes = 16 << 10
	// firstBytes is the memory a body gets before any of it has come: an announced length is a claim, memory follows what was sent.
	firstBytes = 64 << 10
	// growth is by how much a body's memory grows each time it is full, up to its announced length: what has come stands for 16 times
	// as much, so that nearly every body is copied once at most.
	growth = 16
)

// Download is the client's side of an answer. A client that takes nothing for Limit is given up, because its request would hold a
// worker's slot for as long as it likes: writing then fails with os.ErrDeadlineExceeded.
type Download struct {
	http.ResponseWriter
	Limit time.Duration // 0 = none

	ours  ours
	until time.Time // the write deadline in force
}

// ours is what our own server's writer does beside. It keeps the limit itself, and asks for the time only when a client makes it wait.
type ours interface {
	http.ResponseWriter
	WriteFields(status int, f header.Fields)
	LimitWrites(time.Duration)
	FlushError() error
	TakeBack() bool
}

// Begin makes d the side of one client.
func (d *Download) Begin(w http.ResponseWriter, limit time.Duration) {
	*d = Download{ResponseWriter: w, Limit: limit}
	if d.ours, _ = w.(ours); d.ours != nil {
		d.ours.LimitWrites(limit)
	}
}

// Ours says that our own server is behind it.
func (d *Download) Ours() bool { return d.ours != nil }

// Unwrap lets http.ResponseController reach the server's own writer.
func (d *Download) Unwrap() http.ResponseWriter { return d.ResponseWriter }

// Write sends bytes, within the limit.
func (d *Download) Write(p []byte) (int, error) {
	if d.ours != nil {
		return d.ours.Write(p)
	}
	d.extend()
	return d.ResponseWriter.Write(p)
}

// WriteFields begins the answer with a worker's status and header fields, beside those that Header holds.
func (d *Download) WriteFields(status int, f header.Fields) {
	if d.ours != nil {
		d.ours.WriteFields(status, f)
		return
	}
	f.AddTo(d.Header())
	d.WriteHeader(status)
}

// TakeBack takes back an answer of which nothing has left, where the server can; the next WriteFields or WriteHeader begins another.
func (d *Download) TakeBack() bool { return d.ours != nil && d.ours.TakeBack() }

// Break goes before the end of a connection whose answer is not whole, so that its client sees as much. What there is of the answer leaves: a
// connection that closes without a word looks like one that was never heard. An answer by HTTP/1.0 that tells no length ends with its connection, as
// a whole one would: it is reset, unless told says that its last bytes speak of the break.
func (d *Download) Break(r *http.Request, told bool) {
	if d.ours != nil {
		return
	}
	c := http.NewResponseController(d.ResponseWriter)
	c.Flush()
	if r.ProtoAtLeast(1, 1) || told {
		return
	}
	nc, _, err := c.Hijack()
	if err != nil {
		return
	}
	defer nc.Close()
	if s, ok := nc.(*tls.Conn); ok {
		nc = s.NetConn()
	}
	if tcp, ok := nc.(interface{ SetLinger(int) error }); ok {
		tcp.SetLinger(0)
	}
}

// FlushError sends what is buffered, within the limit.
func (d *Download) FlushError() error {
	if d.ours != nil {
		return d.ours.FlushError()
	}
	d.extend()
	return http.NewResponseController(d.ResponseWriter).Flush()
}

// extend moves the deadline an eighth too far, so that a stream of small events moves it once in a while only. The server takes the
// last one back itself when the answer is over.
func (d *Download) extend() {
	if d.Limit <= 0 {
		return
	}
	if now := time.Now(); d.until.Sub(now) < d.Limit {
		d.until = now.Add(d.Limit + d.Limit/8)
		http.NewResponseController(d.ResponseWriter).SetWriteDeadline(d.until)
	}
}

// SlowError is a body that came too slowly.
type SlowError struct{ Limit time.Duration }

func (e *SlowError) Error() string {
	return fmt.Sprintf("the request body came slower than %d bytes in %v", uploadPieceBytes, e.Limit)
}

// Upload is the client's side of a request body, bounded in time, and in memory together with all others.
type Upload struct {
	io.ReadCloser                     // the server's
	Writer        http.ResponseWriter // of the same exchange
	Limit         time.Duration       // for 16 KiB more; 0 = none
	Memory        *Share
	Context       context.Context        // whose end breaks a wait off,
	Breaks        func(cause error) bool // if its cause is one that does: what a client sent before it left is still read. nil: none is

	watch life.Watch
	due   int  // bytes that must still come before the deadline is moved
	set   bool // a deadline is in force
}

// Watch has the end of the context break off what is waited for, until Leave. A read that begins at that very moment may wait for Limit still.
func (u *Upload) Watch() {
	u.watch.Follow(u.Context, func(cause error) {
		if u.Breaks(cause) {
			wake(u.Writer)
		}
	})
}

// broken is why nothing more is read, nil as long as it is.
func (u *Upload) broken() error {
	if u.Breaks == nil {
		return nil
	}
	if cause := context.Cause(u.Context); cause != nil && u.Breaks(cause) {
		return cause
	}
	return nil
}

// Leave ends Watch.
func (u *Upload) Leave() { u.watch.Stop() }

// wake breaks off a read of a request's body.
func wake(w http.ResponseWriter) {
	if c, ours := w.(interface{ WakeRead() }); ours {
		c.WakeRead()
		return
	}
	http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
}

// Read takes what comes. Errors of its own are *SlowError, *FullError and *TightError.
func (u *Upload) Read(p []byte) (int, error) {
	if u.Limit > 0 && u.due <= 0 {
		u.due, u.set = uploadPieceBytes, true
		http.NewResponseController(u.Writer).SetReadDeadline(time.Now().Add(u.Limit))
	}
	if broken := u.broken(); broken != nil {
		return 0, broken
	}
	n, err := u.ReadCloser.Read(p)
	u.due -= n
	if err == io.EOF && u.set {
		http.NewResponseController(u.Writer).SetReadDeadline(time.Time{}) // the server reads on, to see the client leave
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if broken := u.broken(); broken != nil {
			return n, broken
		}
		return n, &SlowError{u.Limit}
	}
	if full := u.Memory.Hold(n); full != nil {
		return 0, full // bytes beside an error are taken for a success by io.ReadFull when they are the last
	}
	return n, err
}

// Memory is what all bodies inside hold together, in bytes.
type Memory struct {
	held    atomic.Int64
	aside   atomic.Int64 // in files
	crowded atomic.Uint64
	refused atomic.Uint64
	tight   atomic.Pointer[TightError] // nil: there is memory
}

// largeBytes is from where a body is large: none beyond it comes in while the process is short of memory.
const largeBytes = 256 << 10

// Use is how many bytes are held, and how many bodies were refused.
func (m *Memory) Use() (held int64, refused uint64) { return m.held.Load(), m.refused.Load() }

// Files is how many bytes are held in files, and how many bodies were refused for want of room there.
func (m *Memory) Files() (held int64, refused uint64) { return m.aside.Load(), m.crowded.Load() }

// SetTight has large bodies refused while the process has used nearly all of limit bytes; 0 lets them in again.
func (m *Memory) SetTight(limit, used int64) {
	if limit == 0 {
		m.tight.Store(nil)
		return
	}
	m.tight.Store(&TightError{used, limit})
}

// FullError is a body that would not fit beside the others.
type FullError struct{ Held, BytesMax int64 }

func (e *FullError) Error() string {
	return fmt.Sprintf("the router holds %d bytes of request bodies, the limit is %d (setting bodies_bytes_max)", e.Held, e.BytesMax)
}

// FilesError is a body that would not fit into a file beside the others.
type FilesError struct{ Held, BytesMax int64 }

func (e *FilesError) Error() string {
	return fmt.Sprintf("the router holds %d bytes of request bodies in files, the limit is %d (setting body_spool_max)", e.Held, e.BytesMax)
}

// TightError is a large body that came while the process was short of memory.
type TightError struct{ Used, Limit int64 }

func (e *TightError) Error() string {
	return fmt.Sprintf("the router has used %d bytes of memory, the limit is %d, and no body beyond %d bytes comes in (setting memory_max)", e.Used, e.Limit, largeBytes)
}

// NoRoom says that a body was refused for want of memory, or of room for its file.
func NoRoom(err error) bool {
	var full *FullError
	var tight *TightError
	var files *FilesError
	return errors.As(err, &full) || errors.As(err, &tight) || errors.As(err, &files)
}

// Share is one body's part of a Memory.
type Share struct {
	Of       *Memory
	BytesMax int64 // of all together; 0 = no limit
	FilesMax int64 // of all in files together; 0 = no limit
	bytes    int64
	aside    int64
}

// Hold counts bytes that are kept; the error is a *FullError or a *TightError.
func (s *Share) Hold(bytes int) error {
	s.bytes += int64(bytes)
	if held := s.Of.held.Add(int64(bytes)); s.BytesMax > 0 && held > s.BytesMax {
		s.Of.refused.Add(1)
		return &FullError{held, s.BytesMax}
	}
	if s.bytes > largeBytes {
		if tight := s.Of.tight.Load(); tight != nil {
			s.Of.refused.Add(1)
			return tight
		}
	}
	return nil
}

// Aside counts bytes that went from memory to a file; the error is a *FilesError.
func (s *Share) Aside(bytes int) error {
	kept := min(int64(bytes), s.bytes)
	s.bytes -= kept
	s.Of.held.Add(-kept)
	s.aside += int64(bytes)
	if held := s.Of.aside.Add(int64(bytes)); s.FilesMax > 0 && held > s.FilesMax {
		s.Of.crowded.Add(1)
		return &FilesError{held, s.FilesMax}
	}
	return nil
}

// Release gives all of it back.
func (s *Share) Release() {
	s.Of.held.Add(-s.bytes)
	s.Of.aside.Add(-s.aside)
	s.bytes, s.aside = 0, 0
}

// Here says that all of a body has come already.
func Here(body io.Reader) bool {
	b, ours := body.(interface{ Here() bool })
	return ours && b.Here()
}

// ReadWhole reads a body of a known length into room when it fits there, else into memory that grows as it comes.
func ReadWhole(r io.Reader, length int64, room []byte) ([]byte, error) {
	body := room[:0]
	if int64(cap(room)) < length {
		body = make([]byte, 0, min(length, firstBytes))
	} else {
		body = body[:0:length]
	}
	for {
		n, err := io.ReadFull(r, body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil || int64(len(body)) == length {
			return body, err
		}
		bigger := make([]byte, len(body), min(length, growth*int64(cap(body))))
		copy(bigger, body)
		body = bigger
	}
}
