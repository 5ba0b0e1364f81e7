// Package memory keeps the process within the memory that it may have: it finds the limit, tells Go's collector of it, has caches give up
// what they hold when little is left, and says when large requests had better not come in.
//
//	w := memory.New(memory.Options{Max: 2 << 30, Sheds: []memory.Shed{{Name: "index", Give: index.Shed, Restore: index.Restore}}})
//	go w.Run(ctx)
//	w.State().Tight                // refuse large bodies
//
// Caches give before requests do. What cannot be collected counts, as of the last collection: what is only garbage is the collector's to deal
// with, which works the harder the nearer the limit is, and would make any program look full.
package memory

import (
	"context"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// Shares of Limit.
const (
	// shedAt is from where caches give, until no more than shedUntil is used; restoreBelow is where they may grow again.
	shedAt, shedUntil, restoreBelow = 0.90, 0.80, 0.70
	// tightAt is from where large bodies are refused, once no cache has anything left, until no more than shedAt is used.
	tightAt = 0.95
	// goShare is the collector's part of the most that the process may have: sockets' buffers in the kernel and the program's own pages count
	// in a control group too.
	goShare = 0.9
	// lookEvery is how often it is looked.
	lookEvery = time.Second
)

// Shed is a cache that can give memory back.
type Shed struct {
	Name    string
	Give    func() (freed int64) // bytes; 0: it has nothing left to give
	Restore func()               // it may grow to its bound again; nil: it need not be told
}

// Options of a Watch.
type Options struct {
	Max   int64 // bytes that the process may have; 0: GOMEMLIMIT where that is set, else what its control groups allow, else no limit
	Sheds []Shed
	Tight func(limit, used int64) // told when large bodies must stay out; with 0 when they may come again. May be nil
	Log   *slog.Logger            // nil is silent
}

// Watch looks after the process's memory. Its methods may be called from any goroutine.
type Watch struct {
	o      Options
	limit  int64 // 0: none
	source string
	used   func() int64

	mu       sync.Mutex
	shedding bool // over shedAt, and not down to shedUntil yet
	shed     bool // something was given up and is not restored
	tight    bool
	gave     []Gave
}

// Gave is what a cache gave up since the start.
type Gave struct {
	Name  string `json:"name"`
	Times uint64 `json:"times"`
	Bytes int64  `json:"bytes"`
}

// State is how memory stands.
type State struct {
	Limit  int64  `json:"limit"`  // bytes that Go's collector keeps to; 0: none
	Source string `json:"source"` // where it comes from
	Used   int64  `json:"used"`   // bytes that cannot be collected
	Tight  bool   `json:"tight"`  // large bodies are refused
	Gave   []Gave `json:"shed"`
}

// New finds the limit and sets it.
func New(o Options) *Watch {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	w := &Watch{o: o, used: inUse}
	for _, s := range o.Sheds {
		w.gave = append(w.gave, Gave{Name: s.Name})
	}
	var set int64
	if w.limit, set, w.source = limitOf(o.Max); set > 0 {
		debug.SetMemoryLimit(set)
	}
	return w
}

// limitOf is what Go's collector is to keep to, what it has yet to be told, 0 nothing, and where it comes from.
func limitOf(most int64) (limit, set int64, source string) {
	if most > 0 {
		limit = int64(goShare * float64(most))
		return limit, limit, "memory_max"
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		if own := debug.SetMemoryLimit(-1); own < math.MaxInt64 {
			return own, 0, "GOMEMLIMIT"
		}
		return 0, 0, "GOMEMLIMIT says off"
	}
	if most, file := cgroupLimit(os.DirFS("/")); most > 0 {
		limit = int64(goShare * float64(most))
		return limit, limit, file
	}
	return 0, 0, "no limit was found"
}

// Run looks every second until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	if w.limit == 0 {
		w.o.Log.Info("memory is not limited (setting memory_max, GOMEMLIMIT or a control group would)")
		return nil
	}
	w.o.Log.Info("memory is limited", "limit", w.limit, "from", w.source)
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			w.look()
		}
	}
}

// look takes one step: caches give, one after the other, until enough is free; then they may grow again, long after.
func (w *Watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	used := w.used()
	if w.share(used) >= shedAt {
		w.shedding = true
	}
	for i := 0; w.shedding && i < len(w.o.Sheds); {
		if freed := w.give(i, used); freed == 0 {
			i++
			continue
		}
		runtime.GC() // what was given up is garbage until then, and so not seen to be free
		used = w.used()
		w.shedding = w.share(used) > shedUntil
	}
	if w.share(used) <= shedUntil {
		w.shedding = false
	}
	if w.shed && w.share(used) < restoreBelow {
		w.shed = false
		for _, s := range w.o.Sheds {
			if s.Restore != nil {
				s.Restore()
			}
		}
		w.o.Log.Info("memory is at hand again: caches may grow to their bounds", "used", used, "limit", w.limit)
	}
	w.tell(used)
}

func (w *Watch) share(used int64) float64 { return float64(used) / float64(w.limit) }

func (w *Watch) give(i int, used int64) (freed int64) {
	s := w.o.Sheds[i]
	if freed = s.Give(); freed <= 0 {
		return 0
	}
	w.shed = true
	w.gave[i].Times++
	w.gave[i].Bytes += freed
	w.o.Log.Warn("memory is short: a cache gave up what it held (setting memory_max)", "cache", s.Name, "freed", freed, "used", used, "limit", w.limit)
	return freed
}

// tell has large bodies kept out, or let in again.
func (w *Watch) tell(used int64) {
	tight := w.share(used) >= tightAt || w.tight && w.share(used) > shedAt
	if tight && !w.tight {
		w.o.Log.Error("memory is nearly used up and no cache has anything left to give: large request bodies are refused (setting memory_max)", "used", used, "limit", w.limit)
	}
	if w.tight = tight; w.o.Tight == nil {
		return
	}
	if tight {
		w.o.Tight(w.limit, used)
		return
	}
	w.o.Tight(0, 0)
}

// Limit is the bytes that Go's collector keeps to; 0: none.
func (w *Watch) Limit() int64 { return w.limit }

// State is how memory stands now.
func (w *Watch) State() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return State{Limit: w.limit, Source: w.source, Used: w.used(), Tight: w.tight, Gave: append([]Gave{}, w.gave...)}
}

// inUse is the bytes of this process that cannot be collected, by the runtime's own account (package runtime/metrics): what was live at the
// last collection, and everything that is no heap.
func inUse() int64 {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	used := int64(samples[0].Value.Uint64() + samples[1].Value.Uint64())
	for _, s := range samples[2:] {
		used -= int64(s.Value.Uint64())
	}
	return used
}
