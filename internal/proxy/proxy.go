// Package proxy is the HTTP data plane: it reads a request, has a worker chosen for it, forwards it, copies the answer back byte
// for byte and learns from what it saw in passing. One request is one exchange, read in call order:
//
//	read    bound and take in the body, scan what routing needs      read.go
//	key     turn the prompt into block keys, estimate its cost       key.go
//	admit   choose and reserve, in one critical section              gate.go
//	send    forward; retry elsewhere only while nothing was answered send.go
//	relay   copy the answer, observe tokens and usage                relay.go, stream.go
//	settle  release, learn, count, log                               settle.go
//
// What metrics, logs and the decision log want to know reaches them through Hooks, wired where the program is put together.
package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/admission"
	"github.com/warmpath/warmpath/internal/choice"
	"github.com/warmpath/warmpath/internal/exact"
	"github.com/warmpath/warmpath/internal/facts"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/inflight"
	"github.com/warmpath/warmpath/internal/intake"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/models"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/prompt"
	"github.com/warmpath/warmpath/internal/refusal"
	"github.com/warmpath/warmpath/internal/render"
	"github.com/warmpath/warmpath/internal/trace"
	"github.com/warmpath/warmpath/internal/upstream"
)

// Options are the data plane's settings; DefaultOptions has their defaults.
type Options struct {
	BodyBytesMax   int64                           // a longer request body is 413
	ReplyScanMax   int                             // bytes of a whole (not streamed) reply that are kept to read its usage; longer ones are not metered
	RetriesMax     int                             // other workers tried after the first
	ConnectTimeout time.Duration                   // to a worker
	HeaderTimeout  time.Duration                   // until a worker's response headers; 0 = none, prefill is silent
	IdleGap        time.Duration                   // between two pieces of a worker's answer; 0 = none
	ClientTimeout  time.Duration                   // of a client that stops sending its body or reading its answer; 0 = none
	BodiesBytesMax int64                           // all request bodies in memory together; beyond it the answer is 503; 0 = no limit
	InjectUsage    bool                            // ask engines for the usage of streams, and withhold the event the client did not ask for
	ExplainHeaders bool                            // answer with X-Warmpath-Decision; tells clients what others have cached
	ResponseIDsMax int                             // responses and conversations whose worker is remembered
	ExcerptBytes   int                             // of how prompts begin, for facts.Facts; 0 = none
	SessionsByUser bool                            // take `user` and metadata.user_id as a session hint when nothing better is there
	SpoolBytes     int64                           // a form or raw body beyond it waits in a file; 0: never
	SpoolDir       string                          // where; "" is the system's folder for temporary files
	SpoolMax       int64                           // all such files together; beyond it the answer is 503; 0 = no limit
	CORS           intake.CORS                     // pages of other origins that may use the data port
	Prices         models.Prices                   // what tenants' requests cost
	EnginePriority bool                            // tell engines that heed one the class as a priority
	TellPosition   time.Duration                   // how often clients that wait for a stream are told how they stand; 0: never
	Unready        func() bool                     // whether /readyz fails though requests are taken; nil: never
	Salt           func(tenant, own string) string // of a tenant's prompts, the client's own, "" none, in it; nil: tenants share caches
}

// DefaultOptions returns the settings of a router that was given none.
func DefaultOptions() Options {
	return Options{
		BodyBytesMax: 64 << 20, ReplyScanMax: 8 << 20, RetriesMax: 2, ConnectTimeout: 2 * time.Second, IdleGap: 5 * time.Minute,
		ClientTimeout: time.Minute, BodiesBytesMax: 2 << 30,
		InjectUsage: true, ResponseIDsMax: 1_000_000, SessionsByUser: true,
		SpoolBytes: 4 << 20,
	}
}

// Hooks are the data plane's effects on the rest of the program. All are called without a lock held; nil ones are left out.
type Hooks struct {
	Settled       func(*facts.Facts)                             // once a request, when it is over
	Decided       func(d time.Duration)                          // each placement: key and admit together
	Retried       func(moved bool)                               // another worker is tried; moved: the one before was leaving the fleet
	UpstreamError func(worker *fleet.Worker, class string)       // a worker failed, by class
	Ejected       func(worker *fleet.Worker, why fleet.Ejection) // it was put out
	Tracer        *trace.Tracer                                  // nil: requests are in no traces of ours
	Inside        *inflight.Book                                 // who is inside, for those who look; nil: nobody does
	// Find tells what is known exactly of a prompt, in the step key.
	Find func(ctx context.Context, ask render.Ask, into *exact.Found) bool
}

