package main

import (
	"cmp"
	"math"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/downstream"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/hush"
	"github.com/warmpath/warmpath/internal/intake"
	"github.com/warmpath/warmpath/internal/ledger"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/memory"
	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/socket"
	"github.com/warmpath/warmpath/internal/tenant"
	"github.com/warmpath/warmpath/internal/upstream"
)

// memoryOptions says who gives memory back, in this order: what is found again at once, then what traffic tells again. What engines said
// they hold comes last, and is only kept from growing: to know it anew would take their replays.
func (r *router) memoryOptions(c config.Config) memory.Options {
	held := false
	return memory.Options{Max: c.MemoryBytes(), Tight: r.setTight, Log: r.log, Sheds: []memory.Shed{
		{Name: "tokens", Give: r.exact.render.Forget},
		{Name: "prefix_index", Give: r.gate.ShedIndex, Restore: r.gate.RestoreIndex},
		{Name: "event_index", Give: func() int64 {
			if !held {
				held = true
				r.exact.index.Hold(true)
			}
			return 0
		}, Restore: func() {
			held = false
			r.exact.index.Hold(false)
		}},
	}}
}

func (r *router) setTight(limit, used int64) {
	bodies, _ := r.proxy.Held()
	bodies.SetTight(limit, used)
}

// bodiesMax is the memory for all bodies together: what is configured, and no more than half of what the process may have, since a second is a
// long time for bodies to come in before anybody looks.
func (r *router) bodiesMax(c config.Config) int64 {
	most := int64(c.BodiesBytesMax)
	if half := r.memory.Limit() / 2; half > 0 && (most == 0 || half < most) {
		return half
	}
	return most
}

// dataOptions are those of the data port.
func (r *router) dataOptions() downstream.Options {
	c := r.settings()
	most := connectionsMax(*c)
	if most > 0 {
		socket.SetMost(most) // as many to workers
	}
	return downstream.Options{Handler: r.proxy, Listed: true, Context: r.base, Log: r.log, BodyBytesMax: int64(c.BodyBytesMax),
		ConnectionsMax: most, ClientConnectionsMax: c.ClientMax, Crowded: r.crowded}
}

// crowded answers a request on a connection beyond its client's bound, in the words of its API. Whether the router is well is told all the same.
func (r *router) crowded(w http.ResponseWriter, q *http.Request) {
	if q.URL.Path == "/healthz" || q.URL.Path == "/readyz" {
		r.proxy.ServeHTTP(w, q)
		return
	}
	_, dialect := llmapi.Route(q.Method, q.URL.Path)
	most := r.settings().ClientMax
	body := llmapi.ErrorBody(dialect, http.StatusTooManyRequests, llmapi.KindRateLimit,
		"this client has more than "+strconv.Itoa(most)+" connections open, the limit for one address (setting connections_per_client_max)", "")
	h := w.Header()
	intake.Identify(nil, intake.RequestID(intake.RequestFields(w, q, nil)), dialect == llmapi.Anthropic).AddTo(h)
	h.Set("Content-Type", "application/json")
	h.Set("Retry-After", "1")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusTooManyRequests)
	w.Write(body)
}

// goroutinesMax is what the bounds of connections and workers allow: a client's connection has at most one of its own, one of net/http's that
// looks whether it leaves, one that writes a body to a worker and two of net/http's for a worker that takes TLS; a worker those that ask it,
// follow its events and compare its tokens.
func goroutinesMax(connections, workers int) float64 {
	const ofConnection, ofWorker, others = 5, 8, 512
	return float64(ofConnection*connections + ofWorker*workers + others)
}

// boundsNow is every bound as it stands.
func (r *router) boundsNow() []ledger.Line {
	l, c := ledger.New(), *r.settings()
	workers := r.indexBounds(l)
	data := r.data.Stats()
	l.Set(ledger.Connections, float64(data.ConnectionsMax), float64(data.Connections), data.Surplus)
	l.Set(ledger.ClientConns, float64(data.ClientMax), float64(data.ClientMost), data.ClientRefused)
	l.Set(ledger.HeadBytes, float64(data.HeadBytesMax), 0, data.HeadsRefused)
	l.Set(ledger.AdminConns, adminConnectionsMax, float64(r.adminConns.open.Load()), r.adminConns.refused.Load())
	l.Set(ledger.WorkerConns, float64(data.ConnectionsMax), float64(socket.Open()), r.refusals.exhausted.Load())
	l.Set(ledger.Goroutines, goroutinesMax(cmp.Or(data.ConnectionsMax, math.MaxInt32/8), max(workers, workersExpected(c))), float64(runtime.NumGoroutine()), 0)
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) == nil {
		l.Set(ledger.Descriptors, float64(files.Cur), descriptorsOpen(), r.refusals.exhausted.Load())
	}
	m := r.memory.State()
	shed := uint64(0)
	for _, g := range m.Gave {
		shed += g.Times
	}
	l.Set(ledger.Memory, float64(m.Limit), float64(m.Used), shed)
	bodies, owners := r.proxy.Held()
	held, refused := bodies.Use()
	l.Set(ledger.BodyBytes, float64(c.BodyBytesMax), 0, r.refusals.large.Load())
	l.Set(ledger.BodiesBytes, float64(r.bodiesMax(c)), float64(held), refused)
	spooled, crowded := bodies.Files()
	l.Set(ledger.SpoolBytes, float64(c.BodySpoolMax), float64(spooled), crowded)
	l.Set(ledger.IdleConns, float64(upstream.DefaultOptions().IdleConnsMax), 0, 0)
	l.Set(ledger.Retries, float64(c.RetriesMax), 0, 0)
	l.Set(ledger.ClientPace, c.Timeouts.Client.Seconds(), 0, r.refusals.slow.Load())
	n, most := owners.Use()
	l.Set(ledger.Responses, float64(most), float64(n), 0)
	l.Set(ledger.Lengths, outputsMax, float64(r.gate.Lengths()), 0)
	l.Set(ledger.Conversations, float64(cmp.Or(c.Conversations, 100_000)), float64(r.choice.Conversations()), 0)
	l.Set(ledger.Tenants, tenant.Most, float64(r.desk.Tenants()), 0)
	r.queueBounds(l)
	models, modelsMost, named, namedMost := r.metrics.Labels()
	l.Set(ledger.ModelLabels, float64(modelsMost), float64(models), 0)
	l.Set(ledger.WorkerLabels, float64(namedMost), float64(named), 0)
	l.Set(ledger.LogLines, float64(c.LogLinesMax), 0, r.lines.Left())
	if w := r.decisions.Load(); w != nil {
		n, most := w.Waiting()
		l.Set(ledger.DecisionRecords, float64(most), float64(n), w.Stats().Dropped)
	}
	l.Set(ledger.DecisionFiles, float64(c.DecisionLog.BytesMax), 0, 0)
	l.Set(ledger.Inside, float64(data.ConnectionsMax), float64(r.proxy.Running()), 0)
	r.lookBounds(l)
	return l.Lines()
}

