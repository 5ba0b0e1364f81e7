// Package flow is where requests wait while no worker has room for them: bounded, in the order in which they deserve to go, and placed as
// late as can be. It is pure: the time and chance are arguments, and its owner holds a lock around it.
//
//	q, err := flow.New(flow.DefaultOptions())
//	it := &flow.Item{Line: "m", Tenant: "search", Class: 0, Bytes: 9000, Seconds: 1.4, Prefill: 0.3, Owner: request}
//	if !q.Waits(it) && place(it) {           // who can run at once never waits
//		q.Pass(now, it)
//	} else {
//		err = q.Push(now, it, chance)        // a *flow.Refusal says why not, and when to come again
//	}
//	for q.Pop(now, tryToPlace) != nil {      // when a worker has room again: popped, placed and reserved in one step
//	}
//	q.Settle(it, seconds)                    // what it really took
//
// Requests that wait for the same workers stand in one line. Of a line, the most urgent class goes first, though one that has starved for
// AgeAfter gets AgedShare of what those above it get. Within a class, the tenant goes first that has had least engine time for its weight.
// Within a tenant, short prefills go first, but none is overtaken for longer than a multiple of its own size.
package flow

import (
	"fmt"
	"math"
	"time"

	"github.com/warmpath/warmpath/internal/spelling"
)

// Order is which of a tenant's requests goes first.
type Order string

// The orders. Each gives a request one number when it comes, and the least goes first, so that no order has to be made again as time goes.
const (
	Shortest   Order = "shortest" // by arrival plus SizeMultiple times the predicted prefill
	FirstCome  Order = "fcfs"
	ByDeadline Order = "deadline" // by when it has to leave the queue
)

// Class is a priority class. Ceiling and the bounds of Options count all classes together, so that what is above a class' ceiling is kept
// for those above it.
type Class struct {
	Name    string
	Order   Order
	WaitMax time.Duration // in the queue; requests may ask for less, never for more
	// Ceiling is the share of the queue's bounds up to which this class may fill it, in (0, 1].
	Ceiling float64
	// ShedFrom is the share of its ceiling, filled by this class and those above it, from which on requests are refused by chance, more and
	// more until all are at the ceiling; 1: none is before. A cliff makes all clients come back at once. What is below the class does not
	// count, since it waits behind it.
	ShedFrom float64
	// Preemptible work may be taken back from its worker for a class above, as long as no byte of its answer went out.
	Preemptible bool
	// PreemptAfter is how long the class waits before it takes the place of preemptible ones below it, or a quarter longer for work that is
	// as good as done; 0: only when it would be too late otherwise.
	PreemptAfter time.Duration
}

// Options of a Queue.
type Options struct {
	Classes []Class // the most urgent first

	RequestsMax int
	BytesMax    int64
	SecondsMax  float64 // predicted engine time of all that waits
	LinesMax    int     // lines with somebody in them
	AccountsMax int     // tenants without waiting requests, of one line and class, whose service is remembered

	// TenantRoom bounds what one tenant may hold of the queue: this many times what is still free of it. A tenant alone gets
	// TenantRoom/(1+TenantRoom) of it, and there is always room for one that comes later (dynamic thresholds, Choudhury and Hahne 1998).
	TenantRoom float64
	// Ahead is how much engine time, by weight, a tenant who asked for less than its share may have before its turn: what it asks for
	// comes in lots, and its share is that of a time longer than one of them.
	Ahead time.Duration
	// SizeMultiple is for how long a request may be overtaken by its tenant's shorter ones, in multiples of its own predicted prefill.
	SizeMultiple float64
	// AgeAfter is how long a class may get nothing before AgedShare of what those above it get, in engine time, is its own.
	AgeAfter  time.Duration
	AgedShare float64
	// PreemptTimesMax is how often one request may be taken back from a worker.
	PreemptTimesMax int
	// ForgetAfter is for how long a line with nobody in it is remembered: how fast it went, and who had how much.
	ForgetAfter time.Duration
}

