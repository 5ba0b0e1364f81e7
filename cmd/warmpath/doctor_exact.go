package main

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/checkup"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/kvevent"
	"github.com/warmpath/warmpath/internal/kvfeed"
	"github.com/warmpath/warmpath/internal/life"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/render"
)

// exactLookMax is how long doctor waits for engines to tell their tokens and to be heard of on their event sockets.
const exactLookMax = 15 * time.Second

// addExact looks how far each worker can be known exactly: with the same parts as serve, for as long as the look takes. Workers that are
// broken are left alone.
func addExact(ctx context.Context, c config.Config, s *safety, reports []checkup.Report) {
	ctx, cancel := context.WithTimeout(ctx, exactLookMax)
	defer cancel()
	m := exactParts(c.Exact, prefix.NewSeed([]byte("doctor")), s.certs, slog.New(slog.DiscardHandler))
	defer m.Close()
	byID := map[string]config.Worker{}
	for _, w := range c.Workers {
		byID[w.ID] = w
	}
	followed := map[string]bool{} // true: for its events too
	for i := range reports {
		r := &reports[i]
		if w, base := byID[r.ID], modelOf(r); r.Verdict != checkup.VerdictBroken && base != "" {
			m.render.Follow(render.Target{ID: r.ID, URL: r.URL, Key: string(w.Key), Engine: r.Engine, Models: r.Info.Models, ModelPath: r.Info.Path, Incarnation: 1})
			followed[r.ID] = r.Info.BlockTokens > 0 && tellsEvents(c.Exact.Events, w, r.Engine, r.Info.Events)
			if followed[r.ID] {
				rank := -1
				if w.Ranks > 0 {
					rank = 0 // the first stands for all
				}
				m.feeds.Follow(kvfeed.Target{ID: r.ID, URL: r.URL, Key: string(w.Key), Slot: i, Incarnation: 1, Rank: rank, Ranks: r.Info.Ranks, Model: base, Engine: r.Engine, Told: r.Info.Events, Events: w.Events, Replay: w.Replay})
			}
		}
	}
	for ctx.Err() == nil && !m.settledDown(followed) {
		life.Pause(ctx, drainPoll)
	}
	tokens, feeds := m.render.States(), m.feeds.Statuses()
	for i := range reports {
		r := &reports[i]
		if _, ok := followed[r.ID]; ok {
			r.Add(tokensCheck(tokens, r), eventsCheck(feeds, r, c.Exact.Events))
		}
	}
}

// served are the names of all models that workers told.
func served(reports []checkup.Report) (names []string) {
	for i := range reports {
		for _, m := range reports[i].Info.Models {
			names = append(append(names, m.ID), m.Aliases...)
		}
	}
	return names
}

func modelOf(r *checkup.Report) string {
	for _, m := range r.Info.Models {
		if m.Parent == "" {
			return m.ID
		}
	}
	return ""
}

// settledDown says that every worker was asked for tokens, and heard of on its events or not at all: one that replays nothing says nothing
// while it is idle.
func (m *exactMode) settledDown(followed map[string]bool) bool {
	asked := map[string]bool{}
	for _, s := range m.render.States() {
		for _, w := range s.Workers {
			asked[w.ID] = !w.Pending
		}
	}
	heard := map[string]bool{}
	for _, f := range m.feeds.Statuses() {
		heard[f.ID] = f.Error != "" || f.State == kvevent.Exact || f.State == kvevent.Partial || f.Subscribed && f.Source.Replay == ""
	}
	for id, events := range followed {
		if !asked[id] || events && !heard[id] {
			return false
		}
	}
	return true
}

