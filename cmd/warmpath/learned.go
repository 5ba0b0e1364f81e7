package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/keep"
	"github.com/warmpath/warmpath/internal/life"
)

// What was learned of engines is kept over a restart, in the state folder; and beside it what is assumed of their caches, see caches.go.

// learnedEvery is how often it is written: what a crash forgets is what was learned since.
const learnedEvery = time.Minute

func (r *router) learnedFile() (string, error) {
	folder, err := r.settings().StateFolder()
	if err != nil {
		return "", err
	}
	return filepath.Join(folder, "learned-"+r.ownName()), nil
}

// recall has the router know what it knew before it stopped. A file that cannot be used is told of, once, and changes nothing.
func (r *router) recall(book *cost.Book, outputs *cost.Outputs, ratio *cost.Ratio) {
	file, err := r.learnedFile()
	if err != nil || r.settings().StateMaxAge == 0 {
		return // keepLearned says so
	}
	kept, err := readLearned(file, r.settings().StateMaxAge)
	if err == nil {
		err = kept.Recall(book, outputs, ratio)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, keep.ErrTooOld), errors.Is(err, keep.ErrVersion):
		r.log.Info("what was learned of engines before is not used", "file", file, "reason", err)
	case err != nil:
		r.log.Warn("what was learned of engines before cannot be used: it is learned anew", "file", file, "error", err)
	default:
		r.log.Info("goes on from what was learned of engines before", "file", file, "workers", len(kept.Workers), "classes", len(kept.Classes))
	}
}

func readLearned(file string, ageMax time.Duration) (*cost.Kept, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, keep.BytesMax+1))
	if err != nil {
		return nil, err
	}
	return keep.Decode(text, time.Now(), ageMax)
}

// keepLearned writes it until ctx is done. Close writes it once more, when the last request has been settled.
func (r *router) keepLearned(ctx context.Context) {
	told := false
	for wait := learnedEvery; ; {
		life.Pause(ctx, wait)
		if ctx.Err() != nil {
			return
		}
		began := time.Now()
		err := errors.Join(r.writeLearned(), r.writeCaches())
		if err != nil && !told {
			told = true
			r.log.Warn("what was learned of engines and their caches cannot be kept: the next start learns anew", "error", err)
		}
		wait = max(learnedEvery, cachesShare*time.Since(began))
	}
}

// writeLearned replaces the file.
func (r *router) writeLearned() error {
	if r.settings().StateMaxAge == 0 || r.succession.silent.Load() {
		return nil
	}
	file, err := r.learnedFile()
	if err != nil {
		return err
	}
	now := time.Now()
	text, err := keep.Encode(now, r.gate.Learned())
	if err == nil {
		err = replaceFile(file, text)
	}
	if err == nil {
		r.saved.Store(now.Unix())
	}
	return err
}
