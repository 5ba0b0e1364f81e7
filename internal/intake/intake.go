// Package intake takes in what clients send beside plain JSON: which paths beside /v1/ are passed on, bodies too large to be held in
// memory, the fields of a form, bodies that came compressed, and the questions that browsers ask before they send anything.
//
//	way, ok := intake.Way("/rerank")                         // may it pass, does it generate, does it warm a cache
//	body, err := intake.Take(r.Body, r.ContentLength, l)     // in memory, or in a file without a name beyond l.SpoolBytes
//	defer body.Close()
//	form, err := intake.ReadForm(body.Reader(), boundary)    // form.Model, form.Stream, wherever their parts stand
//	text, err := intake.Inflate("gzip", body.Bytes, bytesMax, note) // what the router reads; what it forwards is the body as it came
package intake

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// Limits bound one body.
type Limits struct {
	BytesMax   int64  // of the whole body
	SpoolBytes int64  // beyond it a body goes to a file; 0: never
	SpoolDir   string // where; "" is the system's folder for temporary files
	// Aside hears of the bytes that go to a file, which are in memory no more; its error is that of Take. nil: nobody counts them.
	Aside func(bytes int) error
}

// Body is a whole body, in memory or in a file that has no name any more and so disappears with the process at the latest.
type Body struct {
	Bytes   []byte // the body when it is in memory
	Size    int64
	NoSpool error // why a large body is in memory all the same: the folder takes no file
	file    *os.File
}

// TooLargeError is a body beyond Limits.BytesMax.
type TooLargeError struct{ BytesMax int64 }

func (e *TooLargeError) Error() string { return fmt.Sprintf("more than %d bytes", e.BytesMax) }

// SpoolError is a file that takes no more, most often on a full disk.
type SpoolError struct{ Err error }

func (e *SpoolError) Error() string { return "a large body cannot be written aside: " + e.Err.Error() }

// Unwrap gives the cause.
func (e *SpoolError) Unwrap() error { return e.Err }

// Take reads a body to its end. length is what the client announced, negative when it did not. Where no file can be made, a large body
// stays in memory. Errors are *TooLargeError, *SpoolError, or the reader's own.
func Take(r io.Reader, length int64, l Limits) (*Body, error) {
	if length > l.BytesMax {
		return nil, &TooLargeError{l.BytesMax}
	}
	r = io.LimitReader(r, l.BytesMax+1)
	if l.SpoolBytes > 0 && length > l.SpoolBytes {
		b, err := spool(nil, r, l)
		if err == nil && b.Size < length {
			b.Close()
			return nil, io.ErrUnexpectedEOF
		}
		return b, err
	}
	head := bytes.NewBuffer(make([]byte, 0, min(max(length, 0), firstBytes)+bytes.MinRead))
	within := l.BytesMax + 1
	if l.SpoolBytes > 0 {
		within = min(within, l.SpoolBytes+1)
	}
	n, err := io.Copy(head, io.LimitReader(r, within))
	switch {
	case err != nil:
		return nil, err
	case length >= 0 && n < length && n < within:
		return nil, io.ErrUnexpectedEOF
	case n > l.BytesMax:
		return nil, &TooLargeError{l.BytesMax}
	case l.SpoolBytes > 0 && n > l.SpoolBytes:
		return spool(head.Bytes(), r, l)
	}
	return &Body{Bytes: head.Bytes(), Size: n}, nil
}

// spool writes what is there already and the rest to a file.
func spool(head []byte, rest io.Reader, l Limits) (*Body, error) {
	file, err := os.CreateTemp(l.SpoolDir, "warmpath-body-*")
	if err != nil {
		l.SpoolBytes = 0
		b, errTake := Take(io.MultiReader(bytes.NewReader(head), rest), -1, l)
		if errTake == nil {
			b.NoSpool = err
		}
		return b, errTake
	}
	b := &Body{file: file}
	if err = os.Remove(file.Name()); err != nil {
		b.Close()
		return nil, &SpoolError{err}
	}
	n, err := copyTo(file, io.MultiReader(bytes.NewReader(head), rest), l.Aside)
	if b.Size = n; err == nil && b.Size > l.BytesMax {
		err = &TooLargeError{l.BytesMax}
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// copyTo is io.Copy that tells a file that takes no more from a client that sends no more.
func copyTo(file *os.File, r io.Reader, aside func(bytes int) error) (n int64, err error) {
	w := &noted{file: file, aside: aside}
	n, err = io.Copy(w, r)
	if w.err != nil {
		err = &SpoolError{w.err}
	}
	return n, err
}

type noted struct {
	file  *os.File
	aside func(bytes int) error
	err   error // the file's
}

func (w *noted) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	if w.err = err; err == nil && w.aside != nil {
		err = w.aside(n)
	}
	return n, err
}

// Spooled says that the body is in a file and Bytes is nil.
func (b *Body) Spooled() bool { return b.file != nil }

// Reader reads the body from its start; several may be in use at once.
func (b *Body) Reader() io.Reader {
	if b.file != nil {
		return io.NewSectionReader(b.file, 0, b.Size)
	}
	return bytes.NewReader(b.Bytes)
}

// Close gives the file's space back. Readers still in use then fail.
func (b *Body) Close() error {
	if b.file == nil {
		return nil
	}
	if err := b.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