func tokensCheck(states []render.State, r *checkup.Report) checkup.Check {
	c := checkup.Check{Part: "tokens", Level: checkup.Unseen, Found: "the engine was not asked in time"}
	for _, s := range states {
		for _, w := range s.Workers {
			if w.ID != r.ID {
				continue
			}
			switch s.Mode {
			case render.Exact:
				return checkup.Check{Part: "tokens", Level: checkup.Full, Found: "worked out here from " + s.Source + ", proven by " + w.Form}
			case render.EngineSide:
				return checkup.Check{Part: "tokens", Level: checkup.Partly, Found: "told by the engine, " + w.Form, Without: s.Why, Gain: tokensGain(r.Engine, s)}
			}
			return checkup.Check{Part: "tokens", Level: checkup.None, Found: "not known", Without: "prompts are matched by their bytes: " + s.Why, Gain: tokensGain(r.Engine, s)}
		}
	}
	return c
}

// tokensGain is what gains the model's own tokens: its files, where the router says that it lacks them. The simulated engine's model has
// none, and where nothing is told of a cache they would gain little.
func tokensGain(engine string, s render.State) string {
	if _, tells := eventsGains[engine]; !tells || engine == simulatedKind || !strings.Contains(s.Why, "--tokenizer") {
		return ""
	}
	return "name the model's files to the router: --tokenizer " + s.Model + "=PATH (exact.tokenizers in the configuration)"
}

// simulatedKind is what `warmpath worker` is recognised as.
const simulatedKind = "warmpath"

// eventsGains says what has an engine publish cache events. A kind of engine that publishes none has no line.
var eventsGains = map[string]string{
	"vllm":         `start vllm serve with --kv-events-config '{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:5557","replay_endpoint":"tcp://*:5558"}'`,
	"sglang":       `start SGLang with --kv-events-config '{"publisher":"zmq","endpoint":"tcp://*:5557","replay_endpoint":"tcp://*:5558"}'`,
	"tensorrt-llm": "set kv_cache_config.event_buffer_max_size above 0 in the engine's options",
	simulatedKind:  "start warmpath worker with --kv-events tcp://127.0.0.1:5557 --replay tcp://127.0.0.1:5558",
}

// eventsCheck is on how a worker's cache events come; setting is exact.events.
func eventsCheck(feeds []kvfeed.Status, r *checkup.Report, setting string) checkup.Check {
	const assumed = "it is taken to have cached what it was sent"
	c := checkup.Check{Part: "cache events", Level: checkup.None, Found: "not looked for", Without: assumed, Gain: eventsGains[r.Engine]}
	switch {
	case setting == config.EventsOff && c.Gain != "":
		c.Found, c.Gain = "not looked for: they are switched off", "set exact.events: auto (--events auto)"
	case kvfeed.Publishes(r.Info.Events):
		c.Found, c.Gain = "published, and not followed: its block size is not known, or isolate: tenant keeps tenants' blocks apart, which its events do not tell", ""
	case c.Gain == "" && r.Engine != "":
		c.Found = "this kind of engine publishes none, as far as is known"
	}
	for _, f := range feeds {
		if f.ID != r.ID {
			continue
		}
		c.Found, c.Gain = f.Source.Endpoint, ""
		switch {
		case f.Error != "":
			if c.Found = f.Error; !strings.Contains(f.Error, "workers[]") { // else it says what to set
				c.Gain = eventsGains[r.Engine]
			}
		case f.Source.Endpoint == "":
			c.Level, c.Found, c.Without = checkup.Unseen, "where they come from is being asked", ""
		case f.Source.Replay == "" && !f.Source.Polled:
			c.Level, c.Without = checkup.Partly, "what is missed cannot be asked for again: after each gap "+assumed+", until its cache has turned over"
			c.Gain = "a replay endpoint beside it (vLLM: replay_endpoint in --kv-events-config)"
		default:
			c.Level, c.Without = checkup.Full, ""
			if f.Source.Replay != "" {
				c.Found += ", replayed at " + f.Source.Replay
			}
		}
		if late := lateEvents(&f); late != "" && f.Error == "" {
			c.Level, c.Without, c.Gain = checkup.Partly, late, lateGain
		}
	}
	return c
}
