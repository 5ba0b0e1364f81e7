package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/admission"
	"github.com/warmpath/warmpath/internal/choice"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/downstream"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/handover"
	"github.com/warmpath/warmpath/internal/hush"
	"github.com/warmpath/warmpath/internal/life"
	"github.com/warmpath/warmpath/internal/memory"
	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/prompt"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/telemetry"
)

// router is the whole product put together, by hand and in one place. serve, demo and the tests all start it here.
type router struct {
	cfg       atomic.Pointer[config.Config] // in force; it is replaced, never changed
	reloads   reloads
	log       *slog.Logger
	gate      *gate.Gate
	proxy     *proxy.Proxy
	memory    *memory.Watch
	lines     *hush.Table // of the log
	refusals  refusals
	desk      *admission.Desk
	safety    *safety
	guarded   http.Handler // the admin port
	checks    checks
	choice    *choice.Desk // nil: no model stands for others
	keyer     *prompt.Keyer
	metrics   *metrics.Set
	telemetry *telemetry.Manager
	exact     *exactMode
	members   *members
	decisions atomic.Pointer[declog.Writer] // nil: no decision log
	came      *handover.Inherited           // what came with the process
	inherited estate                        // from the process before
	caches    remembered                    // of workers that have not come yet
	leaving   atomic.Bool                   // /readyz fails, and requests are still taken
	archive   *archive
	tracing   tracing
	regrets   regrets
	ghosts    *ghosts // nil: there are none
	prefixes  *prefixes
	saved     atomic.Int64 // when what was learned was written last, in Unix seconds
	secret    []byte       // the installation's
	seed      prefix.Seed
	started   time.Time

	data            *downstream.Server
	admin           *http.Server
	adminConns      adminConns
	dataAt, adminAt net.Listener // adminAt is nil when there is no admin port

	base       context.Context // of every request
	cut        context.CancelCauseFunc
	asking     context.Context // of telemetry, and of what else asks without being asked
	stopAsk    context.CancelFunc
	finding    context.Context // of the sources of workers
	stopFind   context.CancelFunc
	succession succession
	running    sync.WaitGroup
	changes    sync.Mutex               // held while a worker comes, goes or restarts, so that fleet, telemetry and metrics change together; taken before any other lock
	configured map[string]config.Worker // what each worker was added as, by id; guarded by changes
	unpriced   map[string]bool          // models without a price that the log has told of; guarded by changes
	reached    map[string]reached       // and how it is reached
	stopOnce   sync.Once
}

// outputsMax bounds the models and tenants whose answer length is told apart.
const outputsMax = 4096

// startRouter listens and serves. It fails when a setting is wrong or a port is taken, never because a worker is down.
func startRouter(cfg config.Config, log *slog.Logger) (*router, error) {
	return succeed(context.Background(), cfg, log, new(handover.Inherited))
}

// succeed is startRouter with what came with the process. Where another process hands over, it takes no connection before it can serve as well as
// that one, or ctx ends.
func succeed(ctx context.Context, cfg config.Config, log *slog.Logger, came *handover.Inherited) (*router, error) {
	secret, err := installationSecret(cfg)
	if err != nil && cfg.StateDir != "" {
		return nil, err
	}
	if err != nil { // a container with a read-only root has no folder of its own, and can do without
		log.Warn("the installation's secret lives as long as this process: block numbers and fingerprints will differ after a restart", "error", err)
	}
	r := &router{log: log, lines: linesOf(log.Handler()), came: came, secret: secret, seed: prefix.NewSeed(secret), started: time.Now(), configured: map[string]config.Worker{}, unpriced: map[string]bool{}, reached: map[string]reached{}}
	r.cfg.Store(&cfg)
	r.succession.begin()
	r.inherit()
	r.reloads.state.Store(&configState{Hash: configHash(cfg), Generation: 1, Loaded: r.started})
	decisions, err := openDecisions(cfg, log)
	if err != nil {
		return nil, err
	}
	r.decisions.Store(decisions)
	if r.safety, err = openSafety(cfg, log); err != nil {
		r.closeFiles()
		return nil, err
	}
	if r.tracing, err = openTraces(cfg.Traces, r.safety.certs, os.Getenv, log); err != nil {
		r.closeFiles()
		return nil, err
	}
	if err := r.openDesk(); err != nil {
		r.closeFiles()
		return nil, err
	}
	if err := r.listen(); err != nil {
		r.closeFiles()
		return nil, err
	}
	if err := r.wire(); err != nil {
		r.closeListeners()
		r.closeFiles()
		return nil, err
	}
	r.serve()
	if err := r.members.tell(fromConfig, entriesOf(cfg.Workers)); err != nil {
		r.Close()
		return nil, err
	}
	r.members.inherit(r.inherited)
	r.running.Go(func() { r.report("discovery", r.members.Run(r.finding)) })
	r.members.awaitFirst(firstSetsTime)
	if came.From() != 0 {
		r.members.inheritDrains(r.inherited)
		if err := r.awaitWorkers(ctx); err != nil {
			r.Close()
			return nil, errors.New("no worker answers it that could serve")
		}
		r.serveAdmin()
	}
	r.running.Go(func() { r.report("data port", r.data.Serve(over(r.dataAt, r.safety.data))) })
	return r, nil
}