// lookBounds enters what is kept for those who look at the router.
func (r *router) lookBounds(l *ledger.Ledger) {
	if r.ghosts != nil {
		g := r.ghosts.report(time.Now())
		l.Set(ledger.GhostBytes, float64(r.ghosts.most), float64(g.Bytes), 0)
		waiting, most := r.ghosts.intake.Waiting()
		l.Set(ledger.GhostRequests, float64(most), float64(waiting), g.Dropped)
	}
	spans, spansMost, crowded := r.tracing.sender.Use()
	l.Set(ledger.TraceQueue, float64(spansMost), float64(spans), crowded)
	kept := r.archive.recent.Stats()
	l.Set(ledger.RecentDecisions, float64(kept.DecisionsMax), float64(kept.Decisions), kept.Forgotten)
	l.Set(ledger.RecentBytes, float64(kept.BytesMax), float64(kept.Bytes), kept.ForgottenForBytes)
	steps, stepsMost := r.archive.series.Use()
	l.Set(ledger.Series, float64(stepsMost), float64(steps), 0)
	listening, listenersMost, refused := r.archive.feed.Use()
	l.Set(ledger.Listeners, float64(listenersMost), float64(listening), refused)
	r.prefixes.mu.Lock()
	defer r.prefixes.mu.Unlock()
	tracked, trackedMost := r.prefixes.table.Len()
	l.Set(ledger.Prefixes, float64(trackedMost), float64(tracked), r.prefixes.table.Out())
}

// indexBounds enters what is known of workers and their caches, and returns how many workers there are.
func (r *router) indexBounds(l *ledger.Ledger) (workers int) {
	var x prefix.Stats
	r.gate.View(func(v gate.View) { x, workers = v.Index.Stats(), len(v.Workers) })
	l.Set(ledger.IndexBytes, float64(x.BytesMax), float64(x.Bytes), x.Evictions.Bound)
	events := r.exact.index.Stats()
	l.Set(ledger.EventIndexBytes, float64(events.BytesMax), float64(events.Bytes), events.Evicted)
	most := prefix.SlotsMax
	if c := r.settings(); c.Discovery.Any() {
		most = min(most, cmp.Or(c.Discovery.WorkersMax, discovery.WorkersMax))
	}
	l.Set(ledger.Workers, float64(most), float64(workers), uint64(len(r.refusedNow())))
	used, bytesMost := r.exact.render.Remembered()
	l.Set(ledger.TokenBytes, float64(bytesMost), float64(used), 0)
	asked, askedMost := r.exact.render.UnderWay()
	full := uint64(0)
	for _, m := range r.exact.render.States() {
		full += m.Full
	}
	l.Set(ledger.TokenQuestions, float64(askedMost), float64(asked), full)
	return workers
}

func (r *router) queueBounds(l *ledger.Ledger) {
	q, some := r.gate.QueueStats()
	if !some {
		return
	}
	full, c := uint64(0), r.settings().Queue
	for _, class := range q.Classes {
		full += class.Full + class.Crowded + class.Shed
	}
	l.Set(ledger.QueueRequests, float64(c.RequestsMax), float64(q.Waiting), full)
	l.Set(ledger.QueueBytes, float64(c.BytesMax), float64(q.Bytes), full)
	l.Set(ledger.QueueWork, c.WorkMax.Seconds(), q.Seconds, full)
}

// descriptorsOpen counts the process's open files; 0 where the system does not tell.
func descriptorsOpen() float64 {
	folder, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0
	}
	defer folder.Close()
	names, _ := folder.Readdirnames(-1)
	return float64(max(0, len(names)-1)) // without folder itself
}

// collectBounds fills in the bounds for a scrape.
func (r *router) collectBounds(s *metrics.State) {
	for _, l := range r.boundsNow() {
		s.Bounds = append(s.Bounds, metrics.BoundState{Name: l.Name, Limit: l.Limit, Used: l.Used, Each: l.Each, Refused: l.Refused})
	}
	for _, g := range r.memory.State().Gave {
		s.Shed = append(s.Shed, metrics.ShedState{Cache: g.Name, Times: g.Times, Bytes: g.Bytes})
	}
}

// linesOf is the count of lines that a log was made with; one without a bound for a log of another make.
func linesOf(h any) *hush.Table {
	if l, ok := h.(levelled); ok && l.lines != nil {
		return l.lines
	}
	return hush.NewTable(0)
}
