package declog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// lineBytesMax bounds a line; the longest that a Writer makes is below 1 MiB.
const lineBytesMax = 4 << 20

// LineError is a line that is no record: torn by a crash, longer than 4 MiB, or of a later version. Reading may go on behind it; behind the
// torn end of a compressed file comes io.EOF.
type LineError struct {
	Line int // from 1
	Err  error
}

// Error names the line.
func (e *LineError) Error() string { return fmt.Sprintf("decision log, line %d: %v", e.Line, e.Err) }

// Unwrap gives the cause.
func (e *LineError) Unwrap() error { return e.Err }

// Reader reads records in the order of the file. Rotated files are read oldest first, one after the other or through io.MultiReader.
type Reader struct {
	in    *bufio.Reader
	line  int
	whole []byte // of a line longer than in's buffer
	torn  bool   // the compressed file ends within a frame
}

// NewReader reads from r.
func NewReader(r io.Reader) *Reader { return &Reader{in: bufio.NewReaderSize(r, 64<<10)} }

// Next reads the next record into r, whatever was in it. The error is io.EOF at the end, a *LineError for one line, or that of the
// underlying reader.
func (d *Reader) Next(r *Record) error {
	for {
		line, err := d.next()
		if err != nil {
			return err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var version struct {
			V int `json:"v"`
		}
		if err := json.Unmarshal(line, &version); err != nil {
			return &LineError{d.line, err}
		}
		if version.V == 0 {
			return &LineError{d.line, errors.New(`no "v": this is no record of a decision log`)}
		}
		if version.V < 1 || version.V > Version {
			return &LineError{d.line, fmt.Errorf("version %d; this reader knows 1 to %d", version.V, Version)}
		}
		*r = Record{}
		if err := json.Unmarshal(line, r); err != nil {
			return &LineError{d.line, err}
		}
		return nil
	}
}

// next returns one line, valid until the next call.
func (d *Reader) next() ([]byte, error) {
	if d.torn {
		return nil, io.EOF
	}
	d.line++
	d.whole = d.whole[:0]
	long := false
	for {
		part, err := d.in.ReadSlice('\n')
		if long = long || len(d.whole)+len(part) > lineBytesMax; long {
			d.whole = d.whole[:0]
		} else if err == nil && len(d.whole) == 0 {
			return part, nil
		} else {
			d.whole = append(d.whole, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.ErrUnexpectedEOF):
			d.torn = true
			return nil, &LineError{d.line, errors.New("the compressed file ends in the middle of a frame, or is damaged here")}
		case err != nil && err != io.EOF:
			return nil, err
		case long:
			return nil, &LineError{d.line, fmt.Errorf("longer than %d bytes", lineBytesMax)}
		case err == io.EOF && len(d.whole) == 0:
			return nil, io.EOF
		}
		return d.whole, nil
	}
}