// listen takes both ports before anything else starts, so that a port in use is the first and only thing said.
func (r *router) listen() (err error) {
	if r.dataAt, _, err = r.came.Listen(handover.Data, r.settings().Listen); err != nil {
		return fmt.Errorf("the data port cannot be opened (setting listen, flag --listen): %w", err)
	}
	if r.settings().Admin == "" {
		return nil
	}
	if r.adminAt, _, err = r.came.Listen(handover.Admin, r.settings().Admin); err != nil {
		r.dataAt.Close()
		return fmt.Errorf("the admin port cannot be opened (setting admin, flag --admin): %w", err)
	}
	return nil
}

// wire makes the rooms and ties them together.
func (r *router) wire() error {
	c := *r.settings()
	f := fleet.New(fleetOptions(c))
	x := prefix.New(prefix.Options{BytesMax: int64(c.IndexBytesMax)})
	book, outputs, ratio := cost.NewBook(cost.DefaultOptions()), cost.NewOutputs(outputsMax), cost.NewRatio()
	r.recall(book, outputs, ratio)
	r.recallCaches()
	s := sched.New(f, x, book, outputs, ratio, sched.Options{Policy: c.Policy, Seed: mathrand.Uint64(), EnterMax: gate.EnterAtOnce, Room: c.Queue.Room()})
	r.gate = gate.New(f, x, book, outputs, ratio, s, dialOptions(c, r.safety.certs.DialTLS), time.Now)
	if c.Queue.Enabled {
		if err := r.gate.UseQueue(queueOptions(c)); err != nil {
			return fmt.Errorf("the queue cannot be made (setting queue): %w", err)
		}
	}
	r.archive = newArchive(c, r.gate, r.started)
	r.metrics = metrics.New(r.collect)
	built := thisBuild()
	for _, class := range c.Queue.ClassNames() {
		r.metrics.KnowClass(class)
	}
	r.metrics.Build(built.Version, built.Commit, built.Go)
	if err := r.wireChoices(); err != nil {
		return err
	}
	r.exact = r.wireExact()
	r.ghosts, r.prefixes = newGhosts(c.Ghosts), newPrefixes(c.Dash)
	r.members = newMembers(r)
	r.keyer = prompt.New(r.seed, prompt.DefaultOptions())
	r.memory = memory.New(r.memoryOptions(c))
	r.proxy = proxy.New(r.proxyOptions(c), r.desk, r.choice, r.gate, r.keyer, r.hooks(), r.log, time.Now)
	r.telemetry = telemetry.New(telemetry.Options{Interval: c.Telemetry.Interval, Timeout: c.Telemetry.Timeout, StaleAfter: c.Telemetry.StaleAfter,
		DialTLS: r.safety.certs.DialTLS, InFlight: r.gate.InFlight, OnInfo: r.onInfo, OnCounts: r.onCounts, OnRestart: r.onRestart, OnDown: r.onDown, OnFail: r.onFail, OnHealth: r.onHealth, Log: r.log})
	admin, err := r.adminHandler()
	if err != nil {
		return err
	}
	r.guarded, err = r.guardAdmin(admin)
	return err
}

// serve starts telemetry and, where no other process has the port, the admin server, each in a goroutine that Close waits for.
func (r *router) serve() {
	r.base, r.cut = context.WithCancelCause(context.Background())
	quiet := slog.NewLogLogger(r.log.Handler(), slog.LevelDebug)
	r.data = downstream.New(r.dataOptions())
	if r.adminAt != nil {
		r.admin = &http.Server{Handler: r.guarded, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 3 * time.Minute, ErrorLog: quiet, ConnState: r.adminConns.changed}
	}
	if r.came.From() == 0 {
		r.serveAdmin()
	}
	r.asking, r.stopAsk = context.WithCancel(context.Background())
	r.finding, r.stopFind = context.WithCancel(r.asking)
	r.running.Go(func() { r.report("files", r.safety.files.Run(r.asking)) })
	r.running.Go(func() { r.report("telemetry", r.telemetry.Run(r.asking)) })
	r.running.Go(func() { r.report("memory", r.memory.Run(r.asking)) })
	r.running.Go(func() { r.report("log", r.lines.Run(r.asking, r.log)) })
	r.running.Go(func() { r.keepSpent(r.asking) })
	if r.ghosts != nil {
		r.running.Go(func() { r.runGhosts(r.asking) })
	}
	r.running.Go(func() { r.keepSeries(r.asking) })
	r.running.Go(func() { r.keepLearned(r.asking) })
	r.running.Go(func() { r.watchReturns(r.asking) })
	r.running.Go(func() { r.report("canaries", r.canaries().Run(r.asking)) })
}

