package tenant

import (
	"fmt"
	"slices"
	"time"
)

// Use is what a request takes, expected or in fact.
type Use struct {
	Tokens int // of prompt and answer
	Money  Money
}

// Ticket is one request's stay with its tenant. It is the owner's memory; the zero Ticket is ready for Begin.
type Ticket struct {
	account  *account
	reserved Use
	began    int64 // second of Begin
}

// LimitSpend is the limit of money, by its setting's name.
const LimitSpend = "spend_per_day"

// Refusal is which limit keeps a request out.
type Refusal struct {
	Limit string // the setting: in_flight, requests_per_minute, tokens_per_minute, spend_per_day
	// After is when there is room for this request, if nobody else comes; 0: not known, as for requests in flight.
	After time.Duration
	Never bool // the request alone is more than the limit: coming again is of no use
	text  string
}

func (r *Refusal) Error() string { return r.text }

// account is what a tenant has used.
type account struct {
	name             string
	requests, tokens window
	inFlight         int
	day              int64 // since 1970, UTC
	spent            Money
	held             Money // of it, what is reserved for requests under way
	last             int64 // second in which something happened
	stats            Stats
}

const secondsPerDay = 24 * 60 * 60

// Book keeps what tenants use against what they may. Its owner holds a lock around it.
type Book struct {
	table    *Table
	accounts map[string]*account
	order    []*account // as they first asked
}

// NewBook opens a book over a table.
func NewBook(t *Table) *Book { return &Book{table: t, accounts: map[string]*account{}} }

// Replace takes another table from now on. What tenants have used stays with their names; what was used by those who are gone is forgotten
// when it does not count any more.
func (b *Book) Replace(now time.Time, t *Table) {
	b.table = t
	for name, a := range b.accounts {
		if t.tenants[name] == nil && a.inFlight == 0 && now.Unix()-a.last > secondsPerDay {
			delete(b.accounts, name)
		}
	}
	b.order = slices.DeleteFunc(b.order, func(a *account) bool { return b.accounts[a.name] == nil })
}

// Table is the one in force.
func (b *Book) Table() *Table { return b.table }

// Find tells whose key it is, as Table.Find does.
func (b *Book) Find(now time.Time, key string) (*Tenant, error) { return b.table.Find(now, key) }

// Begin lets a request of a tenant in and reserves what it is expected to use, so that those that come at one time cannot all pass the same
// check. The error is a *Refusal, or ErrKey for a tenant that is gone since it was found; then nothing is counted against the tenant. All
// limits are looked at before the first one is charged.
//
// Tokens and requests are counted over the last 60 s, and up to a second longer: over no 60 s is there more than the limit, but for what
// requests use beyond what was expected of them. Fixed minutes were rejected, because they let twice as much through around their edges;
// so was a bucket that fills up, because it adds a minute's worth to a minute's worth.
func (b *Book) Begin(now time.Time, k *Ticket, who *Tenant, expected Use) error {
	if k.account != nil {
		return fmt.Errorf("the ticket of tenant %s is in use", who.Name)
	}
	who = b.table.tenants[who.Name]
	if who == nil {
		return ErrKey
	}
	a, second := b.account(who.Name), now.Unix()
	expected.Tokens, expected.Money = max(0, expected.Tokens), max(0, expected.Money)
	a.at(second)
	if r := a.refuse(now, who.Limits, expected); r != nil {
		a.stats.Refused[r.Limit]++
		return r
	}
	a.inFlight++
	a.requests.add(a.last, 1)
	a.tokens.add(a.last, int64(expected.Tokens))
	a.spent += expected.Money
	a.held += expected.Money
	a.stats.Begun++
	a.stats.Reserved += uint64(expected.Tokens)
	*k = Ticket{a, expected, a.last}
	return nil
}

func (b *Book) account(name string) *account {
	a := b.accounts[name]
	if a == nil {
		a = &account{name: name, stats: Stats{Refused: map[string]uint64{}}}
		b.accounts[name], b.order = a, append(b.order, a)
	}
	return a
}

// at brings an account to a second. A clock that was set back stands still.
func (a *account) at(second int64) {
	a.last = max(a.last, second)
	a.requests.to(a.last)
	a.tokens.to(a.last)
	if day := a.last / (24 * 60 * 60); day != a.day {
		a.day, a.spent, a.held = day, 0, 0 // what was reserved yesterday is of yesterday
	}
}

