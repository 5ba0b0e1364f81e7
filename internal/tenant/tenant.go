// Package tenant tells who asks, by API key, and what they may: which models, in which priority class, with what share, how much at a
// time, a minute and a day. It is pure: the time is an argument, and the owner of a Book holds a lock around it.
//
//	table, err := tenant.Parse("tenants.yaml", text)
//	b := tenant.NewBook(table)
//	who, err := b.Find(now, key)                      // ErrNoKey, ErrKey
//	if !who.MayUse(model) { ... }                     // told as if there were no such model
//	err = b.Begin(now, &ticket, who, tenant.Use{Tokens: 900})   // a *tenant.Refusal names the limit, and when to come again
//	b.End(now, &ticket, true, tenant.Use{Tokens: 874})          // on every way out, once; what never ran costs nothing
//
// Who somebody is comes from the credential alone. Nothing that a client can write beside it (a user, a tenant, a class, an address)
// gives it another share or another limit; a class can be asked for only where the tenant may.
//
// Limits are kept per router: two routers before the same engines allow twice as much.
package tenant

import (
	"cmp"
	"crypto/subtle"
	"errors"
	"slices"
	"strings"
	"time"
)

// Tenant is one who asks, and what they may.
type Tenant struct {
	Name   string
	Models []string // served names; with a * at the end, all that begin so. None: all
	// Class is the priority class of its requests, and Classes those that its requests may ask for in its place. "": the router's default.
	Class   string
	Classes []string
	Weight  float64 // its share among others of its class; more than 0
	TierMin int     // least quality of a model that answers where a name stands for several
	Limits  Limits
}

// Limits are what a tenant may use; 0 is no limit.
type Limits struct {
	InFlight          int
	RequestsPerMinute int
	TokensPerMinute   int
	SpendPerDay       Money // from midnight to midnight, UTC
}

// key is what is known of one API key.
type key struct {
	digest  Digest
	tenant  *Tenant
	expires time.Time // zero: never
}

// Table is all tenants and their keys. It does not change once it is made.
type Table struct {
	tenants   map[string]*Tenant
	keys      map[Digest]*key
	anonymous *Tenant // who asks without a key; nil: nobody may
}

// Len is how many tenants there are.
func (t *Table) Len() int { return len(t.tenants) }

// Errors of Find. They tell nothing of the key, nor how near it came to being one.
var (
	ErrNoKey = errors.New("an API key is needed, as Authorization: Bearer or x-api-key")
	ErrKey   = errors.New("the API key is not valid")
)

// Find tells whose key it is; "" is none. In a table without any key, which is of somebody anonymous, every key will do: it is passed over.
//
// It looks up the key's digest, so that the time it takes says nothing of how many characters of a guess are right: whoever can choose a
// key cannot choose its digest.
func (t *Table) Find(now time.Time, text string) (*Tenant, error) {
	if len(t.keys) == 0 && t.anonymous != nil {
		return t.anonymous, nil
	}
	if text == "" {
		if t.anonymous == nil {
			return nil, ErrNoKey
		}
		return t.anonymous, nil
	}
	if !wellFormed(text) {
		return nil, ErrKey
	}
	digest := digestOf(text)
	k := t.keys[digest]
	if k == nil || subtle.ConstantTimeCompare(k.digest[:], digest[:]) != 1 || !k.expires.IsZero() && !now.Before(k.expires) {
		return nil, ErrKey
	}
	return k.tenant, nil
}

// Named is the tenant of that name; nil when there is none.
func (t *Table) Named(name string) *Tenant { return t.tenants[name] }

// Tenants are all of them, by name.
func (t *Table) Tenants() []*Tenant {
	all := make([]*Tenant, 0, len(t.tenants))
	for _, one := range t.tenants {
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b *Tenant) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Spends says whether money is anybody's limit.
func (t *Table) Spends() bool {
	for _, one := range t.tenants {
		if one.Limits.SpendPerDay > 0 {
			return true
		}
	}
	return false
}

// Anonymous is who asks without a key; nil: nobody may.
func (t *Table) Anonymous() *Tenant { return t.anonymous }

// Keys is how many keys a tenant has, those that have expired too.
func (t *Table) Keys(of *Tenant) (n int) {
	for _, k := range t.keys {
		if k.tenant == of {
			n++
		}
	}
	return n
}

// CheckClasses names the first class that is not among those that there are.
func (t *Table) CheckClasses(known []string) error {
	for _, one := range t.Tenants() {
		for _, class := range append(slices.Clone(one.Classes), one.Class) {
			if class != "" && !slices.Contains(known, class) {
				return errors.New("tenant " + one.Name + ": there is no class" + unlessKey(class) + "; there are: " + strings.Join(known, ", ") + " (settings class, classes)")
			}
		}
	}
	return nil
}

// MayUse says whether the tenant may use a model.
func (t *Tenant) MayUse(model string) bool {
	if len(t.Models) == 0 {
		return true
	}
	return slices.ContainsFunc(t.Models, func(pattern string) bool {
		begin, all := strings.CutSuffix(pattern, "*")
		return model == pattern || all && strings.HasPrefix(model, begin)
	})
}

// ClassOf is the class of a request that asks for one; "" asks for none. What it may not have is passed over: a client's word is a wish.
func (t *Tenant) ClassOf(asked string) string {
	if asked != "" && slices.Contains(t.Classes, asked) {
		return asked
	}
	return t.Class
}
