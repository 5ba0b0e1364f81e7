package main

import (
	"context"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/facts"
	"github.com/warmpath/warmpath/internal/feed"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/inflight"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/recent"
	"github.com/warmpath/warmpath/internal/series"
)

// archive is what the admin port keeps for those who look: numbers over time, the last decisions, and who is inside.
type archive struct {
	series  *series.Series
	recent  *recent.Log
	inside  *inflight.Book
	rates   series.Rates
	traffic traffic
	feed    *feed.Hub
	records sync.Pool // of *declog.Record, where there is no decision log to have them from
}

// newArchive makes an empty one over what requests wait before.
func newArchive(c config.Config, g *gate.Gate, now time.Time) *archive {
	return &archive{series: series.New(now), recent: recent.New(recent.Options{Max: c.Dash.DecisionsMax, BytesMax: int64(c.Dash.DecisionsBytesMax)}),
		feed: feed.New(c.Dash.ListenersMax),
		inside: inflight.New(func(as any) (inflight.Standing, bool) {
			s, waits := g.Standing(as.(*gate.Wait))
			return inflight.Standing(s), waits
		}),
		records: sync.Pool{New: func() any { return new(declog.Record) }}}
}

// settled takes in a request that is over. Its record is made once, for the decision log and for those who look.
func (a *archive) settled(f *facts.Facts, log *declog.Writer) {
	r := seriesRequest(f)
	a.series.Add(f.Ended, &r)
	if w := f.Decision.Worker; w != nil {
		a.rates.Add(w.ID, &r)
		a.traffic.note(w, f)
	}
	switch {
	case log != nil:
		record := log.Record()
		fill(record, f)
		a.recent.Add(record)
		if log.KeepsText() {
			fillText(record, f)
		}
		log.Log(record)
	case a.recent.Keeps():
		record := a.records.Get().(*declog.Record)
		record.Reset()
		fill(record, f)
		a.recent.Add(record)
		a.records.Put(record)
	}
}

// seriesRequest is a request as the series want it. It counts what the metrics count.
func seriesRequest(f *facts.Facts) series.Request {
	r := series.Request{Outcome: string(f.Outcome), TTFT: -1, E2E: -1, Waited: -1, Gaps: f.Gaps, Metered: f.Usage.HasPrompt, PromptTokens: f.Usage.PromptTokens, AnswerTokens: f.Usage.CompletionTokens,
		CachedReported: f.Usage.HasCached, CachedTokens: f.Usage.CachedTokens}
	if f.Class != "" && (f.Tries > 0 || f.Waited > 0) {
		r.Class, r.Waited = f.Class, f.Waited.Seconds()
	}
	if f.Decision.Worker == nil {
		return r
	}
	r.Hit = f.Decision.Hit.String()
	r.CachedTokensPredicted = min(f.Decision.MatchedTokens, f.Usage.PromptTokens)
	r.CachedTokensReachable = min(max(f.Decision.BestMatchedTokens, f.Decision.MatchedTokens), f.Usage.PromptTokens)
	if f.Stream && !f.FirstToken.IsZero() {
		r.TTFT = f.FirstToken.Sub(f.Started).Seconds()
	}
	if f.Outcome == outcome.Succeeded {
		r.E2E = f.Ended.Sub(f.Started).Seconds()
	}
	if !f.FirstToken.IsZero() || f.Usage.HasPrompt { // else nobody knows that its prompt was computed
		r.PrefillDone, r.PrefillAvoided = f.Forecast.Prefill(f.Usage.HasPrompt && f.Usage.HasCached, f.Usage.CachedTokens, f.Usage.PromptTokens)
	}
	return r
}

// retried counts another worker being tried. It is nobody's failure where the one before was leaving the fleet.
func (r *router) retried(moved bool) {
	if moved {
		r.metrics.Moved.Inc()
		return
	}
	r.metrics.Retries.Inc()
	r.archive.series.Retried(time.Now())
}

// keepSeries notes the state of the moment each second, and tells it to those who listen, until ctx is done.
func (r *router) keepSeries(ctx context.Context) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	defer r.archive.feed.Close()
	r.archive.series.Tick(time.Now(), r.gauges())
	var told time.Time
	for {
		select {
		case now := <-t.C:
			r.archive.series.Tick(now, r.gauges())
			there := r.there()
			r.archive.rates.Tick(there)
			r.archive.traffic.keep(there)
		case <-r.archive.feed.Wanted():
			if time.Since(told) < eventGap { // the next second's will do
				continue
			}
		case <-ctx.Done():
			return
		}
		if r.archive.feed.Tell(r.snapshot) {
			told = time.Now()
		}
	}
}

// gauges are the state of the moment, as far as it is kept over time.
func (r *router) gauges() series.Gauges {
	g := series.Gauges{InFlight: r.proxy.Running()}
	r.gate.View(func(v gate.View) {
		for _, w := range v.Workers {
			if w.Healthy(v.Now) && !w.Draining() {
				g.Workers++
			}
		}
	})
	if q, some := r.gate.QueueStats(); some {
		for _, c := range q.Classes {
			g.Waiting = append(g.Waiting, series.Waiting{Class: c.Class, Requests: c.Waiting})
		}
	}
	return g
}