// refuse says which limit a request would exceed; nil: none.
func (a *account) refuse(now time.Time, l Limits, e Use) *Refusal {
	if l.InFlight > 0 && a.inFlight >= l.InFlight {
		return &Refusal{Limit: "in_flight", text: fmt.Sprintf("%d requests of this key's owner are in flight, of %d that may be (limit in_flight)", a.inFlight, l.InFlight)}
	}
	for _, m := range []struct {
		limit, unit string
		most, want  int
		window      *window
	}{
		{"requests_per_minute", "requests", l.RequestsPerMinute, 1, &a.requests},
		{"tokens_per_minute", "tokens", l.TokensPerMinute, e.Tokens, &a.tokens},
	} {
		excess := m.window.sum + int64(m.want) - int64(m.most)
		switch {
		case m.most == 0 || m.want == 0 || excess <= 0:
		case m.want > m.most:
			return &Refusal{Limit: m.limit, Never: true, text: fmt.Sprintf("the request is expected to take %d %s, more than the %d a minute that this key's owner may use (limit %s)", m.want, m.unit, m.most, m.limit)}
		default:
			after := time.Unix(m.window.when(excess), 0).Sub(now)
			return &Refusal{Limit: m.limit, After: after, text: fmt.Sprintf("%d %s in the last minute and %d of this request are more than the %d a minute that this key's owner may use (limit %s)",
				m.window.sum, m.unit, m.want, m.most, m.limit)}
		}
	}
	if l.SpendPerDay > 0 && (a.spent >= l.SpendPerDay || a.spent+e.Money > l.SpendPerDay) {
		return a.spendRefusal(now, l.SpendPerDay, e.Money)
	}
	return nil
}

// spendRefusal says why a request may not spend so much. What is reserved for requests under way comes back as they end, as far as they do
// not use it; what is spent, at midnight.
func (a *account) spendRefusal(now time.Time, most, wants Money) *Refusal {
	midnight := time.Unix((a.day+1)*secondsPerDay, 0).UTC()
	r := &Refusal{Limit: LimitSpend, Never: wants > most}
	begin := fmt.Sprintf("%s spent today (%s of it reserved for requests under way) and %s of this request are more than the %s a day that this key's owner may spend (limit spend_per_day)",
		a.spent, a.held, wants, most)
	switch {
	case r.Never:
		begin = fmt.Sprintf("the request is expected to cost %s, more than the %s a day that this key's owner may spend (limit spend_per_day)", wants, most)
	case a.spent-a.held < most && a.spent-a.held+wants <= most:
		begin += "; it may have room when those are over"
	default:
		r.After = midnight.Sub(now)
		begin += "; the next day begins at " + midnight.Format(time.RFC3339)
	}
	r.text = begin
	return r
}

// Left is the money that a tenant may still spend today, reservations included; false: there is no limit.
func (b *Book) Left(now time.Time, who *Tenant) (left Money, limited bool) {
	if who = b.table.tenants[who.Name]; who == nil || who.Limits.SpendPerDay == 0 {
		return 0, false
	}
	a := b.account(who.Name)
	a.at(now.Unix())
	return max(0, who.Limits.SpendPerDay-a.spent), true
}

// End settles a request: what was reserved is replaced by what was used, to the token. ran says whether an engine began it: a request that
// was refused, found no worker, timed out in a queue or was malformed never did, and counts for nothing at all. One that was aborted ran,
// and used what it had. A second End changes nothing.
func (b *Book) End(now time.Time, k *Ticket, ran bool, used Use) {
	a := k.account
	if a == nil {
		return
	}
	k.account = nil
	a.at(now.Unix())
	a.inFlight--
	used.Tokens, used.Money = max(0, used.Tokens), max(0, used.Money)
	if !ran {
		used = Use{}
		a.requests.add(k.began, -1)
		a.stats.NeverRan++
	}
	if more := used.Tokens - k.reserved.Tokens; more > 0 {
		a.tokens.add(a.last, int64(more))
		a.stats.Beyond += uint64(more)
	} else {
		a.tokens.add(k.began, int64(more))
		a.stats.Returned += uint64(-more)
	}
	today := k.began/secondsPerDay == a.day
	if today {
		a.held -= k.reserved.Money
	}
	if more := used.Money - k.reserved.Money; more > 0 || today {
		a.spent += more
	}
}
