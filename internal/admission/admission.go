// Package admission is the desk that a request passes before it is placed: who asks, what they may use, how urgent it is and how long it
// can wait.
//
//	d, err := admission.New(admission.Options{Classes: classes, Class: "standard", Tenants: table})
//	var guest admission.Guest
//	if err := d.Enter(now, fields, &guest); err != nil { ... }             // tenant.ErrNoKey, tenant.ErrKey, or an odd header
//	if err := d.Begin(now, &guest, model, expected); err != nil { ... }    // ErrModel, *tenant.Refusal
//	d.End(now, &guest, ran, used)                                          // on every way out, once
//
// Any number of goroutines may use a Desk.
package admission

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/header"
	"github.com/warmpath/warmpath/internal/tenant"
)

// What clients may send.
const (
	HeaderClass   = "X-Warmpath-Class"     // the class that a request asks for
	HeaderTimeout = "X-Request-Timeout-Ms" // how long the client waits for its answer to begin, in milliseconds
	timeoutMax    = 24 * time.Hour         // more is none
	bearer        = "Bearer "              // before a key in Authorization
)

// Options of a Desk.
type Options struct {
	Classes []string      // of the queue, the most urgent first
	Class   string        // of requests for which nothing else is said
	Tenants *tenant.Table // nil: nobody is asked who they are
	// TenantHeader is where clients name their tenant when nobody is asked for a key; "" nowhere. It gives answers' lengths and shares of the
	// queue to the name, and nothing else: whoever can write a header can write any name.
	TenantHeader    string
	TenantsBytesMax int    // longer names are cut
	BodyPriority    string // one of the Priority constants; "" is PriorityIgnore
}

// Desk admits. Only New makes a usable one.
type Desk struct {
	o     Options // but for what the rules have
	rules atomic.Pointer[rules]

	mu   sync.Mutex // guards book
	book *tenant.Book
}

// rules are what Use changes.
type rules struct {
	class        int // of Options.Class
	bodyPriority string
}

// Guest is one request at the desk. Its memory serves the next one.
type Guest struct {
	Tenant    string
	Class     int
	ClassName string
	ClassWhy  string // it is not the one that was asked for, and why; "" it is, or none was
	Weight    float64
	Timeout   time.Duration // the client's own, 0 none
	Known     bool          // the tenant was told by a key, which is not for engines

	who    *tenant.Tenant
	asked  bool // its header asked for a class
	inside bool // between Begin and End
	unpaid bool // its tenant's limit of money left it no model
	ticket tenant.Ticket
}

// ErrModel says that the tenant may not use the model. It reads as if there were none.
var ErrModel = errors.New("no worker serves the model")

// New makes a desk.
func New(o Options) (*Desk, error) {
	r, err := o.check()
	if err != nil {
		return nil, err
	}
	d := &Desk{o: o}
	d.rules.Store(r)
	if o.Tenants != nil {
		d.book = tenant.NewBook(o.Tenants)
	}
	return d, nil
}

func (o *Options) check() (*rules, error) {
	r := &rules{slices.Index(o.Classes, o.Class), o.BodyPriority}
	if r.class < 0 {
		return nil, fmt.Errorf("there is no class %q; there are: %s (setting queue.class)", o.Class, strings.Join(o.Classes, ", "))
	}
	if o.Tenants != nil {
		return r, o.Tenants.CheckClasses(o.Classes)
	}
	return r, nil
}

// Use takes other Options from now on, in all but Classes and the header of tenants; on an error the old ones stay. What was used stays with
// the tenants' names. A desk that asked nobody before cannot begin to, nor cease.
func (d *Desk) Use(now time.Time, o Options) error {
	o.Classes = d.o.Classes
	r, err := o.check()
	if err != nil {
		return err
	}
	if (o.Tenants != nil) != (d.book != nil) {
		return errors.New("whether clients are asked for a key changes with a restart only (settings tenants.file, tenants.keys_env)")
	}
	d.rules.Store(r)
	if o.Tenants == nil {
		return nil
	}
	return d.Replace(now, o.Tenants)
}

// Replace takes another table of tenants. What was used stays with their names. It fails for a desk that asked nobody before.
func (d *Desk) Replace(now time.Time, t *tenant.Table) error {
	if err := t.CheckClasses(d.o.Classes); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.book == nil {
		return errors.New("the router was started without tenants, so that none can be changed (setting tenants.file)")
	}
	d.book.Replace(now, t)
	return nil
}

// Enter finds out who asks, and what for. Errors are the client's mistake.
func (d *Desk) Enter(now time.Time, in header.Fields, g *Guest) error {
	err := d.enter(now, in, g)
	g.ClassName = d.o.Classes[g.Class]
	if asked := in.Get(HeaderClass); err == nil && asked != "" && asked != g.ClassName {
		g.ClassWhy = d.denied(g, fmt.Sprintf("class %.64q", asked), slices.Contains(d.o.Classes, asked)).Error()
	}
	return err
}

