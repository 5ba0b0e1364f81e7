package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

// watch is one worker under observation. Only its own goroutine touches it, except target and cancel.
type watch struct {
	opts   *Options
	target atomic.Pointer[Target]
	client *client
	gpu    *gpuWatch          // nil: nobody tells
	cancel context.CancelFunc // set by Manager.start, under its mu

	found   detection
	known   bool       // found holds what the engine said, and it has been told
	told    fleet.Info // what OnInfo got last
	listed  time.Time  // when its models were last asked for
	quiet   time.Time  // do not scrape before: it told us not to
	failing string     // kind of the failure told to the log; "" none
	good    time.Time  // when the last round went well
	logged  fleet.Info // what the log was told

	unwell  bool      // it said so when it was last asked,
	checked time.Time // which was then

	refused bool    // its port was closed since it was last known: when it is back it is another process
	started float64 // the process's start in its own words; 0 unknown
	prompts float64 // its total of prompt tokens at the last scrape
}

func newWatch(t Target, o *Options) *watch {
	w := &watch{opts: o, client: newClient(t, o), gpu: newGPUWatch(t, o)}
	w.target.Store(&t)
	return w
}

// stop is called with the Manager's mu held.
func (w *watch) stop() {
	if w.cancel != nil {
		w.cancel()
	}
}

// beats is how many instants of an interval there are at which rounds begin. Workers looked at together cost half of what they cost one
// by one, because this process and its poller wake once for all of them; more than one instant keeps a fleet from being a burst.
const beats = 20

// onBeat is the first instant from t on at which rounds begin, the same for all workers.
func onBeat(t time.Time, interval time.Duration) time.Time {
	if at := t.Truncate(interval / beats); at.Before(t) {
		return at.Add(interval / beats)
	}
	return t
}

// run looks at the worker at once, then every interval, from a random beat on so that a fleet is not scraped in one burst. A round that
// takes longer than the interval delays the next one; rounds never overlap, and missed ones are not made up for.
func (w *watch) run(ctx context.Context) {
	defer w.client.close()
	defer w.gpu.close()
	w.round(ctx)
	next := onBeat(time.Now().Add(rand.N(w.opts.Interval)), w.opts.Interval)
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		w.round(ctx)
		if next = next.Add(w.opts.Interval); time.Until(next) < 0 {
			next = onBeat(time.Now(), w.opts.Interval)
		}
		timer.Reset(time.Until(next))
	}
}

// round is one look at the worker, and the telling of how it went.
func (w *watch) round(ctx context.Context) {
	err := w.look(ctx)
	if w.loading(ctx, err); ctx.Err() != nil {
		return
	}
	t := *w.target.Load()
	w.log(err)
	if w.check(ctx, err); err == nil {
		return
	}
	var e *Error
	if errors.As(err, &e) && e.Unreachable() {
		w.refused = w.refused || errors.Is(err, syscall.ECONNREFUSED)
		w.known = false
		w.opts.OnDown(t, err)
	}
	w.opts.OnFail(t, err)
}

// unreachable is the kind of failure where nobody could be connected to, whatever the words.
const unreachable = "unreachable"

// log tells of changes: once who was found, when all is known that the first look tells; once that nobody is there; and that telemetry
// fails only when the last counts have gone stale, because a round that fails now and then changes nothing.
func (w *watch) log(err error) {
	now, log := time.Now(), w.opts.Log.With(slog.String("worker", w.target.Load().ID))
	if w.known && !same(w.told, w.logged) {
		message := "worker found"
		if w.logged.Engine != "" {
			message = "worker changed"
		}
		w.logged = w.told
		log.Info(message, slog.String("engine", w.told.Engine), slog.String("version", w.told.Version), slog.Any("models", someModels(w.told)),
			slog.Int("kv_tokens", w.told.KVTokensMax), slog.Int("slots", w.told.SlotsMax))
	}
	if err == nil {
		w.good = now
		if w.failing != "" {
			w.failing = ""
			log.Info("telemetry works again")
		}
		return
	}
	kind, message := "other", "no telemetry: the router goes by its own counts"
	var e *Error
	switch errors.As(err, &e); {
	case e != nil && e.Unreachable():
		kind, message = unreachable, "worker cannot be reached"
	case e != nil && e.Loading:
		kind, message = "loading", "worker is loading its model: it gets no requests yet"
	case e != nil && e.Status != 0:
		kind = strconv.Itoa(e.Status)
	}
	if kind == w.failing || kind != unreachable && kind != "loading" && now.Sub(w.good) < w.opts.StaleAfter {
		return
	}
	w.failing = kind
	log.Warn(message, slog.String("error", err.Error()))
}

// modelsLoggedMax bounds the model names in a log line: a worker may serve thousands of adapters.
const modelsLoggedMax = 20

func someModels(i fleet.Info) []string {
	names := make([]string, 0, modelsLoggedMax+1)
	for n, m := range i.Models {
		if n == modelsLoggedMax {
			return append(names, fmt.Sprintf("and %d more", len(i.Models)-n))
		}
		names = append(names, m.ID)
	}
	return names
}

// errNoFamilies is a page that answers 200 without a single metric that we know.
var errNoFamilies = errors.New("the page shows no known metric")

