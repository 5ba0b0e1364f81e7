package main

import (
	"github.com/warmpath/warmpath/internal/forecast"
	"github.com/warmpath/warmpath/internal/metrics"
)

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
