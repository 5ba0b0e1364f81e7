package upstream

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// bufferBytes is the size of a read buffer: a head, or a few hundred events.
const bufferBytes = 16 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, bufferBytes); return &b }}

// reader is a read buffer that lends out its bytes. A bufio.Reader would do, but its buffer cannot grow for a large
// head, cannot be decoded in place, and cannot serve the write before the read.
type reader struct {
	src  io.Reader
	buf  []byte
	held *[]byte // the pooled slice that buf came from
	r, w int     // buf[r:w] is read but not yet used
	came bool    // some byte came since the buffer was taken

	scanned, line int // of a head that is not whole, from r: how far it was looked at, and where its last line starts
}

func (r *reader) take() {
	r.held = buffers.Get().(*[]byte)
	r.buf, r.r, r.w, r.came, r.scanned, r.line = *r.held, 0, 0, false, 0, 0
}

func (r *reader) release() {
	if r.held != nil {
		buffers.Put(r.held) // not buf: that may have grown
	}
	r.buf, r.held, r.r, r.w = nil, nil, 0, 0
}

func (r *reader) buffered() []byte { return r.buf[r.r:r.w] }

// fill reads once into the buffer's free end. The caller sees to it that unused bytes do not fill the whole buffer.
func (r *reader) fill() error {
	n, err := r.src.Read(r.free())
	if r.took(n); n > 0 {
		return nil // an error that came along comes again
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// free is where the next bytes are to be read to.
func (r *reader) free() []byte {
	if r.r == r.w {
		r.r, r.w = 0, 0
	} else if len(r.buf)-r.w < len(r.buf)/4 {
		r.w = copy(r.buf, r.buf[r.r:r.w])
		r.r = 0
	}
	return r.buf[r.w:]
}

// took notes that n bytes were read there.
func (r *reader) took(n int) {
	r.w += n
	r.came = r.came || n > 0
}

// head returns a whole head, blank line included, or nil while more of it must be read. The bytes are valid until the next fill.
func (r *reader) head(bytesMax int) ([]byte, error) {
	for {
		i := bytes.IndexByte(r.buf[r.r+r.scanned:r.w], '\n')
		if i < 0 {
			r.scanned = r.w - r.r
			if r.scanned >= bytesMax {
				return nil, headTooLong(bytesMax)
			}
			if r.scanned == len(r.buf) {
				r.grow()
			}
			return nil, nil
		}
		end := r.scanned + i
		text := r.buf[r.r+r.line : r.r+end]
		r.scanned, r.line = end+1, end+1
		if r.scanned > bytesMax {
			return nil, headTooLong(bytesMax)
		}
		if len(text) == 0 || len(text) == 1 && text[0] == '\r' {
			head := r.buf[r.r : r.r+r.scanned]
			r.r += r.scanned
			r.scanned, r.line = 0, 0
			return head, nil
		}
	}
}

func (r *reader) grow() {
	bigger := make([]byte, 2*len(r.buf))
	r.w = copy(bigger, r.buf[r.r:r.w])
	r.r, r.buf = 0, bigger
}

func headTooLong(bytesMax int) error {
	return shapeError(fmt.Sprintf("response head is longer than %d bytes (head-bytes-max)", bytesMax))
}