// Proxy is the data plane's handler.
type Proxy struct {
	o       atomic.Pointer[Options] // each request goes by those of when it came
	gate    *gate.Gate
	desk    *admission.Desk
	choice  *choice.Desk // nil: no model stands for others
	keyer   *prompt.Keyer
	hooks   Hooks
	log     *slog.Logger
	owners  *gate.Owners
	retries gate.Retries
	now     func() time.Time
	running atomic.Int64
	drain   atomic.Bool
	bodies  intake.Memory // all request bodies inside
	pool    sync.Pool
}

// New makes the data plane over a gate.
func New(o Options, d *admission.Desk, c *choice.Desk, g *gate.Gate, k *prompt.Keyer, h Hooks, log *slog.Logger, now func() time.Time) *Proxy {
	p := &Proxy{desk: d, choice: c, gate: g, keyer: k, hooks: h, log: log, owners: gate.NewOwners(o.ResponseIDsMax), now: now}
	p.Use(o)
	p.pool.New = func() any { return newExchange(p) }
	return p
}

// Use goes by other settings for the requests that come from now on, in all but ResponseIDsMax.
func (p *Proxy) Use(o Options) { p.o.Store(&o) }

// Running is how many requests are inside.
func (p *Proxy) Running() int { return int(p.running.Load()) }

// Held are all request bodies inside, and who made which response.
func (p *Proxy) Held() (*intake.Memory, *gate.Owners) { return &p.bodies, p.owners }

// StartDrain makes the proxy unready: requests that come from now on are refused, those inside go on.
func (p *Proxy) StartDrain() { p.drain.Store(true) }

// ErrDrainLimit is the cancel cause of a request that is still running at the drain limit.
var ErrDrainLimit = errors.New("the router is shutting down and its drain limit is reached (setting drain_timeout)")

// ServeHTTP serves the data port: health, models, and the engines' inference paths.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.o.Load().CORS.Allow(w, r)
	path := r.URL.Path
	kind, passes := intake.Way(path)
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case path == "/healthz":
		writeText(w, http.StatusOK, "ok\n")
	case path == "/readyz":
		p.serveReady(w)
	case r.Method == http.MethodConnect || r.Method == http.MethodTrace: // a tunnel, and an echo of headers that may hold a worker's key
		w.Header().Set("Allow", allowedMethods)
		turnAway(w, r, &failure{status: http.StatusMethodNotAllowed, kind: llmapi.KindInvalid, message: "the method " + r.Method + " is not passed on"})
	case !passes:
		turnAway(w, r, &failure{status: http.StatusNotFound, kind: llmapi.KindNotFound, message: "no such path: " + path + "; this router serves /v1/..., the engines' own inference paths (docs/ENGINES.md), /healthz and /readyz"})
	case r.Method == http.MethodOptions:
		w.Header().Set("Allow", allowedMethods)
		w.WriteHeader(http.StatusNoContent)
	case reads && (path == "/v1/models" || strings.HasPrefix(path, "/v1/models/")):
		p.serveModels(w, r)
	default:
		p.serve(w, r, kind)
	}
}

// turnAway answers what is no request to any model.
func turnAway(w http.ResponseWriter, r *http.Request, f *failure) {
	w.Header().Set(intake.HeaderRequestID, intake.RequestID(intake.RequestFields(w, r, nil)))
	f.writeUnread(w, r, llmapi.OpenAI, false)
}

// allowedMethods are those with a meaning here; engines may know others, which pass.
const allowedMethods = "GET, HEAD, POST, DELETE, OPTIONS"

// serve is the walk of one request.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request, kind intake.Kind) {
	x := p.begin(w, r)
	x.kind = kind
	p.running.Add(1)
	defer p.end(x)
	err := x.walk()
	if err == nil {
		return
	}
	var f *failure
	if !errors.As(err, &f) {
		f = &failure{status: http.StatusInternalServerError, kind: llmapi.KindUpstream, message: err.Error(), outcome: outcome.Failed}
	}
	x.fail(f)
}

