package declog

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Options of a Writer. Zero fields take the value of DefaultOptions.
type Options struct {
	Path          string        // the file to append to; rotated files are Path.1 (the youngest), Path.2, ...
	FileBytesMax  int64         // a file that would grow beyond this is rotated
	FilesMax      int           // rotated files kept
	Compress      string        // CompressZstd, or "" for plain lines
	Text          bool          // whoever fills in records is to fill in their text
	QueueMax      int           // records waiting to be written
	QueueBytesMax int64         // memory of the records waiting
	KnownBlockMax int           // blocks whose numbers are remembered; about 50 bytes each
	FlushInterval time.Duration // longest time a line stays in memory
	Log           *slog.Logger  // where a failing disk is told; nil is silent
}

// DefaultOptions: 256 MiB files, four kept beside the current one, 4,096 records or 32 MiB queued, a million blocks known.
func DefaultOptions() Options {
	return Options{FileBytesMax: 256 << 20, FilesMax: 4, QueueMax: 4096, QueueBytesMax: 32 << 20, KnownBlockMax: 1 << 20, FlushInterval: time.Second}
}

func (o Options) withDefaults() Options {
	d := DefaultOptions()
	if o.FileBytesMax <= 0 {
		o.FileBytesMax = d.FileBytesMax
	}
	if o.FilesMax <= 0 {
		o.FilesMax = d.FilesMax
	}
	if o.QueueMax <= 0 {
		o.QueueMax = d.QueueMax
	}
	if o.QueueBytesMax <= 0 {
		o.QueueBytesMax = d.QueueBytesMax
	}
	if o.KnownBlockMax <= 0 {
		o.KnownBlockMax = d.KnownBlockMax
	}
	if o.FlushInterval <= 0 {
		o.FlushInterval = d.FlushInterval
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Stats counts what became of records. Of those given to Log, each is written, dropped or still queued.
type Stats struct {
	Written uint64
	Dropped uint64 // the queue was full, the disk refused, or the writer was closed
	Rotated uint64 // files
}

// Writer appends records to a file from one goroutine of its own. Its methods may be called from any goroutine.
type Writer struct {
	opts Options
	boot string

	pool        sync.Pool // of *Record
	queuedBytes atomic.Int64
	written     atomic.Uint64
	dropped     atomic.Uint64
	rotated     atomic.Uint64

	mu     sync.RWMutex // held for reading by senders, so that Close closes the queue behind the last of them
	queue  chan *Record
	closed bool
	done   chan struct{}
	failed error // of the last flush; read after done

	// The rest belongs to the goroutine.
	out     file
	numbers *numbering
	encoder *json.Encoder
	line    bytes.Buffer
	pending bytes.Buffer // whole lines
	failing bool
}

// bufferBytes is how much is collected before it is written without waiting for the flush interval.
const bufferBytes = 64 << 10

// Create opens the log at o.Path, appending to what is there, and starts its goroutine. Close ends it.
func Create(o Options) (*Writer, error) {
	o = o.withDefaults()
	if o.Path == "" {
		return nil, fmt.Errorf("decision log: no file is named (--decision-log)")
	}
	coder, err := newCoder(o.Compress)
	if err != nil {
		return nil, err
	}
	w := &Writer{opts: o, queue: make(chan *Record, o.QueueMax), done: make(chan struct{}), numbers: newNumbering(o.KnownBlockMax),
		out: file{path: o.Path, bytesMax: o.FileBytesMax, filesMax: o.FilesMax, coder: coder}}
	if err := w.out.open(); err != nil {
		return nil, fmt.Errorf("decision log: %w (--decision-log)", err)
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	w.boot = hex.EncodeToString(id[:])
	w.pool.New = func() any { return new(Record) }
	w.encoder = json.NewEncoder(&w.line)
	w.encoder.SetEscapeHTML(false)
	go w.run()
	return w, nil
}

// Record returns an empty record to fill in. It need not be given back when it is not logged.
func (w *Writer) Record() *Record {
	r := w.pool.Get().(*Record)
	r.Reset()
	return r
}

// Log queues a record and reports whether there was room. It never waits. The record is the writer's from here on, whatever the answer.
func (w *Writer) Log(r *Record) bool {
	size := r.bytes()
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.queuedBytes.Add(size) <= w.opts.QueueBytesMax && !w.closed {
		select {
		case w.queue <- r:
			return true
		default:
		}
	}
	w.queuedBytes.Add(-size)
	w.dropped.Add(1)
	w.pool.Put(r)
	return false
}

// KeepsText says whether records are to have the text of prompts.
func (w *Writer) KeepsText() bool { return w.opts.Text }

// Stats may be asked at any time.
func (w *Writer) Stats() Stats {
	return Stats{Written: w.written.Load(), Dropped: w.dropped.Load(), Rotated: w.rotated.Load()}
}

// Close writes what is queued, closes the file and waits for that. Later records are dropped and counted. The error is that of the
// last write; closing twice is harmless.
func (w *Writer) Close() error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.queue)
	}
	w.mu.Unlock()
	<-w.done
	return w.failed
}

func (w *Writer) run() {
	defer close(w.done)
	flush := time.NewTicker(w.opts.FlushInterval)
	defer flush.Stop()
	for {
		select {
		case r, more := <-w.queue:
			if !more {
				w.failed = errors.Join(w.flush(), w.out.close())
				return
			}
			size := r.bytes() // coding it may grow it
			w.add(r)
			w.queuedBytes.Add(-size)
			w.pool.Put(r)
		case <-flush.C:
			_ = w.flush() // told to the log already
		}
	}
}

// add encodes a record and writes when enough has come together.
func (w *Writer) add(r *Record) {
	r.V, r.Boot = Version, w.boot
	r.bound()
	blocks, cut := w.numbers.runs(r.Blocks[:0], r.keys)
	r.Blocks, r.BlocksCut = blocks, r.BlocksCut || cut
	w.line.Reset()
	if err := w.encoder.Encode(r); err != nil { // a number that JSON has no word for: NaN or an infinity
		w.dropped.Add(1)
		w.opts.Log.Error("decision log: a record cannot be written", slog.String("error", err.Error()))
		return
	}
	// A disk that refuses lines must not have its full files pushed out by empty ones: no rotation then.
	if w.out.full(w.pending.Len(), w.line.Len()) && w.flush() == nil {
		if err := w.out.rotate(); err != nil {
			w.opts.Log.Error("decision log: the file cannot be rotated and grows on", slog.String("error", err.Error()))
		} else {
			w.rotated.Add(1)
		}
	}
	w.pending.Write(w.line.Bytes())
	if w.pending.Len() >= bufferBytes {
		_ = w.flush()
	}
}

// flush writes the pending lines. Lines that the disk did not take whole are dropped and counted.
func (w *Writer) flush() error {
	if w.pending.Len() == 0 {
		return nil
	}
	lines := w.pending.Bytes()
	n, err := w.out.write(lines)
	whole := bytes.Count(lines[:n], []byte{'\n'})
	w.written.Add(uint64(whole))
	if err != nil {
		w.dropped.Add(uint64(bytes.Count(lines[n:], []byte{'\n'})))
	}
	w.pending.Reset()
	if failing := err != nil; failing != w.failing {
		w.failing = failing
		if failing {
			w.opts.Log.Error("decision log: records are being lost", slog.String("error", err.Error()))
		} else {
			w.opts.Log.Info("decision log: records are written again")
		}
	}
	return err
}