// look finds out who the engine is when that is not known, and scrapes it.
func (w *watch) look(ctx context.Context) error {
	now := time.Now()
	if !w.known || now.Sub(w.listed) >= w.opts.Refresh {
		err := w.identify(ctx)
		var e *Error
		if err != nil && (!w.known || errors.As(err, &e) && e.Unreachable()) {
			return err
		}
		w.listed = now // a known engine that cannot list its models just now is still scraped
	}
	if w.found.engine.scrape == nil || now.Before(w.quiet) {
		w.count(ctx, fleet.Counts{}, w.opts.InFlight(w.target.Load().ID))
		return nil
	}
	return w.scrape(ctx, now)
}

// identify asks the engine what it is, and tells it when that is news.
func (w *watch) identify(ctx context.Context) error {
	found, err := detect(ctx, w.client, w.opts.BodyBytesMax)
	if err != nil {
		return err
	}
	if w.refused && w.told.Engine != "" {
		w.restart()
	}
	w.refused = false
	if old := w.found; w.known && found.engine.scrape == nil && old.engine.scrape != nil {
		// It was recognised by its metrics alone, and those fail at the moment: it has not become another engine.
		found.engine, found.info.Engine, found.info.UsageOption, found.info.SharesSteps = old.engine, old.info.Engine, old.info.UsageOption, old.info.SharesSteps
		found.info.Urgency, found.info.Salts = old.info.Urgency, old.info.Salts
	}
	if found.info.Engine == w.found.info.Engine { // what only scrapes tell outlives a new listing
		found.info.BlockTokens = cmp.Or(found.info.BlockTokens, w.found.info.BlockTokens)
		found.info.KVTokensMax = cmp.Or(found.info.KVTokensMax, w.found.info.KVTokensMax)
	}
	w.found = found
	w.tell(ctx)
	return nil
}

// restart forgets what was known of the process that is gone.
func (w *watch) restart() {
	w.known, w.unwell, w.started, w.prompts, w.quiet = false, false, 0, 0, time.Time{}
	w.opts.OnRestart(*w.target.Load())
}

// tell hands out what is known of the engine, when it differs from what was handed out last.
func (w *watch) tell(ctx context.Context) {
	info := plausible(w.found.info)
	if ctx.Err() != nil || w.known && same(info, w.told) {
		return
	}
	w.known, w.told = true, info
	t := *w.target.Load()
	w.opts.OnInfo(t, info)
}

// same compares what two Infos say, not when.
func same(a, b fleet.Info) bool {
	return a.Engine == b.Engine && a.Version == b.Version && a.Path == b.Path && a.BlockTokens == b.BlockTokens && a.KVTokensMax == b.KVTokensMax &&
		a.SlotsMax == b.SlotsMax && a.UsageOption == b.UsageOption && a.Urgency == b.Urgency && a.Salts == b.Salts && slices.EqualFunc(a.Models, b.Models, func(a, b fleet.Model) bool {
		return a.ID == b.ID && a.ContextMax == b.ContextMax && a.Parent == b.Parent && slices.Equal(a.Aliases, b.Aliases)
	})
}

// scrape reads the engine's counts once.
func (w *watch) scrape(ctx context.Context, now time.Time) error {
	ours := w.opts.InFlight(w.target.Load().ID)
	p, err := w.found.engine.scrape(ctx, w.client, modelNames(w.found.info), w.opts.BodyBytesMax)
	if err != nil {
		var e *Error
		if errors.As(err, &e) && e.absent() {
			w.quiet = now.Add(w.opts.Refresh)
		}
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	if w.restarted(p) {
		w.restart()
		if err := w.identify(ctx); err != nil {
			return err
		}
	}
	w.started, w.prompts, p.counts.Started = p.started, p.counts.PromptTokens, p.started
	if p.blockTokens > 0 {
		w.found.info.BlockTokens = p.blockTokens
	}
	if p.kvTokens > 0 {
		w.found.info.KVTokensMax = p.kvTokens
	}
	w.tell(ctx)
	if p.silent {
		return nil
	}
	if p.counts.Has == 0 {
		return errNoFamilies
	}
	w.count(ctx, p.counts, ours)
	return nil
}

// count adds what the GPUs' exporter says and hands out what is known then, if anything is.
func (w *watch) count(ctx context.Context, c fleet.Counts, ours int) {
	t := *w.target.Load()
	w.gpu.read(ctx, &c, w.opts.BodyBytesMax, w.opts.Log.With(slog.String("worker", t.ID)))
	if ctx.Err() != nil || c.Has == 0 {
		return
	}
	c.OursBefore, c.At = ours, time.Now()
	w.opts.OnCounts(t, c)
}

// restarted judges whether a page comes from another process than the one before: the engine's own start time decides; where it tells
// none, a total that fell does.
func (w *watch) restarted(p page) bool {
	if w.started != 0 && p.started != 0 {
		return w.started != p.started
	}
	return p.counts.Has&fleet.HasPromptTokens != 0 && p.counts.PromptTokens < w.prompts
}

// page is what one scrape told.
type page struct {
	counts                fleet.Counts
	started               float64 // process start, in the engine's own words; 0 unknown
	blockTokens, kvTokens int     // 0 unknown
	ranks                 int     // data-parallel ranks that it tells apart
	silent                bool    // it told nothing, and that is no failure
}

// modelNames are all names that an engine's metrics may call its models.
func modelNames(i fleet.Info) []string {
	var names []string
	for _, m := range i.Models {
		names = append(append(names, m.ID), m.Aliases...)
	}
	return names
}
