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
}

func (r *reader) take() {
	r.held = buffers.Get().(*[]byte)
	r.buf, r.r, r.w, r.came = *r.held, 0, 0, false
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
	if r.r == r.w {
		r.r, r.w = 0, 0
	} else if len(r.buf)-r.w < len(r.buf)/4 {
		r.w = copy(r.buf, r.buf[r.r:r.w])
		r.r = 0
	}
	n, err := r.src.Read(r.buf[r.w:])
	r.w += n
	r.came = r.came || n > 0
	if n > 0 {
		return nil // an error that came along comes again
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// readHead waits for a whole head and returns it, blank line included. The bytes are valid until the next fill.
func (r *reader) readHead(bytesMax int) ([]byte, error) {
	scanned, line := 0, 0 // from r.r: how far we looked, where the current line starts
	for {
		i := bytes.IndexByte(r.buf[r.r+scanned:r.w], '\n')
		if i < 0 {
			scanned = r.w - r.r
			if scanned >= bytesMax {
				return nil, headTooLong(bytesMax)
			}
			if scanned == len(r.buf) {
				r.grow()
			}
			if err := r.fill(); err != nil {
				return nil, err
			}
			continue
		}
		end := scanned + i
		text := r.buf[r.r+line : r.r+end]
		scanned, line = end+1, end+1
		if scanned > bytesMax {
			return nil, headTooLong(bytesMax)
		}
		if len(text) == 0 || len(text) == 1 && text[0] == '\r' {
			head := r.buf[r.r : r.r+scanned]
			r.r += scanned
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
