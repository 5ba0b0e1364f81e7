package proxy

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/admission"
	"github.com/warmpath/warmpath/internal/choice"
	"github.com/warmpath/warmpath/internal/complaint"
	"github.com/warmpath/warmpath/internal/exact"
	"github.com/warmpath/warmpath/internal/facts"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/header"
	"github.com/warmpath/warmpath/internal/inflight"
	"github.com/warmpath/warmpath/internal/intake"
	"github.com/warmpath/warmpath/internal/life"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/upstream"
)

// exchange is one client request, from its first byte to its settlement. When it is over its memory serves the next one.
type exchange struct {
	p *Proxy
	state

	// What the request before may have left something in; each is begun anew where it is first used.
	req   llmapi.Request
	obs   llmapi.Stream
	chain prefix.Chain
	known exact.Found
	one   attempt // the first
	entry inflight.Entry
	room  room
}

// room is memory alone.
type room struct {
	body   []byte // for a short body,
	reply  []byte // and a short reply
	in     header.Fields
	sent   header.Fields
	answer header.Fields
	gaps   []float32
	tried  []*fleet.Worker
	rows   []sched.Row
}

// state is all that begins anew with a request.
type state struct {
	w   http.ResponseWriter // &down
	r   *http.Request
	in  header.Fields // of r
	ctx context.Context
	o   *Options

	down  intake.Download
	share intake.Share // of Proxy.bodies

	api     llmapi.API
	dialect llmapi.Dialect
	kind    intake.Kind  // what the path means
	unread  bool         // the client's body is not at its end
	begun   bool         // it was asked for
	body    []byte       // as it came, unless taken holds it in a file
	taken   *intake.Body // a body that is not plain JSON
	text    []byte       // the body in the clear, as req points into it
	packed  bool         // body is text compressed
	unnamed func(models string) error
	scanned bool // req holds what text says
	want    sched.Request
	guest   admission.Guest
	wait    gate.Wait
	pick    choice.Pick

	try      *attempt // the one under way
	left     int      // of those tried, workers that left: they are no retries
	held     *complaint.Reply
	last     error // what the last attempt failed with
	poisoned bool  // it broke a fresh connection after being sent whole, once
	events   bool  // the answer is an event stream
	flushed  bool  // response headers have left
	sent     int64 // body bytes that reached the client's connection
	spent    bool  // somebody else may still use the memory: it serves no other request

	keyed     time.Time // when the key step began, until the first decision takes it in
	lastToken time.Time
	aborted   bool // the client's connection is broken on purpose
	facts     facts.Facts
}

func newExchange(p *Proxy) *exchange {
	x := &exchange{p: p}
	x.room.body = make([]byte, roomBytesMax)
	x.one.End = x.one.Life.End
	return x
}

func (p *Proxy) begin(w http.ResponseWriter, r *http.Request) *exchange {
	x := p.pool.Get().(*exchange)
	x.start(w, r)
	x.ctx = p.hooks.Inside.Enter(&x.entry, x.ctx, x.facts.ID, x.facts.Path, x.facts.Started)
	p.retries.Earn()
	return x
}

func (x *exchange) start(w http.ResponseWriter, r *http.Request) {
	p := x.p
	x.r, x.ctx, x.w, x.o = r, r.Context(), &x.down, p.o.Load()
	x.down.Begin(w, x.o.ClientTimeout)
	x.in = intake.RequestFields(w, r, x.room.in)
	x.share.Of, x.share.BytesMax, x.share.FilesMax = &p.bodies, x.o.BodiesBytesMax, x.o.SpoolMax
	x.want.Tried, x.want.Rows = x.room.tried[:0], x.room.rows[:0]
	f := &x.facts
	f.ID, f.Method, f.Path, f.Started, f.Gaps, f.Outcome = intake.RequestID(x.in), r.Method, intake.Clip(r.URL.Path), p.now(), x.room.gaps[:0], outcome.Failed
	f.Trace = p.hooks.Tracer.Begin(x.in)
}

// attempt is one worker's turn at the request.
type attempt struct {
	gate.Attempt
	life.Turn
	request   upstream.Request
	entering  sync.WaitGroup // of a long prompt into the index
	withholds bool           // usage was asked for on the client's behalf
	good      bool           // the worker answered well
	settled   bool
}

// attempt returns a new one.
func (x *exchange) attempt() *attempt {
	if x.facts.Tries > 0 {
		a := new(attempt)
		a.End = a.Life.End
		return a
	}
	x.one = attempt{Turn: life.Turn{End: x.one.End}}
	return &x.one
}
