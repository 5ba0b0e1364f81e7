package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/models"
	"github.com/warmpath/warmpath/internal/pools"
)

// lastDecision waits for so many records of a log and returns the last.
func lastDecision(t *testing.T, file string, records int) (last declog.Record) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d records to be written", records), func() bool {
		text, _ := os.ReadFile(file)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		return len(lines) >= records && json.Unmarshal([]byte(lines[records-1]), &last) == nil
	})
	return last
}

func TestWhatARequestCostsIsToldBeforeItRunsAndHeldAgainstWhatItTook(t *testing.T) {
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	rt := start(t, func(c *config.Config) {
		c.DecisionLog.File, c.ExplainHeaders = log, true
		c.Prices = []models.Priced{{Price: cost.Price{Input: 1e6, Output: 2e6}}} // a unit a token of the prompt, two of the answer
		c.Pools = []pools.Pool{{Name: "first", Workers: []string{"w1"}}, {Name: "second", Workers: []string{"w2"}}}
		c.DefaultPool = "first"
	}, newWorker(t, nil), newWorker(t, nil))

	e := rt.explain("", bounded("hello", 30))
	if e.Cost == nil || e.Cost.Money == nil || *e.Cost.Money <= 1 || e.Cost.EngineSeconds <= 0 || e.Cost.KVTokensPeak <= 0 || e.Answer.P90Tokens != 30 || len(e.Pools) != 2 || e.Pools[1].Pool != "second" || e.Pools[1].Money == nil {
		t.Errorf("%+v %+v", e, e.Cost)
	}
	var text strings.Builder
	if err := printExplanation(&text, &e, 0); err != nil || !strings.Contains(text.String(), " in money\n") || !strings.Contains(text.String(), "in pool second (1 worker, 0 tokens cached): ") ||
		!strings.Contains(text.String(), "and 30 in nine of ten") {
		t.Errorf("%v\n%s", err, text.String())
	}

	r := rt.post("/v1/chat/completions", bounded("hello", 30), "X-Warmpath-Cost", "1")
	var told struct {
		Money         float64 `json:"money"`
		EngineSeconds float64 `json:"engine_seconds"`
		P90           float64 `json:"output_tokens_p90"`
	}
	if err := json.Unmarshal([]byte(r.header.Get("X-Warmpath-Cost")), &told); err != nil || told.P90 != 30 || told.EngineSeconds <= 0 || told.Money <= 1 {
		t.Errorf("%v: %q", err, r.header.Get("X-Warmpath-Cost"))
	}
	d := lastDecision(t, log, 1)
	if d.Money != 10+2*2 || math.Abs(d.MoneyEst-told.Money) > 1e-3 || d.OutputTokensP90Est != 30 || d.EngineSecondsEst <= 0 || d.KVTokensPeakEst <= 0 {
		t.Errorf("%+v", d)
	}
	said := rt.state().Forecasts
	if len(said) != 1 || said[0].Model != "m" || said[0].Answers != 1 || said[0].OutputTokens != 2 || said[0].WithinP90 != 1 {
		t.Errorf("%+v", said)
	}
	if n := rt.metric("warmpath_forecast_output_tokens_total", `model="m"`, `what="real"`); n != 2 {
		t.Errorf("%v tokens", n)
	}
}

func TestARequestThatNoEngineBeganCostsNothing(t *testing.T) {
	log := filepath.Join(t.TempDir(), "decisions.jsonl")
	rt := start(t, func(c *config.Config) {
		c.DecisionLog.File = log
		c.Prices = []models.Priced{{Model: "m", Price: cost.Price{Input: 1e6}}}
	}, newWorker(t, func(c *call) { c.json(http.StatusBadRequest, `{"error":{"message":"no"}}`) }))
	if r := rt.post("/v1/chat/completions", bounded("hello", 30)); r.status != http.StatusBadRequest {
		t.Fatalf("%d", r.status)
	}
	if d := lastDecision(t, log, 1); d.Money != 0 || d.MoneyEst <= 0 {
		t.Errorf("%+v", d)
	}
	if said := rt.state().Forecasts; len(said) != 0 {
		t.Errorf("it is held against a forecast: %+v", said)
	}
}

func TestSeveralAnswersAreForetoldAndLearnedApart(t *testing.T) {
	rt := start(t, func(c *config.Config) { c.ExplainHeaders = true }, newWorker(t, func(c *call) {
		c.json(http.StatusOK, `{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":10,"completion_tokens":200}}`)
	}))
	body := strings.Replace(chat("again", false), `"model"`, `"n":4,"model"`, 1)
	for range 120 {
		if r := rt.post("/v1/chat/completions", body); r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	four, one := rt.explain("", body).Answer, rt.explain("", chat("again", false)).Answer
	if four.ExpectedTokens < 190 || four.ExpectedTokens > 260 || one.P50Tokens < 45 || one.P50Tokens > 60 {
		t.Errorf("four answers: %+v, one: %+v", four, one)
	}
}
