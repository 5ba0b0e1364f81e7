package pools

import (
	"fmt"
	"math"
	"slices"

	"github.com/warmpath/warmpath/internal/llmapi"
)

// anyAdapter stands for all adapters in a rule.
const anyAdapter = "*"

// Request is what rules look at.
type Request struct {
	Model, Adapter, Tenant string
	PromptTokens           int
	TotalTokens            int // and those of the answer that is expected
	KVTokensPeak           int // it will need at most, likely
	Needs                  llmapi.Needs
	BestEffort             bool
	Heavy                  bool
}

// State is how a pool is for one request, now.
type State struct {
	Workers      int     // that serve its model and are up
	IdleWorkers  int     // of these, without a request
	WaitSeconds  float64 // expected before its prefill begins, on the best of them
	KVTokensHeld int     // that the pool's requests need at their peaks
	KVTokensMax  int     // that its workers hold; 0 unknown
}

// Why says how a step came to be open, or why it is not.
type Why uint8

// The reasons. Those from NoWorker on are why a step is closed.
const (
	Ruled    Why = iota // a rule matched
	Unruled             // no rule matched
	Directed            // heavy requests go there
	Spilled             // the wait before was too long
	NoWorker            // nobody there is up and serves the model
	Busy                // it takes prompts as short as this one on idle workers only, and none is
	Full                // its KV tokens are spoken for
	Near                // the wait before is short enough
	Dear                // the wait there, with its price, is no shorter
)

// Step is one pool that may serve a request.
type Step struct {
	Pool     int // index; -1 any worker
	Open     bool
	Why      Why
	Rule     string  // that matched; "" none
	OnlyIdle bool    // only its workers without a request may take this one
	Overflow bool    // it was spilled to
	Price    float64 // seconds that the wait there must be shorter by

	wait, limit float64 // seconds that were compared, or tokens
}

// Route returns the pools that may serve a request, in order, and appends them to into. The request goes to the first open step whose
// workers can take it; when none is open it waits for the first. A pool that is spilled to comes before the one whose wait is too long.
func (s *Set) Route(r Request, state func(pool int) State, into []Step) []Step {
	matched, to, why := s.match(&r)
	w := walk{set: s, r: &r, state: state, rule: matched, first: len(into)}
	if r.Heavy && s.heavy >= 0 {
		into = w.add(Step{Pool: s.heavy, Why: Directed}, leg{}, into)
	}
	for _, pool := range to {
		// What is not worth spilling to may still be next in the rule's list.
		into = slices.DeleteFunc(into, func(at Step) bool { return at.Pool == pool && (at.Why == Near || at.Why == Dear) })
		into = w.add(Step{Pool: pool, Why: why}, leg{}, into)
	}
	return into
}

// walk is one request on its way through the pools.
type walk struct {
	set   *Set
	r     *Request
	state func(pool int) State
	rule  string
	first int // step of this request
}

// leg is what a spill is weighed by: the wait that it spares, and the one from which on it is allowed. Seconds.
type leg struct{ wait, limit float64 }

// add judges a pool and what it spills to.
func (w *walk) add(at Step, from leg, into []Step) []Step {
	if slices.ContainsFunc(into[w.first:], func(s Step) bool { return s.Pool == at.Pool }) {
		return into
	}
	at.Rule = w.rule
	if at.Pool < 0 {
		at.Open = true
		return append(into, at)
	}
	wait := w.set.enter(&at, w.r, w.state(at.Pool))
	open := at.Open
	if at.Overflow && open {
		at.weigh(from, wait)
	}
	here := len(into)
	into = append(into, at)
	to := w.set.over[at.Pool]
	if to < 0 || open && !at.Open {
		return into
	}
	o := &w.set.pools[at.Pool].Overflow
	next := leg{wait, o.Wait.Seconds()}
	switch {
	case !open && at.Overflow: // who could not go here is still where the spill began
		next = from
	case !open:
		next.wait = math.Inf(1)
	}
	into = w.add(Step{Pool: to, Why: Spilled, Overflow: true, Price: at.Price + o.Price.Seconds()}, next, into)
	for i := here; i+1 < len(into) && into[i+1].Open; i++ {
		into[i], into[i+1] = into[i+1], into[i]
	}
	return into
}

