package declog

import (
	"log/slog"
	"time"
)

// Options of a Writer. Zero fields take the value of DefaultOptions.
type Options struct {
	Path          string        // the file to append to; rotated files are Path.1 (the youngest), Path.2, ...
	FileBytesMax  int64         // a file that reaches this is rotated
	FilesMax      int           // rotated files kept
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

// Stats counts what became of records.
type Stats struct {
	Written uint64
	Dropped uint64 // queue full, disk refused, or the writer was closed
	Rotated uint64
}
