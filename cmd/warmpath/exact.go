package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/certs"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/exact"
	"github.com/warmpath/warmpath/internal/facts"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/kvevent"
	"github.com/warmpath/warmpath/internal/kvfeed"
	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/render"
	"github.com/warmpath/warmpath/internal/telemetry"
	"github.com/warmpath/warmpath/internal/truth"
)

// exactMode is all that routing by engines' own word takes, put together: who tells what, whose tokens are known, and whether it comes true.
// Workers come and go in it while router.changes is held.
type exactMode struct {
	r      *router
	index  *kvindex.Index
	feeds  *kvfeed.Manager
	render *render.Manager
	finder *exact.Finder
	client *http.Client

	toldUnserved bool // guarded by router.changes

	mu   sync.Mutex // guards the fields below
	book *truth.Book
	told map[string]exact.Worker // the workers that are followed, by id
}

func (r *router) wireExact() *exactMode {
	m := exactParts(r.settings().Exact, r.seed, r.safety.certs, r.log)
	m.r = r
	return m
}

// exactParts makes the parts, which serve and doctor have alike.
func exactParts(c config.Exact, seed prefix.Seed, trusted *certs.Store, log *slog.Logger) *exactMode {
	m := &exactMode{book: truth.New(truth.DefaultOptions()), told: map[string]exact.Worker{}}
	m.client = &http.Client{
		Transport:     &http.Transport{DialTLSContext: trusted.DialTLS, MaxIdleConnsPerHost: c.TokensMax, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 64 << 10, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // it would take keys elsewhere
	}
	m.index = kvindex.New(kvindex.Options{BytesMax: int64(c.IndexBytesMax)})
	template := c.Events
	if template == config.EventsAuto || template == config.EventsOff {
		template = ""
	}
	m.feeds = kvfeed.New(m.index, kvfeed.Options{Seed: seed, Template: template, Client: m.client, Log: log, Hints: eventsGains})
	files := map[string]string{}
	for _, t := range c.Tokenizers {
		files[t.Model] = t.Path
	}
	m.render = render.New(render.Options{Seed: seed, Files: files, Deadline: c.TokensTimeout, InFlightMax: c.TokensMax,
		CacheBytes: int(c.CacheBytesMax), Client: m.client, Log: log})
	m.finder = exact.New(exact.Options{Seed: seed, Tokens: m.render.Tokens, Index: m.index})
	return m
}

// Close ends what runs for it.
func (m *exactMode) Close() {
	m.feeds.Close()
	m.render.Close()
	m.client.CloseIdleConnections()
}

// tellsEvents is whether a worker is one whose cache events are looked for.
func tellsEvents(setting string, w config.Worker, engine, told string) bool {
	switch setting {
	case config.EventsOff:
		return w.Events != ""
	case config.EventsAuto:
		return w.Events != "" || engine == "vllm" || engine == "warmpath" || engine == "tensorrt-llm" || kvfeed.Publishes(told)
	}
	return true
}

// follow takes what a worker's engine said of itself. It is called with router.changes held.
func (m *exactMode) follow(t telemetry.Target, i fleet.Info) {
	slot, ok := m.r.gate.Slot(t.ID, t.Incarnation)
	base := exact.Base(i.Models)
	if !ok || base == "" {
		return
	}
	m.tellUnserved()
	m.render.Follow(render.Target{ID: t.ID, URL: t.URL, Key: t.Key, Engine: i.Engine, Models: i.Models, ModelPath: i.Path, Incarnation: t.Incarnation})
	w := m.r.configured[t.ID]
	saltless := m.r.settings().Isolate == config.IsolateTenant && i.Engine == "sglang" // its events leave out what tells tenants' blocks apart
	if i.BlockTokens <= 0 || saltless || !tellsEvents(m.r.settings().Exact.Events, w, i.Engine, i.Events) {
		return
	}
	rank := -1
	if n, err := strconv.Atoi(t.Rank); err == nil {
		rank = n
	}
	m.feeds.Follow(kvfeed.Target{ID: t.ID, URL: t.URL, Key: t.Key, Slot: slot, Incarnation: t.Incarnation, Rank: rank, Model: base, Engine: i.Engine, Told: i.Events, Ranks: i.Ranks,
		BlocksMax: i.KVTokensMax / i.BlockTokens, Events: w.Events, Replay: w.Replay})
	m.serve(func() {
		before := m.told[t.ID]
		m.told[t.ID] = exact.Worker{Slot: slot, Models: i.Models, BlockTokens: i.BlockTokens, Reloaded: reloaded(before.Reloaded, before.Models, i.Models)}
	})
}

// tellUnserved warns once of files that are named for a model which no worker serves, as soon as all have said what they serve.
func (m *exactMode) tellUnserved() {
	if m.toldUnserved || len(m.r.settings().Exact.Tokenizers) == 0 {
		return
	}
	var served []string
	var all bool
	m.r.gate.View(func(v gate.View) {
		all = len(v.Workers) >= len(m.r.settings().Workers) // they come one by one
		for _, w := range v.Workers {
			all = all && w.ModelsKnown()
			for _, model := range w.Info().Models {
				served = append(append(served, model.ID), model.Aliases...)
			}
		}
	})
	if !all {
		return
	}
	m.toldUnserved = true
	for _, text := range unservedFiles(m.r.settings().Exact.Tokenizers, served) {
		m.r.log.Warn(text)
	}
}

// unservedFiles says of which models files are named in vain.
func unservedFiles(named []config.ModelFiles, served []string) (texts []string) {
	slices.Sort(served)
	served = slices.Compact(served)
	for _, f := range named {
		if !slices.Contains(served, f.Model) {
			texts = append(texts, fmt.Sprintf("no worker serves the model %q, whose files are named (flag --tokenizer %s=%s); served are: %s", f.Model, f.Model, f.Path, strings.Join(served, ", ")))
		}
	}
	return texts
}

// reloadedMax bounds the adapters that are known to have been unloaded from a worker. Beyond it the first are forgotten.
const reloadedMax = 1024

// reloaded adds to those unloaded before.
func reloaded(all []string, before, now []fleet.Model) []string {
	for _, name := range gate.Unloaded(before, now) {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all[max(0, len(all)-reloadedMax):]
}

// leave forgets a worker, before its slot is anybody else's.
func (m *exactMode) leave(id string) {
	m.feeds.Leave(id)
	m.render.Leave(id)
	m.serve(func() {
		m.book.Forget(id)
		delete(m.told, id)
	})
}

// keep is how far what a worker tells of its cache is trusted, to be known after a restart; nil: nothing is known.
func (m *exactMode) keep(id string) *truth.Kept {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.book.Keep(id)
}

// recall has a worker be trusted as it was before a restart.
func (m *exactMode) recall(t telemetry.Target, k truth.Kept) {
	var worker *fleet.Worker
	m.r.gate.View(func(v gate.View) { worker = workerIn(v, t) })
	if worker == nil {
		return
	}
	m.serve(func() { m.book.Recall(t.ID, t.Incarnation, k) })
	if !k.Trusted {
		m.r.gate.Doubt(worker, true)
	}
}

func (m *exactMode) serve(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	all := make([]exact.Worker, 0, len(m.told))
	for _, w := range m.told {
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b exact.Worker) int { return a.Slot - b.Slot }) // where they differ on a name, the first has it
	m.finder.Serve(all)
}

// find is proxy.Hooks.Find.
func (m *exactMode) find(ctx context.Context, ask render.Ask, into *exact.Found) bool {
	return m.finder.Find(ctx, ask, into)
}

// settled compares what a worker reported with what was predicted of it.
func (m *exactMode) settled(f *facts.Facts) {
	w := f.Decision.Worker
	if w == nil || !f.Usage.HasPrompt || f.Outcome != outcome.Succeeded {
		return
	}
	block := max(1, f.Decision.BlockTokens)
	if f.Usage.HasCached && f.Usage.PromptTokens-f.Usage.CachedTokens > 2*block {
		m.feeds.Expect(w.ID, f.Ended)
	}
	if !f.Usage.HasCached {
		return
	}
	seen := truth.Seen{Exact: f.Decision.ByEvents, Predicted: f.Decision.MatchedTokens, Told: f.Decision.ToldTokens, Best: f.Decision.BestMatchedTokens,
		Reported: f.Usage.CachedTokens, PromptPredicted: f.PromptTokens, PromptReported: f.Usage.PromptTokens, TokensKnown: f.TokensKnown,
		BlockTokens: block, Placed: f.Placed, Ended: f.Ended}
	m.mu.Lock()
	if !m.book.Knows(w.ID) {
		m.mu.Unlock()
		if !m.r.gate.Holds(w.ID, w.Incarnation) {
			return // it left, and nobody would forget it again
		}
		m.mu.Lock()
	}
	changed, now := m.book.Note(w.ID, w.Incarnation, seen), truth.Stats{}
	if changed {
		now = m.book.Of(w.ID)
	}
	m.mu.Unlock()
	if !changed {
		return
	}
	m.r.gate.Doubt(w, !now.Trusted)
	if now.Trusted {
		m.r.log.Info("what a worker tells of its cache comes true again: it is gone by", "worker", w.ID)
		return
	}
	m.r.log.Warn("what a worker tells of its cache does not come true: it is scored by what it is assumed to have cached", "worker", w.ID, "trust", now.Trust,
		"lost_not_there", now.Loss.NotThere, "lost_untold", now.Loss.Untold, "lost_mis_keyed", now.Loss.MisKeyed, "prompts_differ", now.PromptsDiffer)
}

// eventState is the index of what engines say they hold, in /state.
type eventState struct {
	Bytes    int64  `json:"bytes"`
	BytesMax int64  `json:"bytes_max"`
	Blocks   int    `json:"blocks"`
	Pairs    int    `json:"pairs"`
	Evicted  uint64 `json:"evicted"`
}

func (m *exactMode) events() eventState {
	x := m.index.Stats()
	return eventState{x.Bytes, x.BytesMax, x.Nodes, x.Pairs, x.Evicted}
}

// modeState is how a worker's cache is known, in /state.
type modeState struct {
	Mode   string `json:"mode"`             // exact, engine-side, assumed or load
	Why    string `json:"why,omitempty"`    // why it is no better, and what would help
	Events string `json:"events,omitempty"` // state of its cache events
	Source string `json:"source,omitempty"` // where they come from
	Error  string `json:"error,omitempty"`  // why none come

	// By how much they came late in the last minute, the latest of them, and the least delay that this is told from, the difference of the
	// clocks included; nil: they tell no time, or none came.
	LagSeconds    *float64 `json:"events_lag_seconds,omitempty"`
	OffsetSeconds *float64 `json:"events_offset_seconds,omitempty"`

	Truth *truthState `json:"truth,omitempty"` // nil: it has reported nothing yet
}

// The modes of a worker, from the best.
const (
	modeExact   = "exact"       // its own events, and the model's tokens worked out here
	modeAsked   = "engine-side" // its own events, and tokens that engines tell
	modeAssumed = "assumed"     // what it was sent
)

// modes says for each worker how its cache is known, and why not better, given how its model's tokens are.
func (m *exactMode) modes(models []render.State) map[string]modeState {
	tokens := map[string]render.State{}
	for _, s := range models {
		tokens[s.Model] = s
	}
	feeds := map[string]kvfeed.Status{}
	for _, s := range m.feeds.Statuses() {
		feeds[s.ID] = s
	}
	all := map[string]modeState{}
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, w := range m.told {
		feed, of := feeds[id], tokens[exact.Base(w.Models)]
		s := modeState{Mode: modeAssumed, Events: string(feed.State), Source: feed.Source.Endpoint, Error: feed.Error}
		switch {
		case feed.Error != "":
			s.Why = "no cache events come: " + feed.Error
		case feed.State != kvevent.Exact:
			s.Why = whyNotExact[feed.State]
		case of.Mode == render.Approximate:
			s.Why = "the model's tokens are not known: " + of.Why
		case !m.book.Trusted(id):
			s.Why = "what it told did not come true lately; it is gone by again once it does"
		case of.Mode == render.EngineSide:
			s.Mode, s.Why = modeAsked, of.Why
		default:
			s.Mode = modeExact
		}
		s.lags(&feed)
		all[id] = s
	}
	for _, t := range m.book.All() {
		s := all[t.Worker]
		s.Truth = truthOf(t)
		all[t.Worker] = s
	}
	return all
}

// whyNotExact says what the states of cache events mean.
var whyNotExact = map[kvevent.State]string{
	kvevent.Waiting:  "no cache event has come yet; the first comes with the first prompt that it has to compute",
	kvevent.Catching: "cache events were missed, and are asked for again",
	kvevent.Partial:  "it ran before warmpath did, or events were lost: it is known completely when its cache has turned over once, or at once with a replay endpoint",
	kvevent.Silent:   "cache events stopped, though requests are computed",
}

// cacheMode is how a worker's cache is known; one that is not followed is assumed to have what it was sent.
func cacheMode(modes map[string]modeState, w *fleet.Worker) modeState {
	s := modes[w.ID]
	if s.Mode != "" {
		return s
	}
	s.Mode, s.Why = modeAssumed, "its engine is not one that tells what it has cached"
	if info := w.Info(); info.Engine == "" {
		s.Why = "its engine has not said what it is"
	}
	return s
}
