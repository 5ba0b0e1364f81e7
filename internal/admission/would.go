package admission

import (
	"time"

	"github.com/warmpath/warmpath/internal/tenant"
)

// Would says what Begin would, and counts nothing.
func (d *Desk) Would(now time.Time, g *Guest, model string, expected tenant.Use) error {
	if g.who == nil {
		return nil
	}
	if model != "" && !g.who.MayUse(model) {
		return ErrModel
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.book.Would(now, g.who, expected)
}

// Unpaid is what limit of its tenant's keeps a request out that costs so much money at least, whichever model takes it; nil: none. End counts it.
func (d *Desk) Unpaid(now time.Time, g *Guest, money float64) error {
	if g.who == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.book.Unpaid(now, g.who, tenant.MoneyOf(money))
	g.unpaid = err != nil
	return err
}