// DefaultOptions are the defaults as visible values. At 8 workers, 600 s of work are over a minute of waiting: those who come later do
// better elsewhere.
func DefaultOptions() Options {
	return Options{
		Classes: []Class{
			{Name: "interactive", Order: Shortest, WaitMax: 30 * time.Second, Ceiling: 1, ShedFrom: 1},
			{Name: "standard", Order: Shortest, WaitMax: time.Minute, Ceiling: 0.9, ShedFrom: 0.6},
			{Name: "batch", Order: Shortest, WaitMax: time.Hour, Ceiling: 0.8, ShedFrom: 0.5, Preemptible: true},
		},
		RequestsMax: 10_000, BytesMax: 512 << 20, SecondsMax: 600, LinesMax: 1024, AccountsMax: 4096,
		TenantRoom: 8, Ahead: 5 * time.Second, SizeMultiple: 10, AgeAfter: 10 * time.Second, AgedShare: 0.05,
		PreemptTimesMax: 2, ForgetAfter: time.Minute,
	}
}

// Check says what of the options cannot be.
func (o *Options) Check() error {
	if len(o.Classes) == 0 {
		return fmt.Errorf("there is no class, want at least one (setting classes)")
	}
	names := map[string]bool{}
	for i, c := range o.Classes {
		switch where := fmt.Sprintf("classes[%d]", i); {
		case names[c.Name]:
			return fmt.Errorf("class %q has no name of its own (setting %s.name)", c.Name, where)
		case !spelling.IsName(c.Name):
			return fmt.Errorf("%q is no name for a class, want %s (setting %s.name)", c.Name, spelling.NameForm, where)
		case c.Order != Shortest && c.Order != FirstCome && c.Order != ByDeadline:
			return fmt.Errorf("unknown order %q; there are: %s, %s, %s (setting %s.order)", c.Order, Shortest, FirstCome, ByDeadline, where)
		case c.WaitMax <= 0 || c.PreemptAfter < 0:
			return fmt.Errorf("class %s waits %v and preempts after %v; want more than 0, and at least 0 (settings %s.wait_max, %[4]s.preempts_after)", c.Name, c.WaitMax, c.PreemptAfter, where)
		case !(c.Ceiling > 0 && c.Ceiling <= 1):
			return fmt.Errorf("ceiling %v of class %s is not in (0, 1] (setting %s.ceiling)", c.Ceiling, c.Name, where)
		case i > 0 && c.Ceiling > o.Classes[i-1].Ceiling:
			return fmt.Errorf("ceiling %v of class %s is above the %v of class %s, which is more urgent (setting %s.ceiling)", c.Ceiling, c.Name, o.Classes[i-1].Ceiling, o.Classes[i-1].Name, where)
		case i == 0 && c.Preemptible:
			return fmt.Errorf("class %s is preemptible, and no class is above it that could take its place (setting %s.preemptible)", c.Name, where)
		case !(c.ShedFrom >= 0 && c.ShedFrom <= 1):
			return fmt.Errorf("class %s sheds from %v, want 0 to 1 (setting %s.shed_from)", c.Name, c.ShedFrom, where)
		}
		names[c.Name] = true
	}
	for _, n := range []struct {
		setting string
		value   float64
		least   float64
	}{
		{"requests_max", float64(o.RequestsMax), 1}, {"bytes_max", float64(o.BytesMax), 1}, {"work_max", o.SecondsMax, 0.001},
		{"lines_max", float64(o.LinesMax), 1}, {"accounts_max", float64(o.AccountsMax), 1}, {"tenant_room", o.TenantRoom, 0.01},
		{"ahead", o.Ahead.Seconds(), 0}, {"size_multiple", o.SizeMultiple, 0}, {"age_after", o.AgeAfter.Seconds(), 0}, {"aged_share", o.AgedShare, 0},
		{"preempted_max", float64(o.PreemptTimesMax), 0}, {"forget_after", o.ForgetAfter.Seconds(), 0},
	} {
		if !(n.value >= n.least) || math.IsInf(n.value, 0) {
			return fmt.Errorf("%s is %v, want %v or more (setting %[1]s)", n.setting, n.value, n.least)
		}
	}
	return nil
}

