package metrics

import "testing"

func TestForecastsAreShownByModelAndUnknownModelsTogether(t *testing.T) {
	s := New(func(s *State) {
		s.Forecasts = []ForecastState{
			{Model: "m", Answers: 10, WithinP50: 5, WithinP90: 9, OutputExpected: 100, OutputTokens: 120, OutputError: 40, Prefills: 4, PrefillExpected: 2, PrefillSeconds: 2.5, PrefillError: 0.75, PrefillOffP50: 0.05, PrefillOffP90: 0.5},
			{Model: "x", Answers: 1, Prefills: 1, PrefillOffP50: 1}, {Model: "y", Answers: 2, Prefills: 2, PrefillOffP50: 2},
		}
	})
	s.KnowModel("m")
	other := s.ModelLabel("x")
	has(t, scrape(t, s), `warmpath_forecast_answers_total{model="m"} 10`, `warmpath_forecast_answers_within_total{model="m",share="0.9"} 9`,
		`warmpath_forecast_output_tokens_total{model="m",what="error"} 40`, `warmpath_forecast_prefill_seconds_total{model="m",what="real"} 2.5`,
		`warmpath_forecast_prefill_off_ratio{model="m",share="0.5"} 0.05`, `warmpath_forecast_answers_total{model="`+other+`"} 3`,
		`warmpath_forecast_prefill_off_ratio{model="`+other+`",share="0.5"} 2`)
}
