package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/keep"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/telemetry"
)

// What is assumed of workers' caches, and how far what they tell of them is trusted, outlives the router too, but is true of the same process of an
// engine only: one that was started anew meanwhile has an empty cache. Engines tell when their process started; what was written of a worker is
// taken up once its engine has told the same again. Of an engine that does not tell, nothing is written: a hit that is promised in vain
// draws a request to where it is dear, and to learn a cache anew takes a turn of each conversation.

const (
	// recordsAtOnce is how many places of the index are looked at while requests wait, some 20 us; restoreAtOnce how many blocks are put back.
	recordsAtOnce = 256
	restoreAtOnce = 256
	// cachesShare is the part of the time, one in so many, that writing may take: a large index is written less often than each minute.
	cachesShare = 100
	// recallTime is how long after the start workers may come for whom there is something to take up.
	recallTime = 2 * time.Minute
	// indexRecordBytes is the least that a block takes in the index, by which the blocks in a file are bounded.
	indexRecordBytes = 64
)

// remembered is what was written of workers that have not come yet.
type remembered struct {
	mu      sync.Mutex
	workers map[string]keep.CachedWorker // by id
	records map[int][]prefix.Record      // by slot as it was then
}

func (r *router) cachesFile() (string, error) {
	folder, err := r.settings().StateFolder()
	if err != nil {
		return "", err
	}
	return filepath.Join(folder, "caches-"+r.ownName()), nil
}

// recallCaches reads what was assumed of caches. A file that cannot be used is told of, and changes nothing.
func (r *router) recallCaches() {
	file, err := r.cachesFile()
	if err != nil || r.settings().StateMaxAge == 0 {
		return // keepLearned says so
	}
	all, err := r.readCaches(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case errors.Is(err, keep.ErrTooOld), errors.Is(err, keep.ErrVersion):
		r.log.Info("what was assumed of caches before is not used", "file", file, "reason", err)
		return
	case err != nil:
		r.log.Warn("what was assumed of caches before cannot be used: they are learned anew", "file", file, "error", err)
		return
	}
	r.caches.workers, r.caches.records = map[string]keep.CachedWorker{}, all.Records
	for _, w := range all.Workers {
		r.caches.workers[w.ID] = w
	}
}

func (r *router) readCaches(file string) (*keep.Caches, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return keep.ReadCaches(f, time.Now(), r.settings().StateMaxAge, r.seed.Fingerprint(), int(r.settings().IndexBytesMax)/indexRecordBytes)
}

// remind takes up what was assumed of a worker's cache, when its engine has told which process it is. It runs on the worker's own goroutine.
func (r *router) remind(t telemetry.Target, c fleet.Counts) {
	was, records, ok := r.caches.take(t.ID, time.Since(r.started) > recallTime)
	if !ok {
		return
	}
	log := r.log.With("worker", t.ID)
	if was.URL != r.workerURL(t) || was.Started != c.Started {
		log.Info("its engine is another process than before the restart: its cache counts as empty")
		return
	}
	blocks := 0
	for records = prefix.Arrange(records); len(records) > 0; {
		n := min(len(records), restoreAtOnce)
		r.gate.View(func(v gate.View) {
			if w := workerIn(v, t); w != nil {
				blocks += v.Index.PutBack(w.Slot, records[:n])
			}
		})
		records = records[n:]
	}
	if was.Truth != nil {
		r.exact.recall(t, *was.Truth)
	}
	log.Info("goes on from what was assumed of its cache before the restart", "blocks", blocks)
}

// take hands out what is remembered of a worker, once. late: nobody comes any more.
func (m *remembered) take(id string, late bool) (w keep.CachedWorker, records []prefix.Record, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w, ok = m.workers[id]; ok {
		records = m.records[w.Slot]
		delete(m.workers, id)
		delete(m.records, w.Slot)
	}
	if len(m.workers) == 0 || late {
		m.workers, m.records = nil, nil
	}
	return w, records, ok && !late
}

// workerIn is the worker that telemetry tells of, if it is still that one.
func workerIn(v gate.View, t telemetry.Target) *fleet.Worker {
	for _, w := range v.Workers {
		if w.ID == t.ID && w.Incarnation == t.Incarnation {
			return w
		}
	}
	return nil
}

func (r *router) workerURL(t telemetry.Target) (url string) {
	r.gate.View(func(v gate.View) {
		if w := workerIn(v, t); w != nil {
			url = w.URL
		}
	})
	return url
}

// writeCaches replaces the file. Requests go on meanwhile.
func (r *router) writeCaches() error {
	if r.settings().StateMaxAge == 0 || r.succession.silent.Load() {
		return nil
	}
	file, err := r.cachesFile()
	if err != nil {
		return err
	}
	return streamFile(file, func(out io.Writer) error {
		w := keep.NewCachesWriter(out)
		before := r.cachedWorkers()
		var buf []prefix.Record
		for from, first := 0, true; first || from > 0; first = false {
			r.gate.View(func(v gate.View) { buf, from = v.Index.Records(buf[:0], from, recordsAtOnce) })
			kept := buf[:0]
			for _, record := range buf {
				if before[record.Slot].worker != nil {
					kept = append(kept, record)
				}
			}
			w.Append(kept)
		}
		all := keep.Caches{Saved: time.Now(), Seed: r.seed.Fingerprint()}
		for slot, now := range r.cachedWorkers() {
			if before[slot] == now { // else its records may be another worker's
				all.Workers = append(all.Workers, keep.CachedWorker{ID: now.worker.ID, URL: now.worker.URL, Slot: slot, Started: now.started, Truth: r.exact.keep(now.worker.ID)})
			}
		}
		return w.End(all)
	})
}

// cachedWorker is a worker whose engine has told when it started.
type cachedWorker struct {
	worker  *fleet.Worker // one instance, which is another after a restart
	started float64
}

func (r *router) cachedWorkers() map[int]cachedWorker {
	all := map[int]cachedWorker{}
	r.gate.View(func(v gate.View) {
		for _, w := range v.Workers {
			if c, _ := w.Counts(v.Now); c.Started != 0 {
				all[w.Slot] = cachedWorker{w, c.Started}
			}
		}
	})
	return all
}

// streamFile writes a file whole or not at all, in place of one that may be there. What a crash leaves beside it is written over by the next one.
func streamFile(file string, write func(io.Writer) error) error {
	part := file + ".part"
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(part, file)
	}
	if err != nil {
		os.Remove(part)
	}
	return err
}
