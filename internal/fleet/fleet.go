// Package fleet knows who is there and what they owe: workers, their load, and the reservations that make it up.
//
// It is pure: no goroutine, no clock, no lock. One owner (the proxy's gate, or the replay lab) calls it under its own lock and
// passes the time in, so that choosing a worker and reserving on it can be one critical section:
//
//	f := fleet.New(fleet.DefaultOptions())
//	w, _ := f.Add("a", "http://10.0.0.1:8000", now)
//	r := f.Reserve(w, fleet.Need{PromptTokens: 900, PrefillSeconds: 0.02, Streamed: true}, now)
//	r.FirstToken(now)
//	r.Generated(40) // the one call that needs no lock
//	r.Release(now, fleet.Succeeded)
package fleet

import (
	"fmt"
	"slices"
	"time"
)

// Options are the bounds of a fleet. The zero value of a field means its default, except where it says otherwise.
type Options struct {
	EjectAfter  int           // faults in a row that put a worker out; default 3
	EjectFor    time.Duration // how long the first time; doubles with each ejection after it; default 1 s
	EjectMax    time.Duration // the longest ejection, and how long a worker must serve well to be forgiven; default 60 s
	Probes      int           // good answers that take a worker back, and requests under way that try it; default 1
	Window      time.Duration // over which shares of faults are compared; 0: they are not
	WindowMin   int           // answers in it without which a share says nothing; default 20
	OutShareMax float64       // of the workers may be out for their share of faults, though one always may; default 0.3
	SlowStart   time.Duration // how long a worker that came, or came back, takes to get its whole part; 0: none
	Strict      bool          // the last one standing of a model is put out like any other
	Canaries    bool          // requests of our own try workers that are out, in place of clients'
	StaleAfter  time.Duration // telemetry older than this is unknown; default 5 s
	BusyFor     time.Duration // how long a worker that said 429 or 503 without Retry-After is preferred less; default 1 s
	BusyMax     time.Duration // the longest Retry-After that is believed; default 30 s
	InFlightMax int           // requests in flight per worker; 0: twice the engine's batch slots, none where they are unknown
}

// DefaultOptions returns the defaults as visible values.
func DefaultOptions() Options {
	return Options{
		EjectAfter:  3,
		EjectFor:    time.Second,
		EjectMax:    time.Minute,
		Probes:      1,
		Window:      30 * time.Second,
		WindowMin:   20,
		OutShareMax: 0.3,
		SlowStart:   5 * time.Second,
		StaleAfter:  5 * time.Second,
		BusyFor:     time.Second,
		BusyMax:     30 * time.Second,
	}
}

func (o Options) withDefaults() Options {
	d := DefaultOptions()
	o.EjectAfter, o.Probes, o.WindowMin = above(o.EjectAfter, d.EjectAfter), above(o.Probes, d.Probes), above(o.WindowMin, d.WindowMin)
	o.EjectFor, o.EjectMax, o.StaleAfter = above(o.EjectFor, d.EjectFor), above(o.EjectMax, d.EjectMax), above(o.StaleAfter, d.StaleAfter)
	o.BusyFor, o.BusyMax, o.OutShareMax = above(o.BusyFor, d.BusyFor), above(o.BusyMax, d.BusyMax), above(o.OutShareMax, d.OutShareMax)
	return o
}