// Queue holds those who wait, and remembers for a while who was served.
type Queue struct {
	o       Options
	lines   map[string]*line
	order   []*line              // the same, the oldest first: no sum and no choice may go by the order of a map
	holds   map[string]*hold     // of tenants that have something waiting
	company map[string][]company // by line and class
	leave   heap[int64, *Item]   // by when they have to leave, in nanoseconds
	total   hold
	class   []hold // of each class

	linesGrown, holdsGrown grown

	counts  []Counts      // by class
	overdue []*Item       // timed out, and not told to the owner yet
	turn    []*line       // reused from one Pop to the next,
	full    [][kinds]bool // and so is this
	seq     uint64
	taken   uint64    // how many were
	swept   time.Time // when lines were last looked at for old age
}

// hold is what waits, of one tenant or of all.
type hold struct {
	requests int
	bytes    int64
	nanos    int64 // of predicted engine time; whole numbers, so that nothing is left when all are gone
}

func (h *hold) add(it *Item, sign int64) {
	h.requests += int(sign)
	h.bytes += sign * it.Bytes
	h.nanos += sign * it.cost
}

func (h *hold) join(other hold) {
	h.requests += other.requests
	h.bytes += other.bytes
	h.nanos += other.nanos
}

// New makes an empty queue.
func New(o Options) (*Queue, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	return &Queue{o: o, lines: map[string]*line{}, holds: map[string]*hold{}, company: map[string][]company{}, class: make([]hold, len(o.Classes)), counts: make([]Counts, len(o.Classes)),
		leave: heap[int64, *Item]{at: func(it *Item) *int { return &it.leaveAt }}}, nil
}

// Reload takes other options from now on; on an error the old ones stay. Those who wait keep the place and the time that they have. Classes
// are known by their place, also to requests on their way, so that they may change in all but number, name and order.
func (q *Queue) Reload(o Options) error {
	if err := o.Check(); err != nil {
		return err
	}
	if len(o.Classes) != len(q.o.Classes) {
		return fmt.Errorf("there are %d classes now and would be %d; their number, names and order change with a restart only (setting classes)", len(q.o.Classes), len(o.Classes))
	}
	for i, c := range o.Classes {
		if c.Name != q.o.Classes[i].Name {
			return fmt.Errorf("class %s would become %s; their number, names and order change with a restart only (setting classes[%d].name)", q.o.Classes[i].Name, c.Name, i)
		}
	}
	q.o = o
	return nil
}

// Waiting is how many wait.
func (q *Queue) Waiting() int { return q.total.requests }

// Waits says whether an item must wait behind others who could take the same room and go before it: they would have gone, had there been any.
// Otherwise it may be placed at once, without the queue: also before those of its class who have had more for their weight.
func (q *Queue) Waits(it *Item) bool {
	l := q.lines[it.Line]
	if l == nil {
		return false
	}
	kind, class := it.kind(), q.classOf(it)
	for c := range l.bands[:class] {
		if l.bands[c].waiting[kind].requests > 0 {
			return true
		}
	}
	b := &l.bands[class]
	if b.ready[kind].len() == 0 {
		return false
	}
	had := b.start()
	if a := b.accounts[it.Tenant]; a != nil {
		if a.items[kind].first != nil {
			return true
		}
		had = max(had, a.served)
	}
	return b.ready[kind].first().served <= had
}

// classOf is the item's class; one that does not exist counts as the least urgent.
func (q *Queue) classOf(it *Item) int {
	if it.Class < 0 || it.Class >= len(q.o.Classes) {
		return len(q.o.Classes) - 1
	}
	return it.Class
}
