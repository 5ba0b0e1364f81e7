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

// Unpaid says why a request is kept out that cannot be had for less than wants, where that is the tenant's limit of money; nil: it has none
// now. Nothing is counted, see Refused.
func (b *Book) Unpaid(now time.Time, who *Tenant, wants Money) error {
	if who = b.table.tenants[who.Name]; who == nil || who.Limits.SpendPerDay == 0 {
		return nil
	}
	a := b.account(who.Name)
	a.at(now.Unix())
	return a.spendRefusal(now, who.Limits.SpendPerDay, wants)
}

// Refused counts a request that a limit kept out before Begin was asked.
func (b *Book) Refused(who *Tenant, limit string) { b.account(who.Name).stats.Refused[limit]++ }
