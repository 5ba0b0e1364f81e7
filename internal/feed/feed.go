// Package feed tells listeners what is new, without ever waiting for one: who reads too slowly loses snapshots, is told so, and goes on from a whole one.
//
//	h := feed.New(16)
//	l, err := h.Listen()                       // *feed.FullError when there are 16 already
//	for e := range l.Events() { w.Write(e) }   // l.Close() ends it
//
//	h.Tell(func() feed.Snapshot { ... })       // once a second; not called while nobody listens
//
// A snapshot is made once for all listeners. Its rows are told whole to one who begins, or lost something, and then only those that changed.
package feed

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
)

// Row is one row of a table, by its id, in JSON.
type Row struct {
	ID   string
	JSON []byte
}

// Snapshot is the state of a moment.
type Snapshot struct {
	Head []byte // a JSON object, told whole each time
	Rows []Row  // in the order in which they are to be shown
}

// buffered is how many events may wait for one listener. What a listener holds is bounded by that many events, which all of them share.
const buffered = 2

// FullError says that there are as many listeners as there may be.
type FullError struct{ Max int }

func (e *FullError) Error() string {
	return fmt.Sprintf("%d listen already, which is the limit", e.Max)
}

// Hub has the listeners. Only New makes a usable one; any number of goroutines may use it.
type Hub struct {
	max       int
	listening atomic.Int32
	wanted    chan struct{}

	mu        sync.Mutex
	listeners map[*Listener]bool
	closed    bool
	refused   uint64 // who came when there were as many as there may be
	sequence  uint64
	rows      map[string][]byte // as they were told last
}

// Listener is one who listens.
type Listener struct {
	hub    *Hub
	events chan []byte
	whole  bool   // it has to be told all rows; guarded by the hub's lock
	lost   uint64 // snapshots since the last that it got; guarded by the hub's lock
}

// New makes a hub for at most so many listeners.
func New(max int) *Hub {
	return &Hub{max: max, listeners: map[*Listener]bool{}, wanted: make(chan struct{}, 1)}
}

// Listen begins to listen. The error is a *FullError.
func (h *Hub) Listen() (*Listener, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.listeners) >= h.max || h.closed {
		h.refused++
		return nil, &FullError{h.max}
	}
	l := &Listener{hub: h, events: make(chan []byte, buffered), whole: true}
	h.listeners[l] = true
	h.listening.Store(int32(len(h.listeners)))
	select {
	case h.wanted <- struct{}{}:
	default:
	}
	return l, nil
}

// Wanted is ready when somebody has begun to listen who would like a snapshot soon.
func (h *Hub) Wanted() <-chan struct{} { return h.wanted }

// Listening is how many listen; it takes no lock.
func (h *Hub) Listening() int { return int(h.listening.Load()) }

// Use is how many listen, how many may, and how many were turned away.
func (h *Hub) Use() (listening, most int, refused uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.listeners), h.max, h.refused
}

// Events are what the listener is told, each a whole server-sent event. The channel is closed when the hub is, or Close was called.
func (l *Listener) Events() <-chan []byte { return l.events }

// Close ends the listening. It may be called twice.
func (l *Listener) Close() {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	l.hub.drop(l)
}

func (h *Hub) drop(l *Listener) {
	if h.listeners[l] {
		delete(h.listeners, l)
		close(l.events)
	}
	h.listening.Store(int32(len(h.listeners)))
}

// Close ends all listening; nobody can begin any more.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for l := range h.listeners {
		h.drop(l)
	}
}

// Tell has a snapshot made and told, and reports whether anybody listens; else nothing is made. It never waits for a listener.
func (h *Hub) Tell(make func() Snapshot) bool {
	if h.Listening() == 0 {
		return false
	}
	s := make() // without the lock: it may take long, and listeners come and go
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sequence++
	changed, gone := h.compare(s.Rows)
	var whole, part []byte
	for l := range h.listeners {
		event := &part
		if l.whole {
			event = &whole
		}
		if *event == nil {
			rows := changed
			if l.whole {
				rows = s.Rows
			}
			*event = h.event(s.Head, rows, gone, l.whole)
		}
		l.offer(*event)
	}
	return true
}

// offer gives a listener an event if it has room for it. One that lost some is told how many before the whole snapshot that it gets.
func (l *Listener) offer(event []byte) {
	if l.lost > 0 {
		event = append(fmt.Appendf(nil, "event: lost\ndata: {\"snapshots\":%d}\n\n", l.lost), event...)
	}
	select {
	case l.events <- event:
		l.whole, l.lost = false, 0
	default:
		l.whole, l.lost = true, l.lost+1
	}
}

// compare finds the rows that are not as they were told last, and those that are gone.
func (h *Hub) compare(rows []Row) (changed []Row, gone []string) {
	now := make(map[string][]byte, len(rows))
	for _, r := range rows {
		now[r.ID] = r.JSON
		if before, known := h.rows[r.ID]; !known || !bytes.Equal(before, r.JSON) {
			changed = append(changed, r)
		}
	}
	for id := range h.rows {
		if _, there := now[id]; !there {
			gone = append(gone, id)
		}
	}
	h.rows = now
	return changed, gone
}

// event writes a server-sent event.
func (h *Hub) event(head []byte, rows []Row, gone []string, whole bool) []byte {
	out := fmt.Appendf(nil, "id: %d\nevent: snapshot\ndata: {\"sequence\":%d,\"whole\":%t,\"head\":", h.sequence, h.sequence, whole)
	out = append(append(out, head...), `,"rows":[`...)
	for i, r := range rows {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, r.JSON...)
	}
	out = append(out, `],"gone":[`...)
	for i, id := range gone {
		if whole {
			break
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, "%q", id)
	}
	return append(out, "]}\n\n"...)
}
