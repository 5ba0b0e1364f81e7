package declog

import (
	"errors"
	"fmt"
	"os"

	"github.com/klauspost/compress/zstd"
)

// file is the current file and those before it.
type file struct {
	path     string
	bytesMax int64
	filesMax int
	coder    *zstd.Encoder // nil: lines are written as they are

	f     *os.File // nil: to be opened at the next write
	bytes int64
	limit int64 // rotate rather than grow beyond this
	torn  bool  // its last line has no end; the next write gives it one, so that only that line is lost to a reader

	coded []byte
}

// open opens the current file for appending, making it when there is none. One of the other form, compressed or not, is put aside, and so is
// one whose last frame a crash cut off: no reader gets past that. Only its owner's group may read along: it tells who asks.
func (l *file) open() error {
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", l.path)
	}
	if err != nil {
		_ = f.Close()
		return err
	}
	if size := info.Size(); size > 0 && (framed(f, size) != (l.coder != nil) || l.coder != nil && wholeFrames(f, size) < size) {
		if err := errors.Join(f.Close(), l.shift()); err != nil {
			return err
		}
		return l.open()
	}
	l.f, l.bytes, l.limit, l.torn = f, info.Size(), l.bytesMax, false
	if l.coder != nil {
		return nil
	}
	var last [1]byte
	if _, err := f.ReadAt(last[:], l.bytes-1); l.bytes > 0 && (err != nil || last[0] != '\n') {
		l.torn = true
	}
	return nil
}

// full reports whether one more line should go to a new file, with pending bytes still to come into this one.
func (l *file) full(pending, line int) bool {
	held := l.bytes + int64(pending)
	return held > 0 && held+int64(line) > l.limit
}

// write appends whole lines and tells how many of their bytes the disk took. After an error the file is opened afresh next time:
// somebody may have moved the folder, or made room.
func (l *file) write(lines []byte) (n int, err error) {
	if l.f == nil {
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	if l.torn {
		if _, err := l.f.Write([]byte{'\n'}); err != nil {
			return 0, errors.Join(err, l.close())
		}
		l.torn = false
		l.bytes++
	}
	if l.coder != nil {
		return l.writeFrame(lines)
	}
	n, err = l.f.Write(lines)
	l.bytes += int64(n)
	if err != nil {
		err = errors.Join(err, l.close())
	}
	return n, err
}

// writeFrame appends lines as one frame, all or none of them.
func (l *file) writeFrame(lines []byte) (n int, err error) {
	l.coded = l.coder.EncodeAll(lines, l.coded[:0])
	n, err = l.f.Write(l.coded)
	if err == nil {
		l.bytes += int64(n)
		return len(lines), nil
	}
	if info, e := l.f.Stat(); n > 0 && e == nil { // what comes behind half a frame would be lost to readers
		err = errors.Join(err, l.f.Truncate(info.Size()-int64(n)))
	}
	return 0, errors.Join(err, l.close())
}

// rotate puts the current file aside and opens a new one.
func (l *file) rotate() error {
	if err := l.close(); err != nil {
		return err
	}
	errs := errors.Join(l.shift(), l.open())
	if errs != nil {
		l.limit = l.bytes + l.bytesMax // not again at every line
	}
	return errs
}

// shift puts the current file aside as path.1, what was path.1 as path.2 and so on; the oldest goes.
func (l *file) shift() error {
	name := func(i int) string { return fmt.Sprintf("%s.%d", l.path, i) }
	var errs error
	for i := l.filesMax - 1; i >= 1; i-- {
		if err := os.Rename(name(i), name(i+1)); !errors.Is(err, os.ErrNotExist) {
			errs = errors.Join(errs, err)
		}
	}
	return errors.Join(errs, os.Rename(l.path, name(1)))
}

func (l *file) close() error {
	if l.f == nil {
		return nil
	}
	err := errors.Join(l.f.Sync(), l.f.Close()) // a machine that goes down after a stop or a rotation loses nothing of it
	l.f = nil
	return err
}
