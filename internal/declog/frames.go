package declog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// CompressZstd is the one compression that a log may be written with; "" is none.
const CompressZstd = "zstd"

// zstdMagic begins each frame (RFC 8878, 3.1.1).
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// frameWindow bounds the memory that coding and decoding takes: what is flushed together is hardly ever more.
const frameWindow = 1 << 20

// newCoder makes the coder of a log; nil codes nothing. Each flush is a frame of its own, with its length and a check sum: a file that a
// crash cut off is whole up to the last flush, and one that goes on later needs nothing of what was before. A stream flushed block by
// block would be smaller, but nothing could be appended to it after a crash.
func newCoder(compress string) (*zstd.Encoder, error) {
	switch compress {
	case "":
		return nil, nil
	case CompressZstd:
		return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(frameWindow), zstd.WithEncoderCRC(true))
	}
	return nil, fmt.Errorf("decision log: compression %q is not known, there is %s (decision_log.compress)", compress, CompressZstd)
}

// framed says whether a file of so many bytes, some at least, begins as one of zstd frames does.
func framed(f io.ReaderAt, size int64) bool {
	head := make([]byte, min(size, int64(len(zstdMagic))))
	n, err := f.ReadAt(head, 0)
	return (err == nil || err == io.EOF) && bytes.HasPrefix(zstdMagic, head[:n])
}

// wholeFrames is how many bytes at the beginning of a file are whole frames. It reads the heads of frames and blocks only (RFC 8878, 3.1.1).
func wholeFrames(f io.ReaderAt, size int64) (whole int64) {
	for whole < size {
		end, ok := frameEnd(f, whole)
		if !ok || end > size {
			return whole
		}
		whole = end
	}
	return whole
}

// frameEnd finds the end of the frame at an offset; false where there is none, or no end.
func frameEnd(f io.ReaderAt, at int64) (end int64, ok bool) {
	var head [zstd.HeaderMaxSize]byte
	n, err := f.ReadAt(head[:], at)
	if err != nil && err != io.EOF {
		return 0, false
	}
	var h zstd.Header
	if h.Decode(head[:n]) != nil {
		return 0, false
	}
	at += int64(h.HeaderSize)
	if h.Skippable {
		return at + int64(h.SkippableSize), true
	}
	for last := false; !last; {
		var block [4]byte
		if _, err := f.ReadAt(block[:3], at); err != nil {
			return 0, false
		}
		b := binary.LittleEndian.Uint32(block[:])
		kind, length := b>>1&3, int64(b>>3)
		switch last = b&1 != 0; kind {
		case 1: // one byte, repeated
			length = 1
		case 3: // reserved
			return 0, false
		}
		at += 3 + length
	}
	if h.HasCheckSum {
		at += 4
	}
	return at, true
}
