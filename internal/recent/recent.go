// Package recent keeps the last decisions in memory, so that somebody who looks can find why a request went where it did without a decision log.
//
//	l := recent.New(recent.Options{Max: 2000, BytesMax: 16 << 20})
//	l.Add(&record)                                   // as each request ends; it is copied
//	for _, e := range l.List(recent.Filter{Worker: "gpu-3", Limit: 20}) { ... }   // the newest first
//	e, found := l.Find("4f2c")                       // the last request with that id
//
// A record is the decision log's. What is kept is bounded twice, by number and by bytes: records with many words in them make room for fewer.
package recent

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/declog"
)

// Options bound what is kept.
type Options struct {
	Max      int   // decisions; 0: none are kept
	BytesMax int64 // memory for them
}

// Entry is one decision.
type Entry struct {
	Number uint64 // 1 for the first of this process, one more with each
	declog.Record
}

// Log keeps the last decisions. Only New makes a usable one; any number of goroutines may use it.
type Log struct {
	o Options

	mu    sync.Mutex
	ring  []Entry // by number modulo its length; entries that were put out are zero, but for their room
	last  uint64  // number of the newest,
	first uint64  // and of the oldest that is kept
	bytes int64
	large uint64 // that were forgotten for their bytes
}

// New makes an empty log.
func New(o Options) *Log {
	return &Log{o: o, ring: make([]Entry, max(o.Max, 0)), first: 1}
}

// Keeps says whether anything is kept at all.
func (l *Log) Keeps() bool { return len(l.ring) > 0 }

// Add keeps a copy of a record, and forgets the oldest where there is no room beside it.
func (l *Log) Add(r *declog.Record) {
	if !l.Keeps() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last-l.first+1 == uint64(len(l.ring)) {
		l.forget(false)
	}
	l.last++
	e := l.at(l.last)
	e.Number = l.last
	r.Copy(&e.Record)
	l.bytes += e.Bytes()
	for l.bytes > l.o.BytesMax && l.first < l.last {
		l.forget(true)
		l.large++
	}
}

func (l *Log) at(number uint64) *Entry { return &l.ring[number%uint64(len(l.ring))] }

// forget puts the oldest out; whole gives its room back too, else the next one takes it.
func (l *Log) forget(whole bool) {
	e := l.at(l.first)
	l.bytes -= e.Bytes()
	if whole {
		*e = Entry{}
	} else {
		e.Reset()
	}
	l.first++
}

// Filter says which decisions are wanted; what is empty is not looked at.
type Filter struct {
	Worker, Tenant, Model, Outcome, Hit, ID string

	After uint64    // only those with a higher number
	Since time.Time // only requests that came then or later
	Limit int       // at most so many; 0: all
}

func (f *Filter) matches(e *Entry) bool {
	for _, pair := range [...][2]string{{f.Tenant, e.Tenant}, {f.Outcome, e.Outcome}, {f.Hit, e.Hit}, {f.ID, e.ID}} {
		if pair[0] != "" && pair[0] != pair[1] {
			return false
		}
	}
	if f.Model != "" && f.Model != e.Model && f.Model != e.Asked {
		return false
	}
	if f.Worker != "" && f.Worker != e.Worker && !slices.ContainsFunc(e.Tries, func(t declog.Try) bool { return t.Worker == f.Worker }) {
		return false
	}
	return f.Since.IsZero() || !e.Time.Before(f.Since)
}

// List returns copies of the decisions that a filter wants, the newest first. more says that there are further ones beyond the limit.
func (l *Log) List(f Filter) (found []Entry, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := l.last; n >= l.first && n > f.After && n > 0; n-- {
		e := l.at(n)
		if !f.matches(e) {
			continue
		}
		if f.Limit > 0 && len(found) == f.Limit {
			return found, true
		}
		found = append(found, e.copy())
	}
	return found, false
}

// copy is an entry in memory of its own.
func (e *Entry) copy() (c Entry) {
	c.Number = e.Number
	e.Copy(&c.Record)
	return c
}

// Find returns the last decision of a request by its id, or any by its number with a # before it.
func (l *Log) Find(id string) (Entry, bool) {
	if len(id) > 1 && id[0] == '#' {
		n, err := strconv.ParseUint(id[1:], 10, 64)
		l.mu.Lock()
		defer l.mu.Unlock()
		if err != nil || n < l.first || n > l.last {
			return Entry{}, false
		}
		return l.at(n).copy(), true
	}
	found, _ := l.List(Filter{ID: id, Limit: 1})
	if len(found) == 0 {
		return Entry{}, false
	}
	return found[0], true
}

// Beginning are the ids that begin so, the newest first, each once, and at most so many.
func (l *Log) Beginning(id string, most int) (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := l.last; n >= l.first && n > 0 && len(ids) < most; n-- {
		if e := l.at(n); strings.HasPrefix(e.ID, id) && !slices.Contains(ids, e.ID) {
			ids = append(ids, strings.Clone(e.ID))
		}
	}
	return ids
}

// Stats is how full it is.
type Stats struct {
	Decisions, DecisionsMax int
	Bytes, BytesMax         int64
	Last                    uint64 // number of the newest; 0: there was none
	Forgotten               uint64 // because there were as many as there may be,
	ForgottenForBytes       uint64 // and because of their bytes
}

// Stats may be asked at any time.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{Decisions: int(l.last - l.first + 1), DecisionsMax: len(l.ring), Bytes: l.bytes, BytesMax: l.o.BytesMax, Last: l.last,
		Forgotten: l.first - 1 - l.large, ForgottenForBytes: l.large}
}
