// Package traces reads what was asked of a fleet, from files of several forms, and makes such traffic up.
//
//	t, err := traces.Open("conversations.jsonl.gz", traces.Options{}) // the form is told by the content
//	r, err := t.Reader(seed)                                          // a new pass; a synthetic trace depends on the seed
//	var q traces.Request
//	for r.Next(&q) == nil { ... }                                     // io.EOF at the end
//
// A prompt is named, not quoted: its blocks have names, and two prompts share a prefix exactly as far as their names agree. Files are
// streamed; Trace.Load keeps one in memory, where it has room, for the next pass.
package traces

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/prefix"
)

// Request is one request of a trace.
type Request struct {
	// At is when it came, since the start of the trace. A request that Follows came Think after the end of the one before it in its
	// session, which stands just before it in the trace.
	At      time.Duration
	Follows bool
	Think   time.Duration
	// Session is the FNV-1a hash of the session's id; 0 where there are no sessions.
	Session uint64
	// Tenant is who asks, "" where nobody is named.
	Tenant string
	// Prompt and Output are lengths in tokens.
	Prompt, Output int
	// Blocks name the full blocks of the prompt, and of the answer where the trace knows them, as runs. Read only.
	Blocks []Run
	// Line of the file, from 1; 0 in a synthetic trace.
	Line int
}

// Run is the names First, First+1, ..., Count of them.
type Run struct {
	First uint64
	Count int32
}

// Keys appends the keys of the blocks to into.
func (r *Request) Keys(into []prefix.Key) []prefix.Key {
	for _, run := range r.Blocks {
		for i := range uint64(run.Count) {
			into = append(into, prefix.Key(mix(run.First+i)))
		}
	}
	return into
}

// Common is how many leading blocks the request shares with one of those blocks. Runs that are cut differently may hide some.
func (r *Request) Common(with []Run) (blocks int) {
	for i, run := range r.Blocks {
		if i == len(with) || with[i].First != run.First {
			break
		}
		blocks += int(min(run.Count, with[i].Count))
		if run.Count != with[i].Count {
			break
		}
	}
	return blocks
}

// mix is a bijection that spreads names over 64 bits (Stafford's variant 13 of MurmurHash3's finaliser).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// appendName adds a name behind the runs.
func appendName(runs []Run, name uint64) []Run {
	if n := len(runs) - 1; n >= 0 && runs[n].First+uint64(runs[n].Count) == name {
		runs[n].Count++
		return runs
	}
	return append(runs, Run{First: name, Count: 1})
}

// Reader gives the requests of one pass in order. Open-loop ones are in order of At, sessions stand one after the other.
type Reader interface {
	// Next fills r anew; its Blocks are the caller's. The error is io.EOF at the end, or a *LineError.
	Next(r *Request) error
	Close() error
}

// Trace is where requests come from.
type Trace struct {
	// Name is the file's, or what a synthetic trace was asked for by; Form is one of Forms.
	Name, Form string
	// BlockTokens is the tokens of one named block.
	BlockTokens int
	// Sessions says that requests follow each other: the trace is replayed closed loop.
	Sessions bool
	// Untimed says that sessions have no times of their own: so many run at once.
	Untimed bool
	// Jitter is the grain of the time stamps: requests came some time within it.
	Jitter time.Duration

	open func(seed uint64) (Reader, error)
	// skipped counts bad lines of the latest pass.
	skipped *int
}

// Forms are the kinds of traces, and how each is recognised.
var Forms = []struct{ Name, What string }{
	{"mooncake", `JSON lines with "timestamp" (ms), "input_length", "output_length" and "hash_ids" (512-token blocks)`},
	{"sessions", `JSON lines with "requests", each with "in", "out", "think_time" and "hash_ranges"; replayed closed loop`},
	{"azure", `CSV with TIMESTAMP,ContextTokens,GeneratedTokens`},
	{"texts", `JSON lines with "timestamp" (us), "input", "output" and "session_id"`},
	{"decisions", `a router's own decision log (serve --decision-log)`},
}

// Synthetic says that the trace is made up: each seed makes another.
func (t *Trace) Synthetic() bool { return t.Form == synthetic }

// Reader begins a pass. Sessions that have no times of their own come in an order that is the seed's, and think a little longer or shorter;
// seed 0 takes them as they stand.
func (t *Trace) Reader(seed uint64) (Reader, error) {
	r, err := t.open(seed)
	if err == nil && seed != 0 && t.Untimed && !t.Synthetic() {
		r = newShuffle(r, seed)
	}
	return r, err
}

// Skipped is the number of bad lines that the latest pass left out.
func (t *Trace) Skipped() int {
	if t.skipped == nil {
		return 0
	}
	return *t.skipped
}

// LineError is a line that is no request of the trace's form.
type LineError struct {
	Name string
	Line int
	Err  error
}

func (e *LineError) Error() string {
	return fmt.Sprintf("%s, line %d: %v (--skip-bad leaves such lines out)", e.Name, e.Line, e.Err)
}

func (e *LineError) Unwrap() error { return e.Err }

// requestBytes is what a request takes in memory beside its runs, runBytes one of those.
const (
	requestBytes = 112
	runBytes     = 16
)

// Load reads the trace into memory, so that later passes need not parse it again, unless it takes more than bytesMax: then the trace
// stays in its file and is streamed. A trace that depends on the seed is left as it is.
func (t *Trace) Load(bytesMax int64) error {
	if t.Synthetic() {
		return nil
	}
	r, err := t.open(0)
	if err != nil {
		return err
	}
	defer r.Close()
	var all []Request
	var bytes int64
	for {
		var q Request
		if err := r.Next(&q); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		if bytes += memory(&q); bytes > bytesMax {
			return nil
		}
		all = append(all, q)
	}
	t.open = func(uint64) (Reader, error) { return &list{all: all}, nil }
	return nil
}

// list is a trace in memory.
type list struct {
	all  []Request
	next int
}

func (l *list) Next(r *Request) error {
	if l.next == len(l.all) {
		return io.EOF
	}
	*r = l.all[l.next]
	l.next++
	return nil
}

func (l *list) Close() error { return nil }

// Recorded is a trace of requests as they came, in order of At; none of them Follows another.
func Recorded(name string, blockTokens int, all []Request) *Trace {
	return &Trace{Name: name, Form: "recorded", BlockTokens: blockTokens, open: func(uint64) (Reader, error) { return &list{all: all}, nil }}
}

// formNames lists what is known, for errors.
func formNames() string {
	var b strings.Builder
	for _, f := range Forms {
		fmt.Fprintf(&b, "\n  %-10s %s", f.Name, f.What)
	}
	return b.String()
}

// hash is FNV-1a.
func hash(text string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := 0; i < len(text); i++ {
		h = (h ^ uint64(text[i])) * 0x100000001b3
	}
	return h
}

// Map changes every request of all passes to come.
func (t *Trace) Map(change func(*Request)) {
	open := t.open
	t.open = func(seed uint64) (Reader, error) {
		r, err := open(seed)
		return &mapped{r, change}, err
	}
}

type mapped struct {
	Reader
	change func(*Request)
}

func (m *mapped) Next(r *Request) error {
	err := m.Reader.Next(r)
	if err == nil {
		m.change(r)
	}
	return err
}