func (d *Desk) enter(now time.Time, in header.Fields, g *Guest) error {
	*g = Guest{Class: d.rules.Load().class, Weight: 1, asked: in.Get(HeaderClass) != ""}
	var err error
	if text := in.Get(HeaderTimeout); text != "" {
		if g.Timeout, err = timeout(text); err != nil {
			return err
		}
	}
	if d.book == nil {
		if d.o.TenantHeader != "" {
			t := in.Get(d.o.TenantHeader)
			g.Tenant = t[:min(len(t), d.o.TenantsBytesMax)]
		}
		// Without keys anybody may ask for a less urgent class, and nobody for a more urgent one.
		if i := slices.Index(d.o.Classes, in.Get(HeaderClass)); i > g.Class {
			g.Class = i
		}
		return nil
	}
	d.mu.Lock()
	g.who, err = d.book.Find(now, keyOf(in))
	d.mu.Unlock()
	if err != nil {
		return err
	}
	g.Tenant, g.Weight, g.Known = g.who.Name, g.who.Weight, true
	if i := slices.Index(d.o.Classes, g.who.ClassOf(in.Get(HeaderClass))); i >= 0 {
		g.Class = i
	}
	return nil
}

func timeout(text string) (time.Duration, error) {
	ms, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || ms <= 0 {
		return 0, fmt.Errorf("%s must be a whole number of milliseconds above 0, such as 30000", HeaderTimeout)
	}
	if ms >= timeoutMax.Milliseconds() {
		return 0, nil
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// keyOf is the key that a client shows, in either dialect's header; "" none. An Authorization of another kind is no key, also where it
// consists of one.
func keyOf(in header.Fields) string {
	a, key := in.Get("Authorization"), in.Get("X-Api-Key")
	switch {
	case len(a) > len(bearer) && strings.EqualFold(a[:len(bearer)], bearer):
		return strings.TrimSpace(a[len(bearer):])
	case a != "" && key == "":
		return noKey
	}
	return key
}

// noKey is not one of ours: none has a space.
const noKey = " "

// Least says whether a request is of the least urgent of several classes.
func (d *Desk) Least(g *Guest) bool { return len(d.o.Classes) > 1 && g.Class == len(d.o.Classes)-1 }

// Begin lets a request in that is expected to use so much, or says which limit keeps it out. Nothing is counted then, nor for one that is
// in already: it is tried with another model.
func (d *Desk) Begin(now time.Time, g *Guest, model string, expected tenant.Use) error {
	if g.who == nil || g.inside {
		return nil
	}
	if model != "" && !g.MayUse(model) {
		return ErrModel
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.book.Begin(now, &g.ticket, g.who, expected)
	g.inside = err == nil
	return err
}

// End settles what Begin counted: ran says whether an engine began the request, and used what it took. Without a Begin it only counts what Unpaid
// refused.
func (d *Desk) End(now time.Time, g *Guest, ran bool, used tenant.Use) {
	if g.who == nil {
		return
	}
	g.inside = false
	d.mu.Lock()
	defer d.mu.Unlock()
	if g.unpaid {
		g.unpaid = false
		d.book.Refused(g.who, tenant.LimitSpend)
	}
	d.book.End(now, &g.ticket, ran, used)
}

// MayUse says whether whoever asks may use a model.
func (g *Guest) MayUse(model string) bool { return g.who == nil || g.who.MayUse(model) }

// Sees says whether whoever asks may see a model in a list; err is that of Enter.
func (d *Desk) Sees(now time.Time, in header.Fields) (*Guest, error) {
	g := new(Guest)
	return g, d.Enter(now, in, g)
}

// statsAtOnce is how many tenants' accounts are copied while the desk is held: requests wait for it.
const statsAtOnce = 128

// Stats are the accounts of all tenants that have asked, in the order in which they first did; none where nobody is asked for a key. They are
// copied a few at a time, so that the first may be a moment older than the last.
func (d *Desk) Stats(now time.Time) (all []tenant.Stats) {
	if d.book == nil {
		return nil
	}
	page := func(from int) (some []tenant.Stats, next int) {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.book.Stats(now, from, statsAtOnce)
	}
	for from, first := 0, true; first || from > 0; first = false {
		var some []tenant.Stats
		some, from = page(from)
		all = append(all, some...)
	}
	return all
}

// Tenants is how many tenants there are; 0 where nobody is asked for a key.
func (d *Desk) Tenants() int {
	if d.book == nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.book.Table().Len()
}

// Spent is what tenants spent today, to be kept over a restart; false: nobody spent anything.
func (d *Desk) Spent(now time.Time) (tenant.Spent, bool) {
	if d.book == nil {
		return tenant.Spent{}, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.book.Spent(now)
	return s, len(s.Money) > 0
}

// Restore adds what Spent told, of this process's life before or of another's.
func (d *Desk) Restore(now time.Time, s tenant.Spent) {
	if d.book == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.book.Restore(now, s)
}

// Means are what a request's model is chosen by besides the request: the least tier that its tenant wants, and the money that it has left
// today; false: it has no such limit.
func (d *Desk) Means(now time.Time, g *Guest) (tierMin int, left float64, limited bool) {
	if g.who == nil {
		return 0, 0, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	money, limited := d.book.Left(now, g.who)
	return g.who.TierMin, money.Units(), limited
}

// Spends says whether money is anybody's limit.
func (d *Desk) Spends() bool {
	if d.book == nil {
		return false
	}
	d.mu.Lock()
	t := d.book.Table()
	d.mu.Unlock()
	return t.Spends()
}

// Limited says whether what the request costs is held against its tenant's limit.
func (g *Guest) Limited() bool { return g.who != nil && g.who.Limits.SpendPerDay > 0 }
