package gate

import (
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/pools"
)

func TestAnOutlookSaysWhatTheRequestWouldTakeThereAndInEachPool(t *testing.T) {
	g := pooled(t, false, pools.Options{Pools: []pools.Pool{{Name: "short"}, {Name: "long"}}, Default: "short"}, "short-1", "short-2", "long-1")
	g.UsePrices(func(string) cost.Price { return cost.Price{Input: 2, Output: 8} })
	req := request(chainOf(long('a')))
	held, at := g.goes(t, func(e *entrant) { e.req = request(chainOf(long('b'))) })
	if at != "short-1" && at != "short-2" {
		t.Fatal(at)
	}
	o, err := g.Outlook(req, &Wait{}, Otherwise{})
	if err != nil {
		t.Fatal(err)
	}
	if o.Forecast.PromptTokens != req.PromptTokens || o.Forecast.OutputTokens <= 0 || !o.Forecast.Priced || o.Forecast.Money <= float64(req.PromptTokens)*2/1e6 {
		t.Errorf("there: %+v", o.Forecast)
	}
	workers := map[string]int{}
	decode := map[string]float64{}
	for _, p := range o.Pools {
		workers[p.Pool], decode[p.Pool] = p.Workers, p.DecodeSeconds
	}
	if len(workers) != 2 || workers["short"] != 2 || workers["long"] != 1 || decode["short"] <= decode["long"] {
		t.Errorf("%v workers; answers take %v s, beside another in the short pool", workers, decode)
	}
	g.Release(&held.a, held.req.Chain, 0, true)
}

func TestAClientIsToldWhatItsRequestIsExpectedToTakeAndToCostWhereThatHasAPrice(t *testing.T) {
	g := newGate(t, "a")
	said := func() string {
		a, err := g.Place(request(chainOf(long('a'))))
		if err != nil {
			t.Fatal(err)
		}
		defer g.Release(a, request(chainOf(long('a'))).Chain, 0, true)
		return a.Cost(1500 * time.Millisecond)
	}
	first := said()
	for _, want := range []string{`"prompt_tokens":6400,"cached_tokens":0,`, `"output_tokens_p90":`, `"engine_seconds":`, `"kv_tokens_peak":`, `"waited_seconds":1.5}`} {
		if !strings.Contains(first, want) {
			t.Errorf("%s is not in %s", want, first)
		}
	}
	g.UsePrices(func(string) cost.Price { return cost.Price{Input: 1000, Cached: 1000} })
	if second := said(); strings.Contains(first, "money") || !strings.Contains(second, `"money":6.4,`) {
		t.Errorf("%s\n%s", first, second)
	}
}
