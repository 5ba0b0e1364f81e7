package traces

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// lineBytesMax bounds a line: a session of thousands of requests, or a prompt's text.
const lineBytesMax = 64 << 20

// peekBytes is how much of a file is looked at to tell its form.
const peekBytes = 256 << 10

// Options of Open.
type Options struct {
	SkipBad bool // leave out lines that are no requests, and count them
}

// Open recognises a trace file by its content, compressed with gzip or zstd or not, or makes a synthetic trace where the name is
// a generator with its settings, as in "groups:groups=150,prompts=5". It reads the beginning only.
func Open(name string, o Options) (*Trace, error) {
	if kind, settings, _ := strings.Cut(name, ":"); generators[kind] != nil {
		return generate(name, kind, settings)
	}
	head, err := peek(name)
	if kind, _, made := strings.Cut(name, ":"); made && errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w; no generator is called %q either, there are: %s", err, kind, strings.Join(slices.Sorted(maps.Keys(generators)), ", "))
	}
	if err != nil {
		return nil, err
	}
	if first, _, _ := bytes.Cut(head, []byte("\n")); isDecision(first) || isText(first) && first[0] == '{' {
		return OpenLogs([]string{name}, o)
	}
	t := &Trace{Name: name, skipped: new(int)}
	parse, err := recognise(t, head)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	t.open = func(uint64) (Reader, error) {
		in, closeFile, err := OpenFile(name)
		if err != nil {
			return nil, err
		}
		*t.skipped = 0
		return &lines{name: name, in: in, closeFile: closeFile, parse: parse(), skipBad: o.SkipBad, skipped: t.skipped}, nil
	}
	return t, nil
}

// parser turns one line into requests, which it appends; none for a heading.
type parser func(line []byte, into []Request) ([]Request, error)

// recognise fills in the trace's form and returns what makes a parser for a pass.
func recognise(t *Trace, head []byte) (func() parser, error) {
	first, _, _ := bytes.Cut(head, []byte("\n"))
	first = bytes.TrimSpace(bytes.TrimPrefix(first, []byte("\xef\xbb\xbf")))
	if bytes.HasPrefix(bytes.ToUpper(first), []byte("TIMESTAMP,")) {
		t.Form, t.BlockTokens = "azure", 16
		return func() parser { return new(azure).parse }, nil
	}
	has := func(key string) bool { return bytes.Contains(first, []byte(`"`+key+`"`)) }
	if len(first) == 0 || first[0] != '{' {
		return nil, fmt.Errorf("the first line is no trace's; known are:%s", formNames())
	}
	switch {
	case has("requests"):
		var s struct {
			BlockSize int `json:"block_size"`
		}
		_ = json.Unmarshal(first, &s) // a first line longer than what was looked at has its block size before its requests, or the usual one
		t.Form, t.BlockTokens, t.Sessions = "sessions", sessionBlock(first, s.BlockSize), true
		t.Untimed = true
		block := t.BlockTokens
		return func() parser { return (&sessions{blockTokens: block}).parse }, nil
	case has("hash_ids"):
		t.Form, t.BlockTokens, t.Jitter = "mooncake", mooncakeBlockTokens, 3*time.Second
		return func() parser { return new(mooncake).parse }, nil
	}
	return nil, fmt.Errorf("the first line is no trace's; known are:%s", formNames())
}

func peek(name string) ([]byte, error) {
	in, closeFile, err := OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer closeFile()
	head := make([]byte, peekBytes)
	n, err := io.ReadFull(in, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && err != io.EOF {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return head[:n], nil
}

// OpenFile opens a file and undoes its compression.
func OpenFile(name string) (*bufio.Reader, func() error, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	in := bufio.NewReaderSize(f, 1<<16)
	magic, _ := in.Peek(4)
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			f.Close()
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		return bufio.NewReaderSize(unpacked{z}, 1<<16), f.Close, nil
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<30))
		if err != nil {
			f.Close()
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		return bufio.NewReaderSize(unpacked{z}, 1<<16), func() error { z.Close(); return f.Close() }, nil
	}
	return in, f.Close, nil
}

// unpacked is what was compressed. Where that is damaged it ends as if it were cut off there, whatever the coding calls it: what is before can be
// read, what is behind cannot. Errors of the file are those of its disk, and stay.
type unpacked struct{ io.Reader }

func (u unpacked) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if err != nil && err != io.EOF && !errors.As(err, new(*fs.PathError)) {
		err = fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
	}
	return n, err
}

// lines reads a file line by line.
type lines struct {
	name      string
	in        *bufio.Reader
	closeFile func() error
	parse     parser
	skipBad   bool
	skipped   *int

	line  int
	whole []byte
	ended bool      // by an error: a compressed file that is cut off, or a disk
	ready []Request // of the latest line,
	next  int       // those from here on not given yet
}

func (l *lines) Close() error { return l.closeFile() }

func (l *lines) Next(r *Request) error {
	for l.next == len(l.ready) {
		line, err := l.read()
		if err == io.EOF {
			return io.EOF
		}
		if line = bytes.TrimSpace(line); err == nil && len(line) == 0 {
			continue
		}
		l.next = 0
		if l.ready = l.ready[:0]; err == nil {
			l.ready, err = l.parse(line, l.ready)
		}
		if err == nil {
			continue
		}
		l.ready = l.ready[:0]
		if !l.skipBad || l.ended && !errors.Is(err, io.ErrUnexpectedEOF) {
			return &LineError{l.name, l.line, err}
		}
		*l.skipped++
	}
	*r = l.ready[l.next]
	r.Line = l.line
	l.next++
	return nil
}

// read returns one line, valid until the next call.
func (l *lines) read() ([]byte, error) {
	if l.ended {
		return nil, io.EOF
	}
	l.line++
	l.whole = l.whole[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		if len(l.whole) == 0 && err == nil {
			return part, nil
		}
		l.whole = append(l.whole, part...)
		switch {
		case len(l.whole) > lineBytesMax:
			return nil, fmt.Errorf("longer than %d bytes", lineBytesMax)
		case err == nil:
			return l.whole, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && len(l.whole) > 0:
			return l.whole, nil
		default:
			l.ended = err != io.EOF
			return nil, err
		}
	}
}
