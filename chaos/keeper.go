package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// keeper writes down what is needed to look into an anomaly and to make it happen again: the schedule, what was done of it and when, the
// router's log and settings, and for each anomaly the request, its answer, and what workers noted of it.
type keeper struct {
	o      options
	folder string
	stop   func()
	began  time.Time

	mu        sync.Mutex
	anomalies int
	first     string
	firstAt   time.Duration
	done      *os.File
}

// filesKept bounds the anomalies that are written down each in a file of its own, keptBytes what is kept of a request or an answer.
const (
	filesKept = 100
	keptBytes = 1 << 20
)

func newKeeper(o options, stop func()) (*keeper, error) {
	k := &keeper{o: o, folder: o.folder, stop: stop, began: time.Now()}
	if err := os.MkdirAll(o.folder, 0o755); err != nil {
		return nil, err
	}
	var err error
	k.done, err = os.Create(k.path("done.txt"))
	return k, err
}

func (k *keeper) path(name string) string { return filepath.Join(k.folder, name) }

// schedule writes down what is to happen.
func (k *keeper) schedule(plan []fault) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "seed %d, %v, %g requests/s, %g faults/s, sabotage %q\nagain: make chaos SEED=%d MINUTES=%g RATE=%g SABOTAGE=%s\n\n",
		k.o.seed, k.o.total, k.o.rate, k.o.faults, k.o.sabotage, k.o.seed, k.o.total.Minutes(), k.o.rate, k.o.sabotage)
	for _, f := range plan {
		fmt.Fprintln(&b, f)
	}
	return os.WriteFile(k.path("schedule.txt"), b.Bytes(), 0o644)
}

// applied notes that a fault was done.
func (k *keeper) applied(f fault) {
	k.mu.Lock()
	defer k.mu.Unlock()
	fmt.Fprintf(k.done, "%s after %.3fs: %v\n", time.Now().UTC().Format("15:04:05.000"), time.Since(k.began).Seconds(), f)
}

func (k *keeper) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.anomalies
}

// anomaly writes one down.
func (k *keeper) anomaly(a anomaly) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.anomalies++
	if k.anomalies == 1 {
		k.first, k.firstAt = a.what, time.Since(k.began)
	}
	if k.o.first {
		k.stop()
	}
	fmt.Fprintf(k.done, "%s ANOMALY %d: %s\n", time.Now().UTC().Format("15:04:05.000"), k.anomalies, a.what)
	if k.anomalies > filesKept {
		return
	}
	fmt.Fprintf(k.o.out, "ANOMALY %d: %s\n", k.anomalies, a.what)
	if a.res != nil {
		fmt.Fprintf(k.o.out, "  %v\n", a.res)
	}
	os.WriteFile(k.path(fmt.Sprintf("anomaly-%03d.txt", k.anomalies)), a.text(), 0o644)
}

// text is all that is known of an anomaly.
func (a anomaly) text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n\n", a.what)
	for _, t := range a.attempts {
		fmt.Fprintf(&b, "%s came to %s (mode %s, api %d, stream %t, usage %t, model %s), over %t", time.Unix(0, t.At).UTC().Format("15:04:05.000"), t.Tag, t.Mode, t.API, t.Stream, t.Usage, t.Model, t.over)
		if t.over {
			fmt.Fprintf(&b, " at %s, all sent %t", time.Unix(0, t.overAt).UTC().Format("15:04:05.000"), t.Sent)
		}
		fmt.Fprintf(&b, " %s\n", t.Bad)
	}
	if a.res == nil {
		return b.Bytes()
	}
	r := a.res
	fmt.Fprintf(&b, "\nsent %s, over %s: %v\n%v\n", r.began.UTC().Format("15:04:05.000"), r.end.UTC().Format("15:04:05.000"), r, r.header)
	fmt.Fprintf(&b, "\n---- request\n%s\n---- answer\n%s\n", clipped(r.r.wire()), clipped(r.body))
	for _, t := range a.attempts {
		fmt.Fprintf(&b, "---- what %s says to it\n%s\n", t.Tag, clipped([]byte(joined(t.Mode.says(r.r.ask, t.wanted(), t.Tag).pieces))))
	}
	return b.Bytes()
}

func clipped(b []byte) []byte { return b[:min(len(b), keptBytes)] }

// close ends the writing; where nothing was found there is nothing to keep.
func (k *keeper) close() {
	k.done.Close()
	if k.anomalies == 0 && !k.o.keep {
		os.RemoveAll(k.folder)
	}
}