// Home is the pool that a request belongs to when load is left aside, and the rule that says so; -1 any worker.
func (s *Set) Home(r Request) (pool int, rule string) {
	rule, to, _ := s.match(&r)
	if r.Heavy && s.heavy >= 0 {
		return s.heavy, rule
	}
	return to[0], rule
}

func (s *Set) match(r *Request) (name string, to []int, why Why) {
	for i := range s.rules {
		if m := &s.rules[i]; m.matches(r) {
			return m.name, m.to, Ruled
		}
	}
	return "", []int{s.home}, Unruled
}

func (m *rule) matches(r *Request) bool {
	effort := uint8(1)
	if r.BestEffort {
		effort = 2
	}
	return m.prompt.has(r.PromptTokens) && m.total.has(max(r.TotalTokens, r.PromptTokens)) && m.effort&effort != 0 &&
		m.modality&modalityOf(r.Needs) != 0 && named(m.models, r.Model) && named(m.tenants, r.Tenant) &&
		(named(m.adapters, r.Adapter) || r.Adapter != "" && slices.Contains(m.adapters, anyAdapter))
}

func named(list []string, name string) bool { return list == nil || slices.Contains(list, name) }

// enter judges a pool by itself, and returns the wait there in seconds.
func (s *Set) enter(at *Step, r *Request, st State) (wait float64) {
	p := &s.pools[at.Pool]
	at.OnlyIdle = r.PromptTokens < p.IdleBelow
	room := st.KVTokensMax
	if p.KVTokensMax > 0 {
		room = p.KVTokensMax
	}
	switch {
	case st.Workers == 0:
		at.Why = NoWorker
	case at.OnlyIdle && st.IdleWorkers == 0:
		at.Why = Busy
	case room > 0 && st.KVTokensHeld > 0 && st.KVTokensHeld+r.KVTokensPeak > room: // an empty pool takes whatever comes
		at.Why, at.wait, at.limit = Full, float64(st.KVTokensHeld+r.KVTokensPeak), float64(room)
	default:
		at.Open = true
	}
	if at.OnlyIdle && at.Open {
		return 0 // an idle worker begins at once
	}
	return st.WaitSeconds
}

// weigh judges a step that is spilled to, where the wait would be there seconds.
func (at *Step) weigh(from leg, there float64) {
	at.wait, at.limit = from.wait, there+at.Price
	switch {
	case from.wait <= from.limit:
		at.Open, at.Why, at.limit = false, Near, from.limit
	case there+at.Price >= from.wait:
		at.Open, at.Why = false, Dear
	}
}

// Explain says in words how a step came to be.
func (s *Set) Explain(at Step) string {
	by := "no rule matched"
	if at.Rule != "" {
		by = fmt.Sprintf("rule %q", at.Rule)
	}
	what := ""
	switch at.Why {
	case Directed:
		what = ", heavy requests go there"
	case Spilled:
		what = fmt.Sprintf(", spilled: %s before it, %.1f s with its price", seconds(at.wait), at.limit)
	case NoWorker:
		what = ", closed: no worker there is up and serves the model"
	case Busy:
		what = fmt.Sprintf(", closed: prompts below %d tokens go to idle workers only, and none is (setting idle_below)", s.pools[at.Pool].IdleBelow)
	case Full:
		what = fmt.Sprintf(", closed: %.0f KV tokens would be needed of %.0f (setting kv_tokens_max)", at.wait, at.limit)
	case Near:
		what = fmt.Sprintf(", closed: %s before it is not more than %.1f s (setting overflow.wait)", seconds(at.wait), at.limit)
	case Dear:
		what = fmt.Sprintf(", closed: %s before it, %.1f s with its price (setting overflow.price)", seconds(at.wait), at.limit)
	}
	return s.Name(at.Pool) + ": " + by + what
}

func seconds(s float64) string {
	if math.IsInf(s, 1) {
		return "no way in"
	}
	return fmt.Sprintf("a wait of %.1f s", s)
}