func (r *router) serveAdmin() {
	if r.admin != nil {
		r.running.Go(func() {
			r.report("admin port", r.admin.Serve(over(fewAt{r.adminAt, &r.adminConns, r.safety.admin == nil}, r.safety.admin)))
		})
	}
}

func (r *router) report(part string, err error) {
	if err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, context.Canceled) {
		r.log.Error(part+" ended", "error", err)
	}
}

// DataURL and AdminURL are where the router answers; useful when a port was 0.
func (r *router) DataURL() string { return scheme(r.safety.data) + r.dataAt.Addr().String() }

// AdminURL is "" when there is no admin port.
func (r *router) AdminURL() string {
	if r.adminAt == nil {
		return ""
	}
	return scheme(r.safety.admin) + r.adminAt.Addr().String()
}

// drainPoll is how often a draining router looks whether the last request is done.
const drainPoll = 20 * time.Millisecond

// Drain makes the router unready, lets running requests finish until limit, then cuts them off with an error of their dialect.
// It returns how many were cut off. ctx ends the wait early.
func (r *router) Drain(ctx context.Context, limit time.Duration) int {
	r.proxy.StartDrain()
	r.data.EndKeepAlives()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for r.proxy.Running() > 0 && ctx.Err() == nil {
		life.Pause(ctx, drainPoll)
	}
	left := r.proxy.Running()
	r.cut(proxy.ErrDrainLimit)
	last, done := context.WithTimeout(context.Background(), time.Second)
	defer done()
	for r.proxy.Running() > 0 && last.Err() == nil {
		life.Pause(last, drainPoll)
	}
	return left
}

// Close stops everything at once and waits until it has stopped.
func (r *router) Close() {
	r.stopOnce.Do(func() {
		r.succession.stop()
		r.proxy.StartDrain()
		r.cut(proxy.ErrDrainLimit)
		r.data.Close()
		if r.admin != nil {
			r.admin.Close()
		}
		r.stopAsk()
		r.came.Close()
		r.tellForgotten()
		r.gate.Close()
		r.running.Wait()
		if _, err := r.writeSpent(""); err != nil {
			r.log.Warn("what tenants spent today could not be kept", "error", err)
		}
		if err := errors.Join(r.writeLearned(), r.writeCaches()); err != nil {
			r.log.Warn("what was learned of engines could not be kept: the next start learns anew", "error", err)
		}
		r.leaveLegacy()
		r.exact.Close()
		r.closeFiles()
	})
}

func (r *router) closeFiles() {
	r.tracing.close()
	if d := r.decisions.Load(); d != nil {
		d.Close()
	}
}

func (r *router) removeWorker(id string) error {
	r.changes.Lock()
	defer r.changes.Unlock()
	r.exact.leave(id)
	delete(r.configured, id)
	r.unreach(id)
	if err := r.gate.Remove(id); err != nil {
		return err
	}
	r.telemetry.Unwatch(id)
	r.metrics.DeleteWorker(id)
	r.log.Info("worker removed", "worker", id)
	return nil
}

// installationSecret reads the installation's secret, or makes it at the first start. Without it prefix keys could be guessed, and
// would not agree between runs. With an error comes a fresh one that nobody kept.
func installationSecret(cfg config.Config) ([]byte, error) {
	secret := make([]byte, 32)
	rand.Read(secret)
	folder, err := cfg.StateFolder()
	if err != nil {
		return secret, err
	}
	file := filepath.Join(folder, "secret")
	if kept, err := os.ReadFile(file); err == nil && len(kept) >= 16 {
		return kept, nil
	}
	if err = os.MkdirAll(folder, 0o700); err == nil {
		err = writeNew(file, secret)
	}
	if err != nil {
		return secret, fmt.Errorf("the installation's secret cannot be kept in %s (setting state_dir): %w", folder, err)
	}
	if kept, err := os.ReadFile(file); err == nil && len(kept) >= 16 { // another process may have been first
		secret = kept
	}
	return secret, nil
}

// writeNew writes a file whole or not at all, and leaves one that is there already.
func writeNew(file string, content []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(file), ".secret-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	if _, err = temporary.Write(content); err != nil {
		temporary.Close()
		return err
	}
	if err = temporary.Close(); err != nil {
		return err
	}
	if err = os.Link(temporary.Name(), file); errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}
