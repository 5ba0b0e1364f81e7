package models

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/cost"
)

func TestAModelsPriceIsTheOneNamedForItThenItsCandidatesThenThatOfAllOthers(t *testing.T) {
	o := Options{
		Prices: []Priced{{Model: "a", Price: cost.Price{Input: 1}}, {Price: cost.Price{Input: 9}}},
		Models: []Virtual{
			{Name: "v", Candidates: []Candidate{{Model: "a", Price: cost.Price{Input: 2}}, {Model: "b", Price: cost.Price{Input: 3}}, {Model: "c"}}},
			{Name: "w", Candidates: []Candidate{{Model: "b", Price: cost.Price{Input: 4}}}},
		},
	}
	p := PricesOf(o)
	for model, want := range map[string]float64{"a": 1, "b": 3, "c": 9, "d": 9} {
		if got := p.Of(model).Input; got != want {
			t.Errorf("%s costs %v, want %v", model, got, want)
		}
	}
	if !p.Set() || PricesOf(Options{}).Set() || (Prices{}).Of("a") != (cost.Price{}) {
		t.Error("prices where there are none, or none where there are")
	}
}

func TestACandidateWithoutAPriceHasThatOfItsModel(t *testing.T) {
	c := chooser(t, Options{
		Prices: []Priced{{Model: "dear", Price: cost.Price{Output: 30}}, {Price: cost.Price{Output: 1}}},
		Models: []Virtual{{Name: "v", Candidates: []Candidate{{Model: "dear"}, {Model: "cheap"}}, Fallback: []Fallback{{Model: "elsewhere"}}}},
	})
	f := fleet{"dear": up("h100-8b"), "cheap": up("h100-8b"), "elsewhere": up("h100-8b")}
	got, err := c.Choose(Ask{Name: "v", Work: cost.Work{PromptTokens: 100}}, f.look, nil)
	if err != nil || got.Model != "cheap" || got.Rows[0].Money != 30*200/1e6 || got.Rows[1].Money != 200/1e6 {
		t.Errorf("%v %+v", err, got)
	}
	got, err = c.Choose(Ask{Name: "v", Work: cost.Work{PromptTokens: 100}, Failed: []Failure{{"cheap", Down}}}, f.look, nil)
	if err != nil || got.Model != "elsewhere" || got.Rows[got.Row].Money != 200/1e6 {
		t.Errorf("%v %+v", err, got)
	}
}

func TestPricesThatCannotBeMeantAreRefused(t *testing.T) {
	_, problems := New(Options{Prices: []Priced{{Model: "a"}, {Model: "a"}, {Model: "v"}, {Price: cost.Price{WorkerHour: -1}}}, Models: []Virtual{{Name: "v", Candidates: []Candidate{{Model: "a"}}}}})
	text := ""
	for _, p := range problems {
		text += p.String() + "\n"
	}
	for _, want := range []string{`prices[1].model: "a" has its price in prices[0]`, `prices[2].model: "v" is virtual`, `prices[3].price.worker_hour: is -1`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}
