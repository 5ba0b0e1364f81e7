package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/facts"
	"github.com/warmpath/warmpath/internal/repick"
	"github.com/warmpath/warmpath/internal/sched"
)

// fill makes a record of what is known of a request that is over.
func fill(d *declog.Record, f *facts.Facts) {
	d.ID, d.Tenant = strings.Clone(f.ID), strings.Clone(f.Tenant) // of a head, all of which they would hold
	d.Time, d.API, d.Model, d.Stream = f.Started, f.API.String(), f.Model, f.Stream
	if f.Session != 0 {
		d.Session = fmt.Sprintf("%016x", f.Session)
	}
	d.Class, d.ClassWhy, d.WaitedSeconds, d.Refused, d.Preempted, d.WastedSeconds = f.Class, f.ClassWhy, f.Waited.Seconds(), f.Refused, f.Preempted, f.Wasted
	logForecast(d, &f.Forecast)
	d.Money = f.Money
	d.PromptBytes, d.PromptTokensEst, d.MaxTokens = f.TextBytes, f.PromptTokens, f.MaxTokens
	d.PromptTokens, d.CompletionTokens, d.CachedTokens = f.Usage.PromptTokens, f.Usage.CompletionTokens, f.Usage.CachedTokens
	d.Metered, d.CachedReported = f.Usage.HasPrompt, f.Usage.HasCached
	d.TokensKnown, d.ByEvents = f.TokensKnown, f.Decision.ByEvents
	d.CachedTokensEst, d.BestMatchedTokens, d.StreamedTokenCount = f.Decision.MatchedTokens, f.Decision.BestMatchedTokens, f.Tokens
	declog.SetKeys(d, f.Chain.Keys)
	d.Policy, d.Relaxed, d.Reason = f.Decision.Policy, f.Decision.Relaxed, f.Decision.Reason
	d.Asked, d.ModelReason, d.ModelRows, d.Pool, d.PoolWhy = f.Asked, f.Choice.Reason, f.Choice.Rows, f.Pool.Name, f.Pool.Why
	if w := f.Decision.Worker; w != nil {
		d.Worker, d.Hit = w.ID, f.Decision.Hit.String()
	}
	for _, row := range f.Decision.Rows {
		d.Rows = append(d.Rows, declog.Row{Worker: row.ID, MatchedTokens: row.MatchedTokens, QueuedSeconds: row.QueuedSeconds,
			WaitPriceSeconds: row.WaitPriceSeconds, TollSeconds: row.TollSeconds, PrefillSeconds: row.PrefillSeconds, DelaySeconds: row.DelaySeconds, Price: row.Price,
			DecodeSeconds: row.DecodeSeconds, BatchSeconds: row.BatchSeconds, DisplacedSeconds: row.DisplacedSeconds, TotalSeconds: row.TotalSeconds, InFlight: row.InFlight, ByEvents: row.ByEvents, Why: row.Why,
			Score: row.Score, Load: row.Load, LoadedTokens: row.LoadedTokens, Pressure: row.Pressure, BurdenSeconds: row.BurdenSeconds})
	}
	fillTie(d, &f.Decision)
	for _, t := range f.Failed {
		d.Tries = append(d.Tries, declog.Try{Worker: t.Worker, Class: t.Class, Status: t.Status})
	}
	d.Operator = f.Operator
	d.Outcome, d.Status, d.Error, d.DecisionSeconds, d.E2ESeconds = string(f.Outcome), f.Status, f.Error, f.DecisionTime.Seconds(), f.Ended.Sub(f.Started).Seconds()
	if !f.Placed.IsZero() {
		d.QueueSeconds = f.Placed.Sub(f.Started).Seconds()
	}
	if !f.FirstToken.IsZero() {
		d.TTFTSeconds = f.FirstToken.Sub(f.Started).Seconds()
	}
	if n := len(f.Gaps); n > 0 {
		slices.Sort(f.Gaps)
		d.ITLP50Seconds, d.ITLMaxSeconds = float64(f.Gaps[n/2]), f.GapMax.Seconds()
	}
}

// fillTie says how the worker was taken of those with the least score, so that the choice can be made again.
func fillTie(d *declog.Record, of *sched.Decision) {
	rule := of.Tie
	d.TieSeconds, d.TieShare, d.TieWarm, d.TieEquals = rule.Seconds, rule.Share, rule.Warm, rule.Equals
	if rule.Equals == 0 && len(of.Rows) > 0 {
		d.TieEquals = -1
	}
	d.TieDraw = repick.Draw(d)
}

// escapeBytesMax is the longest way in which JSON writes one character: two halves of a surrogate pair.
const escapeBytesMax = 12

// fillText takes the prompt's beginning over as it reads, not as it stands in the body: an escape that was cut in two goes.
func fillText(d *declog.Record, f *facts.Facts) {
	text := facts.Cut(f.Excerpt, declog.TextBytesMax)
	d.TextCut = len(text) < len(f.Excerpt)
	for cut := range min(escapeBytesMax, len(text)) {
		quoted := append(append([]byte{'"'}, text[:len(text)-cut]...), '"')
		if json.Unmarshal(quoted, &d.Text) == nil {
			return
		}
	}
	d.Text = string(text) // of a body that is no JSON
}
