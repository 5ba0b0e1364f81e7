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