func (x *exchange) walk() error {
	x.api, x.dialect = llmapi.Route(x.r.Method, x.r.URL.Path)
	x.unread = x.r.ContentLength != 0
	if x.p.drain.Load() {
		x.w.Header().Set("Connection", "close")
		return &failure{status: http.StatusServiceUnavailable, kind: llmapi.KindOverloaded, message: "the router is shutting down and takes no new requests", retryAfter: time.Second, outcome: outcome.Failed}
	}
	if c, ok := x.down.ResponseWriter.(interface{ Surplus() int }); ok && c.Surplus() > 0 {
		return &failure{status: http.StatusServiceUnavailable, kind: llmapi.KindOverloaded, message: refusal.Crowded(c.Surplus()), retryAfter: time.Second, outcome: outcome.NoWorker}
	}
	if err := x.enter(); err != nil {
		return err
	}
	if err := x.read(); err != nil {
		return err
	}
	if err := x.urge(); err != nil {
		return err
	}
	if err := x.key(); err != nil {
		return err
	}
	for {
		err := x.admit()
		if err == nil {
			if err = x.send(); err == nil {
				return nil
			}
			if x.gaveWay() || x.again(err) {
				continue
			}
		}
		if !x.elsewhere(err) {
			return x.giveUp(err)
		}
	}
}

// end settles on every way out, a panic included, which becomes a 500 and a log line without the request's content.
func (p *Proxy) end(x *exchange) {
	defer p.running.Add(-1)
	if v := recover(); v != nil && v != http.ErrAbortHandler {
		p.log.Error("panic while serving a request", "request", x.facts.ID, "path", x.facts.Path, "panic", v, "stack", string(debug.Stack()))
		x.fail(&failure{status: http.StatusInternalServerError, kind: llmapi.KindUpstream, message: "the router failed inside", outcome: outcome.Failed})
	}
	abort := x.aborted
	x.share.Release()
	if x.taken != nil {
		x.taken.Close()
	}
	x.settle()
	x.spent = !x.entry.Leave() || x.spent
	if abort {
		x.down.Break(x.r, x.events)
		panic(http.ErrAbortHandler) // the server then closes the connection without a clean end
	}
	if x.spent {
		return
	}
	if !x.down.Ours() {
		x.room.in = x.in
	}
	x.known.Forget()
	x.room.gaps, x.room.tried, x.room.rows = x.facts.Gaps, x.want.Tried, x.facts.Decision.Rows
	x.state, x.one.request = state{}, upstream.Request{}
	p.pool.Put(x)
}

// fail answers with an error of our own: as a response while nothing has left, else as an event of the client's dialect followed
// by a broken connection, so that a cut answer never looks complete.
func (x *exchange) fail(f *failure) {
	var cancelled *inflight.Cancelled
	switch cause := context.Cause(x.ctx); {
	case errors.Is(cause, ErrDrainLimit):
		f = &failure{status: http.StatusServiceUnavailable, kind: llmapi.KindOverloaded, outcome: outcome.Failed, message: cause.Error(), class: f.class}
	case errors.As(cause, &cancelled):
		f = &failure{status: http.StatusServiceUnavailable, kind: llmapi.KindUpstream, outcome: outcome.Cancelled, message: cause.Error(), class: f.class}
		x.facts.Operator = cancelled.By
		x.w.Header().Set(headerRetry, "false") // else the clients of OpenAI and Anthropic ask again
	case cause != nil:
		f.outcome = outcome.Cancelled
	}
	f.message = intake.Clip(f.message)
	x.facts.Outcome, x.facts.Error, x.facts.ErrorClass = f.outcome, f.message, f.class
	if !x.flushed || x.down.TakeBack() {
		x.facts.Status = f.status
		intake.Identify(nil, x.facts.ID, x.dialect == llmapi.Anthropic).AddTo(x.w.Header())
		if x.facts.Preempted > 0 {
			x.w.Header().Set(headerPreempted, strconv.Itoa(x.facts.Preempted))
		}
		if x.unread {
			f.writeUnread(x.w, x.r, x.dialect, x.begun)
		} else {
			f.write(x.w, x.dialect)
		}
		x.flushed = true
		return
	}
	if x.events {
		x.w.Write(append([]byte(x.obs.Gap()), llmapi.ErrorEvent(x.dialect, x.api, f.kind, f.message)...))
		http.NewResponseController(x.w).Flush()
	}
	x.aborted = true
}

func (p *Proxy) serveReady(w http.ResponseWriter) {
	switch {
	case p.drain.Load() || p.o.Load().Unready != nil && p.o.Load().Unready():
		writeText(w, http.StatusServiceUnavailable, "draining\n")
	case !p.gate.Ready():
		writeText(w, http.StatusServiceUnavailable, "no worker is usable\n")
	default:
		writeText(w, http.StatusOK, "ok\n")
	}
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	w.Write([]byte(text))
}
