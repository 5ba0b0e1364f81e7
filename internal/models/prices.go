package models

import (
	"fmt"

	"github.com/warmpath/warmpath/internal/cost"
)

// Priced is what requests for a model that workers serve cost.
type Priced struct {
	Model string     `yaml:"model" doc:"A model that workers serve. Empty: all that are not named."`
	Price cost.Price `yaml:"price" doc:"What it costs. A candidate of a virtual model that has no price of its own has this one."`
}

// Prices are those of models that workers serve. The zero value knows none.
type Prices struct {
	of     map[string]cost.Price
	others cost.Price
}

// PricesOf is a table of what the options say: what stands under prices, then for models that are not named there the first price that a
// candidate has.
func PricesOf(o Options) Prices {
	p := Prices{of: make(map[string]cost.Price, len(o.Prices))}
	for _, m := range o.Prices {
		if m.Model == "" {
			p.others = m.Price
			continue
		}
		p.of[m.Model] = m.Price
	}
	for _, v := range o.Models {
		for _, c := range v.Candidates {
			if _, told := p.of[c.Model]; !told && c.Price != (cost.Price{}) {
				p.of[c.Model] = c.Price
			}
		}
	}
	return p
}

// Of is a served model's price; the zero Price where nobody said one.
func (p Prices) Of(model string) cost.Price {
	if price, ok := p.of[model]; ok {
		return price
	}
	return p.others
}

// Set says whether any model has a price.
func (p Prices) Set() bool { return len(p.of) > 0 || p.others != (cost.Price{}) }

func (k *checker) prices() {
	first := map[string]int{}
	for i, m := range k.o.Prices {
		key := fmt.Sprintf("prices[%d]", i)
		if at, twice := first[m.Model]; twice {
			k.report(key+".model", "%q has its price in prices[%d] already", m.Model, at)
			continue
		}
		first[m.Model] = i
		if k.chooser.virtuals[m.Model] != nil {
			k.report(key+".model", "%q is virtual: its candidates have prices", m.Model)
		}
		if setting, value := m.Price.Check(); setting != "" {
			k.report(key+".price."+setting, "is %v, want 0 or more", value)
		}
	}
	k.priced = PricesOf(Options{Prices: k.o.Prices})
}
