package metrics

// ForecastState is how far off the forecasts of one model's requests were, as totals since the start; see docs/COST.md.
type ForecastState struct {
	Model                                         string
	Answers, WithinP50, WithinP90                 int
	OutputExpected, OutputTokens, OutputError     float64
	Prefills                                      int
	PrefillExpected, PrefillSeconds, PrefillError float64
	PrefillOffP50, PrefillOffP90                  float64 // of the real time
}

// emitForecasts shows them by the models' labels, under one of which may be several models: sums are added up, and of quantiles the model's
// with most prefills is shown.
func emitForecasts(emit emitter, all []ForecastState, label func(model string) string) {
	var shown []ForecastState
	at := map[string]int{}
	for _, f := range all {
		f.Model = label(f.Model)
		n, known := at[f.Model]
		if !known {
			at[f.Model] = len(shown)
			shown = append(shown, f)
			continue
		}
		sum := &shown[n]
		if f.Prefills > sum.Prefills {
			sum.PrefillOffP50, sum.PrefillOffP90 = f.PrefillOffP50, f.PrefillOffP90
		}
		sum.Answers, sum.WithinP50, sum.WithinP90, sum.Prefills = sum.Answers+f.Answers, sum.WithinP50+f.WithinP50, sum.WithinP90+f.WithinP90, sum.Prefills+f.Prefills
		sum.OutputExpected, sum.OutputTokens, sum.OutputError = sum.OutputExpected+f.OutputExpected, sum.OutputTokens+f.OutputTokens, sum.OutputError+f.OutputError
		sum.PrefillExpected, sum.PrefillSeconds, sum.PrefillError = sum.PrefillExpected+f.PrefillExpected, sum.PrefillSeconds+f.PrefillSeconds, sum.PrefillError+f.PrefillError
	}
	for i := range shown {
		f := &shown[i]
		emit("warmpath_forecast_answers_total", float64(f.Answers), f.Model)
		emit("warmpath_forecast_answers_within_total", float64(f.WithinP50), f.Model, "0.5")
		emit("warmpath_forecast_answers_within_total", float64(f.WithinP90), f.Model, "0.9")
		emit("warmpath_forecast_prefills_total", float64(f.Prefills), f.Model)
		for _, v := range []struct {
			what            string
			tokens, seconds float64
		}{{"expected", f.OutputExpected, f.PrefillExpected}, {"real", f.OutputTokens, f.PrefillSeconds}, {"error", f.OutputError, f.PrefillError}} {
			emit("warmpath_forecast_output_tokens_total", v.tokens, f.Model, v.what)
			emit("warmpath_forecast_prefill_seconds_total", v.seconds, f.Model, v.what)
		}
		emit("warmpath_forecast_prefill_off_ratio", f.PrefillOffP50, f.Model, "0.5")
		emit("warmpath_forecast_prefill_off_ratio", f.PrefillOffP90, f.Model, "0.9")
	}
}
