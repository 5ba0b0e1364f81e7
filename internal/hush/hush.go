// Package hush keeps a storm of equal messages from filling the disk. Of each message so many lines a minute are logged; the rest is counted,
// and one line tells how many it were.
//
//	table := hush.NewTable(60, "request")        // all but what asks to be logged every time
//	log := slog.New(table.Limit(slog.NewTextHandler(os.Stderr, nil)))
//	go table.Run(ctx, log)
//
// A message is what is given to the logger as such, without its attributes: what names a worker or a request is an attribute, so a storm is
// one message whoever it is about.
package hush

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Window is the time in which lines are counted.
	Window = time.Minute
	// messagesMax bounds the messages that are told apart; those beyond it are counted as one.
	messagesMax = 256
	// tellEvery is how often it is looked whether a count is to be told.
	tellEvery = 5 * time.Second
	// toldAs is the message of the lines that tell counts; they are not counted themselves.
	toldAs = "lines of a message were left out of the log (setting log_lines_max)"
)

// Table is the counts of all messages. Its methods may be called from any goroutine.
type Table struct {
	most   atomic.Int64 // lines of one message in a Window; 0: all
	exempt []string
	left   atomic.Uint64

	mu  sync.Mutex
	all map[string]*count
}

type count struct {
	began        time.Time // the window
	lines        int64
	left         uint64
	level        slog.Level // of the last one left out
	first, until time.Time  // that were left out
}

// NewTable allows so many lines of one message a minute, 0 any number, and any number of the exempt ones.
func NewTable(most int, exempt ...string) *Table {
	t := &Table{exempt: append(exempt, toldAs), all: map[string]*count{}}
	t.SetMost(most)
	return t
}

// SetMost changes how many lines are allowed.
func (t *Table) SetMost(most int) { t.most.Store(int64(most)) }

// Left is how many lines were left out since the start.
func (t *Table) Left() uint64 { return t.left.Load() }

// Limit is next without the lines that are too many.
func (t *Table) Limit(next slog.Handler) slog.Handler { return handler{next, t} }

type handler struct {
	slog.Handler
	t *Table
}

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if !h.t.lets(r) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(a []slog.Attr) slog.Handler { return handler{h.Handler.WithAttrs(a), h.t} }

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name), h.t} }

func (t *Table) lets(r slog.Record) bool {
	most := t.most.Load()
	if most <= 0 || slices.Contains(t.exempt, r.Message) {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	message := r.Message
	c := t.all[message]
	if c == nil && len(t.all) >= messagesMax {
		message = "other messages"
		c = t.all[message]
	}
	if c == nil {
		c = &count{began: r.Time}
		t.all[message] = c
	}
	if r.Time.Sub(c.began) >= Window {
		c.began, c.lines = r.Time, 0
	}
	if c.lines++; c.lines <= most {
		return true
	}
	if c.left == 0 {
		c.first = r.Time
	}
	c.left++
	c.level, c.until = r.Level, r.Time
	t.left.Add(1)
	return false
}

// Run tells now and then what was left out, until ctx ends, and then what is left to tell.
func (t *Table) Run(ctx context.Context, log *slog.Logger) error {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			t.tell(log, time.Time{})
			return ctx.Err()
		case now := <-tick.C:
			t.tell(log, now)
		}
	}
}

// told is one line that tells a count.
type told struct {
	message string
	count
}

// tell logs the counts of the windows that are over at now, all of them where that is zero, and forgets messages that do not come any more.
func (t *Table) tell(log *slog.Logger, now time.Time) {
	var due []told
	t.mu.Lock()
	for message, c := range t.all {
		over := now.IsZero() || now.Sub(c.began) >= Window
		if over && c.left > 0 {
			due = append(due, told{message, *c})
			c.left = 0
		} else if over && now.Sub(c.began) >= 2*Window {
			delete(t.all, message)
		}
	}
	t.mu.Unlock()
	slices.SortFunc(due, func(a, b told) int { return a.first.Compare(b.first) })
	for _, d := range due {
		log.Log(context.Background(), d.level, toldAs, "message", d.message, "left_out", d.left, "from", d.first, "until", d.until)
	}
}
