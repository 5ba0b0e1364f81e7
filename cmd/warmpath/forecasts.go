package main

import (
	"fmt"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/forecast"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/metrics"
)

// logForecast notes what was expected of a request.
func logForecast(d *declog.Record, f *forecast.Forecast) {
	d.PrefillSecondsEst, d.DecodeSecondsEst, d.EngineSecondsEst = f.PrefillSeconds, f.DecodeSeconds, f.EngineSeconds
	d.OutputTokensEst, d.OutputTokensP50Est, d.OutputTokensP90Est = f.OutputTokens, f.OutputP50, f.OutputP90
	d.KVTokensPeakEst, d.MoneyEst = f.KVTokensPeak, f.Money
}

// foretell has an explanation say what a request would take, and foretold what was expected of one that was.
func (e *explanation) foretell(o *gate.Outlook) {
	f := &o.Forecast
	e.Answer.ExpectedTokens, e.Answer.P50Tokens, e.Answer.P90Tokens = f.OutputTokens, f.OutputP50, f.OutputP90
	one := costOf(f)
	e.Cost, one.Heavy = &one, o.Heavy
	for _, p := range o.Pools {
		e.Pools = append(e.Pools, explainedPool{p.Pool, p.Workers, p.CachedTokens, costOf(&p.Forecast)})
	}
}

func (e *explanation) foretold(d *declog.Record) {
	e.Answer.P50Tokens, e.Answer.P90Tokens = d.OutputTokensP50Est, d.OutputTokensP90Est
	if d.PrefillSecondsEst+d.DecodeSecondsEst > 0 {
		one := costOf(&forecast.Forecast{Money: d.MoneyEst, Priced: d.MoneyEst > 0, Estimate: cost.Estimate{PrefillSeconds: d.PrefillSecondsEst, DecodeSeconds: d.DecodeSecondsEst,
			EngineSeconds: d.EngineSecondsEst, KVTokensPeak: d.KVTokensPeakEst}})
		e.Cost = &one
	}
}

func costOf(f *forecast.Forecast) explainedCost {
	c := explainedCost{PrefillSeconds: f.PrefillSeconds, DecodeSeconds: f.DecodeSeconds, EngineSeconds: f.EngineSeconds, KVTokensPeak: f.KVTokensPeak}
	if f.Priced {
		money := f.Money
		c.Money = &money
	}
	return c
}

// String is the cost in words.
func (c *explainedCost) String() string {
	text := fmt.Sprintf("%s s of prefill and %s s of decoding until it is done", decimals(c.PrefillSeconds), decimals(c.DecodeSeconds))
	if c.EngineSeconds > 0 {
		text += fmt.Sprintf(", its share of the engine's time meanwhile %s s", decimals(c.EngineSeconds))
	}
	if c.KVTokensPeak > 0 {
		text += fmt.Sprintf(", KV memory for %s", counted(c.KVTokensPeak, "token"))
	}
	if c.Money != nil {
		text += fmt.Sprintf(", %.6g in money", *c.Money)
	}
	return text
}

// pools says what the request would take in each of them.
func (p *explainPrinter) pools(e *explanation) {
	for i := range e.Pools {
		in := &e.Pools[i]
		p.say("in pool %s (%s, %s cached): %s\n", in.Pool, counted(in.Workers, "worker"), counted(in.CachedTokens, "token"), &in.explainedCost)
	}
}

// forecastState is how far off the forecasts of one model's requests were, in /state. Sums are since the start.
type forecastState struct {
	Model           string  `json:"model"`
	Answers         int     `json:"answers"`
	WithinP50       int     `json:"within_p50"`
	WithinP90       int     `json:"within_p90"`
	OutputExpected  float64 `json:"output_tokens_expected"`
	OutputTokens    float64 `json:"output_tokens"`
	OutputError     float64 `json:"output_tokens_error"`
	Prefills        int     `json:"prefills"`
	PrefillExpected float64 `json:"prefill_seconds_expected"`
	PrefillSeconds  float64 `json:"prefill_seconds"`
	PrefillError    float64 `json:"prefill_seconds_error"`
	PrefillOffP50   float64 `json:"prefill_off_p50"`
	PrefillOffP90   float64 `json:"prefill_off_p90"`
}

// forecastsNow are all models' for /state.
func (r *router) forecastsNow() []forecastState {
	all := []forecastState{}
	for _, m := range r.gate.Forecasts() {
		all = append(all, forecastState{m.Name, m.Requests, m.WithinP50, m.WithinP90, m.OutputExpected, m.OutputTokens, m.OutputError,
			m.Prefills, m.PrefillExpected, m.PrefillSeconds, m.PrefillError, m.PrefillOffP50, m.PrefillOffP90})
	}
	return all
}

// collectForecasts fills them in for a scrape.
func (r *router) collectForecasts(s *metrics.State) {
	for _, m := range r.gate.Forecasts() {
		s.Forecasts = append(s.Forecasts, forecastMetric(&m))
	}
}

func forecastMetric(m *forecast.Model) metrics.ForecastState {
	return metrics.ForecastState{Model: m.Name, Answers: m.Requests, WithinP50: m.WithinP50, WithinP90: m.WithinP90, OutputExpected: m.OutputExpected, OutputTokens: m.OutputTokens,
		OutputError: m.OutputError, Prefills: m.Prefills, PrefillExpected: m.PrefillExpected, PrefillSeconds: m.PrefillSeconds, PrefillError: m.PrefillError,
		PrefillOffP50: m.PrefillOffP50, PrefillOffP90: m.PrefillOffP90}
}
