// Package filewatch reads small files that change while the program runs: certificates, keys, credentials. What is taken is always a whole
// set that was found good; a set that is not leaves the one before it in force, and is told once.
//
//	w := filewatch.New(filewatch.Options{Log: log})
//	stop, err := w.Add("tls", []string{"cert.pem", "key.pem"}, func(contents [][]byte) error { ... })   // read at once; err: not usable
//	go w.Run(ctx)                                                                                      // and again when they change
//
// Files are read whole at each look and compared by content. Notices of the kernel were not enough: Kubernetes swaps a symlink two levels
// up, editors write a new file over the old name, and network file systems send none; a look at a few kilobytes costs microseconds.
package filewatch

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options of a Watcher. Zero fields but Log and Took are taken from DefaultOptions.
type Options struct {
	Interval     time.Duration // between two looks
	FileBytesMax int64         // a longer file is an error
	Log          *slog.Logger  // nil is silent
	// Took hears of every set that changed, and whether it was good; nil is nobody.
	Took func(what string, good bool)
}

// DefaultOptions: a look every second, at files of up to 1 MiB.
func DefaultOptions() Options { return Options{Interval: time.Second, FileBytesMax: 1 << 20} }

// Watcher watches any number of sets of files.
type Watcher struct {
	o Options

	mu   sync.Mutex
	sets []*set
}

// set is files that belong together. All but its first reading is done by Run alone.
type set struct {
	what   string
	files  []string
	take   func(contents [][]byte) error
	taken  [sha256.Size]byte // content in force
	failed [sha256.Size]byte // content, or error, that was told to be of no use
	odd    [sha256.Size]byte // the same at the look before, which is not told yet
}

// New makes a watcher.
func New(o Options) *Watcher {
	d := DefaultOptions()
	if o.Interval <= 0 {
		o.Interval = d.Interval
	}
	if o.FileBytesMax <= 0 {
		o.FileBytesMax = d.FileBytesMax
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Watcher{o: o}
}

// Add reads files and hands their contents to take; an error of either is returned, and nothing is watched then. Afterwards take is called
// from Run whenever their contents changed, one call at a time, until stop; a call that is under way still ends. An error of take leaves
// what was taken before in force.
func (w *Watcher) Add(what string, files []string, take func(contents [][]byte) error) (stop func(), err error) {
	s := &set{what: what, files: files, take: take}
	contents, err := w.read(files)
	if err != nil {
		return nil, err
	}
	if err := take(contents); err != nil {
		return nil, err
	}
	s.taken = digest(contents)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sets = append(w.sets, s)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.sets = slices.DeleteFunc(w.sets, func(other *set) bool { return other == s })
	}, nil
}

// Run looks at the files until ctx is done. It returns nil.
func (w *Watcher) Run(ctx context.Context) error {
	t := time.NewTicker(w.o.Interval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		w.lookAll()
	}
}

func (w *Watcher) lookAll() {
	w.mu.Lock()
	sets := slices.Clone(w.sets)
	w.mu.Unlock()
	for _, s := range sets {
		w.look(s)
	}
}

// look takes what changed. Files that do not go together are told at the second look only: they may be half written.
func (w *Watcher) look(s *set) {
	contents, err := w.read(s.files)
	now := digest(contents)
	if err != nil {
		now = sha256.Sum256([]byte(err.Error()))
	}
	if now == s.taken || now == s.failed {
		s.odd = [sha256.Size]byte{}
		if now == s.taken {
			s.failed = s.odd // what was bad and was put back is told again when it comes again
		}
		return
	}
	if err == nil {
		err = s.take(contents)
	}
	switch {
	case err == nil:
		s.taken, s.failed, s.odd = now, [sha256.Size]byte{}, [sha256.Size]byte{}
		w.o.Log.Info("changed files are in force", "setting", s.what, "files", strings.Join(s.files, ", "))
	case s.odd != now:
		s.odd = now
		return
	default:
		s.failed = now
		w.o.Log.Error("changed files cannot be used: those before them stay in force", "setting", s.what, "error", err)
	}
	if w.o.Took != nil {
		w.o.Took(s.what, err == nil)
	}
}

func (w *Watcher) read(files []string) ([][]byte, error) {
	contents := make([][]byte, len(files))
	for i, file := range files {
		var err error
		if contents[i], err = w.readOne(file); err != nil {
			return nil, err
		}
	}
	return contents, nil
}

func (w *Watcher) readOne(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, w.o.FileBytesMax+1))
	var inPath *os.PathError
	switch {
	case errors.As(err, &inPath):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s: %w", file, err)
	case int64(len(text)) > w.o.FileBytesMax:
		return nil, fmt.Errorf("%s is longer than %d bytes, the most that such a file may have", file, w.o.FileBytesMax)
	}
	return text, nil
}

// digest tells contents apart, also where a byte moved from one file to the next.
func digest(contents [][]byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, c := range contents {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(c))))
		h.Write(c)
	}
	h.Sum(sum[:0])
	return sum
}
