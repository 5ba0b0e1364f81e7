// Package trace carries a request's place in a distributed trace from its client, through the router, to the engine: W3C Trace Context in
// and out (https://www.w3.org/TR/trace-context/), who is sampled, and when each step began. What becomes of it at the end is for others.
//
//	t := trace.New(trace.Options{Sample: 0.1, FollowClients: true})
//	c := t.Begin(fields)   // joins the client's trace, or begins one
//	parent := c.Next()     // traceparent of the next try: the engine's spans hang below it
//	c.Heard(200)
//	c.Tried("gpu-1", began, time.Now, err)
//
// A nil Tracer makes Contexts that do nothing and allocate nothing.
package trace

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/header"
	"github.com/warmpath/warmpath/internal/intake"
)

// ID names a trace, and SpanID a step of one.
type (
	ID     [16]byte
	SpanID [8]byte
)

// Zero says that it names nothing.
func (s SpanID) Zero() bool { return s == SpanID{} }

// String is the id in lower-case hex, as traceparent has it.
func (i ID) String() string { return hex.EncodeToString(i[:]) }

// Options say who is sampled.
type Options struct {
	Sample        float64 // share of the traces, from 0 to 1, by their id, so that all who go by it agree
	FollowClients bool    // a request that comes with a trace is sampled as its client decided
}

// Tracer begins Contexts. Its methods may be called from any goroutine.
type Tracer struct {
	follow bool
	below  uint64 // trace ids whose last 63 bits are less are sampled
	all    bool
}

// New makes a Tracer.
func New(o Options) *Tracer {
	return &Tracer{follow: o.FollowClients, below: uint64(min(max(o.Sample, 0), 1) * math.MaxInt64), all: o.Sample >= 1}
}

// Bits of the flags of a traceparent.
const (
	flagSampled = 1
	flagRandom  = 2 // the trace id is random, as its maker says
)

// Context is where one request stands in its trace. The zero value is one that is not traced.
type Context struct {
	Trace   ID
	Parent  SpanID // the client's span; zero where it has none
	Span    SpanID // the request's own
	Sampled bool
	State   string // tracestate, passed on as it came; "" none
	Read    time.Time
	Keyed   time.Time
	Tries   []Try // of a sampled request

	on    bool
	flags byte
}

// Try is one worker's turn.
type Try struct {
	Span         SpanID
	Worker       string
	Began, Ended time.Time
	Head         bool // its answer began
	Status       int  // with this
	Failed       bool
	Class        string // of an error of ours, as in warmpath_upstream_errors_total
}

// Begin joins the trace that a request's fields name, or begins one where they name none, or none that is one.
func (t *Tracer) Begin(in header.Fields) (c Context) {
	if t == nil {
		return c
	}
	c.on, c.Span = true, newSpan()
	if parent := single(in, intake.HeaderTrace); intake.ValidTrace(parent) {
		var flags [1]byte
		hex.Decode(c.Trace[:], []byte(parent[3:35])) // ValidTrace has seen that they are hex
		hex.Decode(c.Parent[:], []byte(parent[36:52]))
		hex.Decode(flags[:], []byte(parent[53:55]))
		c.flags, c.State = flags[0]&flagRandom, state(in)
		if c.Sampled = t.follow && flags[0]&flagSampled != 0; t.follow {
			return c
		}
	} else {
		binary.BigEndian.PutUint64(c.Trace[:8], rand.Uint64())
		binary.BigEndian.PutUint64(c.Trace[8:], rand.Uint64()|1) // never all zero
		c.flags = flagRandom
	}
	c.Sampled = t.all || binary.BigEndian.Uint64(c.Trace[8:])>>1 < t.below
	return c
}

// single is the value of a field that stands once; "" else.
func single(in header.Fields, name string) (value string) {
	for i := range in {
		if in[i].Name == name {
			if value != "" {
				return ""
			}
			value = in[i].Value
		}
	}
	return value
}

func newSpan() (s SpanID) {
	binary.BigEndian.PutUint64(s[:], rand.Uint64()|1)
	return s
}

// Next is the traceparent for the next try, "" where nothing is traced. Engines of a request that is not sampled are told so.
func (c *Context) Next() string {
	if !c.on {
		return ""
	}
	span, flags := newSpan(), c.flags
	if c.Sampled {
		flags |= flagSampled
		c.Tries = append(c.Tries, Try{Span: span})
	}
	text := [55]byte{2: '-', 35: '-', 52: '-'}
	copy(text[:], "00")
	hex.Encode(text[3:], c.Trace[:])
	hex.Encode(text[36:], span[:])
	hex.Encode(text[53:], []byte{flags})
	return string(text[:])
}

// Admitted notes that the steps read and key are behind the request; the first time counts.
func (c *Context) Admitted(keyed time.Time, now func() time.Time) {
	if c.Sampled && c.Keyed.IsZero() {
		c.Read, c.Keyed = keyed, now()
	}
}

// Heard notes that the answer to the try under way began.
func (c *Context) Heard(status int) {
	if t := c.last(); t != nil {
		t.Head, t.Status = true, status
	}
}

// Tried notes the end of the try under way. Of an error its class is kept, where it has one.
func (c *Context) Tried(worker string, began time.Time, now func() time.Time, err error) {
	t := c.last()
	if t == nil {
		return
	}
	t.Worker, t.Began, t.Ended = worker, began, now()
	if err == nil {
		return
	}
	t.Failed = true
	var of interface{ Class() string }
	if errors.As(err, &of) {
		t.Class = of.Class()
	}
}

func (c *Context) last() *Try {
	if len(c.Tries) == 0 {
		return nil
	}
	return &c.Tries[len(c.Tries)-1]
}

// Bounds of tracestate: members by its specification, and bytes of all of it, of which that asks for 512.
const (
	stateMembersMax = 32
	stateBytesMax   = 2048
)

// state is the tracestate of a request; "" where it has none, or one that is not of the form key=value,key=value.
func state(in header.Fields) string {
	var all string
	for i := range in {
		if in[i].Name != intake.HeaderState {
			continue
		}
		if all != "" {
			all += ","
		}
		if all += in[i].Value; len(all) > stateBytesMax {
			return ""
		}
	}
	members := 0
	for member := range strings.SplitSeq(all, ",") {
		if member = strings.Trim(member, " \t"); member == "" {
			continue
		}
		key, value, ok := strings.Cut(member, "=")
		if members++; !ok || members > stateMembersMax || !isKey(key) || !isValue(value) {
			return ""
		}
	}
	if members == 0 {
		return ""
	}
	return all
}

func isKey(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("_-*/@", rune(c)) {
			return false
		}
	}
	return s != "" && len(s) <= 256
}

func isValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '=' {
			return false
		}
	}
	return s != "" && len(s) <= 256
}
