package tenant

import "time"

// Would says which limit Begin would keep a request out by; nil: none. Nothing is counted.
func (b *Book) Would(now time.Time, who *Tenant, expected Use) error {
	if who = b.table.tenants[who.Name]; who == nil {
		return ErrKey
	}
	a := b.accounts[who.Name]
	if a == nil {
		a = &account{}
	}
	expected.Tokens, expected.Money = max(0, expected.Tokens), max(0, expected.Money)
	a.at(now.Unix())
	if r := a.refuse(now, who.Limits, expected); r != nil {
		return r
	}
	return nil
}
