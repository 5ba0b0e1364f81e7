package upstream

import (
	"bytes"
	"fmt"
	"io"
)

// chunkLineBytesMax bounds a chunk-size line with its extensions.
const chunkLineBytesMax = 4096

// chunkDigitsMax keeps a chunk size within an int64.
const chunkDigitsMax = 15

type framingState uint8

const (
	untilClose framingState = iota // the body ends with the connection
	inLength                       // left bytes to go
	chunkSize                      // a chunk-size line comes next
	inChunk                        // left bytes to go in this chunk
	chunkEnd                       // the CRLF after a chunk comes next
	inTrailers                     // the last chunk was seen
	ended                          // the whole body was received
)

// framing cuts a body out of a reader's bytes.
type framing struct {
	state        framingState
	left         int64
	trailerBytes int
	bytesMax     int // of trailers
}

func newFraming(h *head, method string, headBytesMax int) framing {
	f := framing{bytesMax: headBytesMax}
	switch {
	case h.bodiless(method):
		f.state = ended
	case h.chunked:
		f.state = chunkSize
	case h.length >= 0:
		f.state, f.left = inLength, h.length
		f.advance(0)
	}
	return f
}

// advance counts n body bytes as taken.
func (f *framing) advance(n int) {
	f.left -= int64(n)
	if f.left > 0 {
		return
	}
	switch f.state {
	case inLength:
		f.state = ended
	case inChunk:
		f.state = chunkEnd
	}
}

// take lends all body bytes that the reader has at hand; none when more must be read first, or the body has ended.
// Chunks are moved together in place, over the framing between them, so that what came together is one piece.
// An error concerns what follows the bytes returned with it.
func (f *framing) take(r *reader) ([]byte, error) {
	switch f.state {
	case ended:
		return nil, nil
	case untilClose:
		p := r.buffered()
		r.r = r.w
		return p, nil
	case inLength:
		p := r.buffered()
		p = p[:min(int64(len(p)), f.left)]
		r.r += len(p)
		f.advance(len(p))
		return p, nil
	}
	start, out := 0, 0
	for r.r < r.w && f.state != ended {
		if f.state != inChunk {
			more, err := f.control(r)
			if err != nil || !more {
				return r.buf[start:out], err
			}
			continue
		}
		if out == 0 {
			start, out = r.r, r.r
		}
		n := int(min(int64(r.w-r.r), f.left))
		if out != r.r {
			copy(r.buf[out:], r.buf[r.r:r.r+n])
		}
		out += n
		r.r += n
		f.advance(n)
	}
	return r.buf[start:out], nil
}

// control uses up one piece of chunked framing; false means that not all of it has come.
func (f *framing) control(r *reader) (bool, error) {
	b := r.buffered()
	if f.state == chunkEnd {
		if b[0] != '\r' || len(b) > 1 && b[1] != '\n' {
			return false, shapeError(fmt.Sprintf("chunk is followed by %s, not by its line end", quoted(b[:min(len(b), 2)])))
		}
		if len(b) < 2 {
			return false, nil
		}
		r.r += 2
		f.state = chunkSize
		return true, nil
	}
	lineMax := chunkLineBytesMax
	if f.state == inTrailers {
		lineMax = min(f.bytesMax-f.trailerBytes, len(r.buf)-len(r.buf)/4)
	}
	end := bytes.IndexByte(b, '\n')
	if end >= lineMax || end < 0 && len(b) >= lineMax {
		return false, shapeError(fmt.Sprintf("line of chunked framing is longer than %d bytes", lineMax))
	}
	if end < 0 {
		return false, nil
	}
	// No bare LF here, unlike in a head: parsers that disagree about it disagree about where a chunk starts.
	if end == 0 || b[end-1] != '\r' {
		return false, shapeError("line of chunked framing ends without CR")
	}
	r.r += end + 1
	if f.state == inTrailers {
		return true, f.trailer(b[:end-1])
	}
	return true, f.size(b[:end-1])
}

// size reads a chunk-size line: hex digits, then optional blanks and extensions, which are passed over.
func (f *framing) size(line []byte) error {
	digits, size := 0, int64(0)
	for ; digits < len(line) && digits <= chunkDigitsMax; digits++ {
		n := hexDigit(line[digits])
		if n < 0 {
			break
		}
		size = size<<4 | int64(n)
	}
	rest := bytes.TrimLeft(line[digits:], " \t")
	if digits == 0 || digits > chunkDigitsMax || len(rest) > 0 && rest[0] != ';' || !validValue(rest) {
		return shapeError(fmt.Sprintf("chunk size %s", quoted(line)))
	}
	f.left, f.state = size, inChunk
	if size == 0 {
		f.state = inTrailers
	}
	return nil
}

// trailer checks one trailer line and drops it: nothing that engines send needs trailers. The empty line ends the body.
func (f *framing) trailer(line []byte) error {
	if len(line) == 0 {
		f.state = ended
		return nil
	}
	f.trailerBytes += len(line) + 2
	_, err := parseField(line)
	return err
}

// close says what the end of the connection means here: io.EOF for a whole body.
func (f *framing) close() error {
	if f.state == untilClose {
		f.state = ended
		return nil
	}
	return io.ErrUnexpectedEOF
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