// above is v where it is above 0, else the default.
func above[T int | float64 | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

// Fleet is the set of workers in front of which a router stands. It is not synchronised.
type Fleet struct {
	opts        Options
	workers     []*Worker // order of addition; replaced, never changed in place, so that a caller may keep the slice it got
	byID        map[string]*Worker
	slots       []slotState
	incarnation uint64
	ejections   uint64
	begun       time.Time // when its first worker came
}

type slotState uint8

const (
	slotFree      slotState = iota
	slotUsed                // a worker in the fleet has it
	slotForgotten           // its worker is gone; the index still has entries under it
)

// New makes an empty fleet.
func New(o Options) *Fleet {
	return &Fleet{opts: o.withDefaults(), byID: make(map[string]*Worker)}
}

// Add puts a worker into the fleet. Adding an id that is draining, with the same URL, ends its draining: it is the same instance.
// It fails when the id or the URL is taken by a worker that is not draining, or by another id.
func (f *Fleet) Add(id, url string, now time.Time) (*Worker, error) {
	if id == "" || url == "" {
		return nil, fmt.Errorf("worker id %q with URL %q: neither may be empty", id, url)
	}
	if w := f.byID[id]; w != nil {
		if w.draining && w.URL == url {
			w.draining = false
			return w, nil
		}
		return nil, fmt.Errorf("worker %q is in the fleet already, at %s", id, w.URL)
	}
	for _, w := range f.workers {
		if w.URL == url {
			return nil, fmt.Errorf("worker URL %s is in the fleet already, as %q", url, w.ID)
		}
	}
	w := f.instance(id, url, now)
	f.byID[id] = w
	f.workers = append(slices.Clip(f.workers), w)
	return w, nil
}

// instance makes a worker with a slot and an incarnation of its own.
func (f *Fleet) instance(id, url string, now time.Time) *Worker {
	f.incarnation++
	return &Worker{ID: id, URL: url, Slot: f.takeSlot(), Incarnation: f.incarnation, Added: now, rise: f.rise(now), fleet: f}
}

// rise is when the slow start of a worker begins that comes now. A fleet that starts as a whole has none, though its workers answer one after the
// other: who is heard of within SlowStart of its first worker belongs to that start.
func (f *Fleet) rise(now time.Time) time.Time {
	if f.begun.IsZero() {
		f.begun = now
	}
	if now.Sub(f.begun) < f.opts.SlowStart {
		return time.Time{}
	}
	return now
}

func (f *Fleet) takeSlot() int {
	slot := slices.Index(f.slots, slotFree)
	if slot < 0 {
		slot = len(f.slots)
		f.slots = append(f.slots, slotFree)
	}
	f.slots[slot] = slotUsed
	return slot
}

// Drain keeps new requests from a worker; those it has go on. Draining twice is no error.
func (f *Fleet) Drain(id string) error {
	w := f.byID[id]
	if w == nil {
		return fmt.Errorf("no worker %q in the fleet", id)
	}
	w.draining = true
	return nil
}

// Undrain ends a drain: the worker gets requests again, as the instance that it was. Without a drain it changes nothing.
func (f *Fleet) Undrain(id string) error {
	w := f.byID[id]
	if w == nil {
		return fmt.Errorf("no worker %q in the fleet", id)
	}
	w.draining = false
	return nil
}

// Remove takes a worker out of the fleet at once. Its reservations stay valid and release on this instance, never on a successor
// with the same id. Its slot stays taken until SlotFree.
func (f *Fleet) Remove(id string) (*Worker, error) {
	w := f.byID[id]
	if w == nil {
		return nil, fmt.Errorf("no worker %q in the fleet", id)
	}
	delete(f.byID, id)
	f.workers = slices.DeleteFunc(slices.Clone(f.workers), func(o *Worker) bool { return o == w })
	f.retire(w)
	return w, nil
}

// Restart replaces a worker whose engine began anew at the same address: a new incarnation with fresh load, health, telemetry and
// slot, in the same place. Whether it drains and its own cap are the operator's word and stay. The old instance is gone as after Remove.
func (f *Fleet) Restart(id string, now time.Time) (*Worker, error) {
	old := f.byID[id]
	if old == nil {
		return nil, fmt.Errorf("no worker %q in the fleet", id)
	}
	w := f.instance(id, old.URL, now)
	w.draining, w.inFlightMax = old.draining, old.inFlightMax
	f.byID[id] = w
	f.workers = slices.Clone(f.workers)
	f.workers[slices.Index(f.workers, old)] = w
	f.retire(old)
	return w, nil
}

func (f *Fleet) retire(w *Worker) {
	w.gone = true
	f.slots[w.Slot] = slotForgotten
}

// SlotFree says that the index has forgotten a slot whose worker is gone: it may be given to another.
// It does nothing to a slot that is in use.
func (f *Fleet) SlotFree(slot int) {
	if slot >= 0 && slot < len(f.slots) && f.slots[slot] == slotForgotten {
		f.slots[slot] = slotFree
	}
}

// Workers returns the workers in the order they were added, draining ones included. The slice must not be modified.
func (f *Fleet) Workers() []*Worker { return f.workers }

// Lookup returns the present instance of a worker, or nil.
func (f *Fleet) Lookup(id string) *Worker { return f.byID[id] }

// Slots returns how many slots were ever in use at once: every Slot is below it.
func (f *Fleet) Slots() int { return len(f.slots) }

// Ejections returns how often a worker was put out since the start.
func (f *Fleet) Ejections() uint64 { return f.ejections }

// Use goes by other options from now on. Workers that are out stay so for as long as was said.
func (f *Fleet) Use(o Options) { f.opts = o.withDefaults() }

// Options returns the options in force, defaults filled in.
func (f *Fleet) Options() Options { return f.opts }
