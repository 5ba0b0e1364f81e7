package pools

import (
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/llmapi"
)

// set is made of options that must be right.
func set(t *testing.T, o Options) *Set {
	t.Helper()
	s, problems := New(o)
	if len(problems) > 0 {
		t.Fatalf("%v", problems)
	}
	return s
}

// example is a short, a long and a batch pool, the long one taking short prompts when it is idle.
func example() Options {
	return Options{
		Pools: []Pool{
			{Name: "short", Overflow: Overflow{To: "long", Wait: 2 * time.Second, Price: 500 * time.Millisecond}},
			{Name: "long", Labels: []string{"role=long"}, IdleBelow: 32_000, KVTokensMax: 500_000},
			{Name: "batch", Workers: []string{"old-1", "old-2"}},
		},
		Rules: []Rule{
			{Name: "batch", Order: 1, BestEffort: "yes", To: []string{"batch", "short"}},
			{Name: "long prompts", Order: 2, Prompt: Range{Min: 32_000}, To: []string{"long"}},
		},
		Default: "short",
	}
}

func TestAWorkerIsInThePoolsThatNameItOrItsLabels(t *testing.T) {
	s := set(t, example())
	f := func(id, labels, want string) {
		t.Helper()
		var names []string
		in := s.Members(id, strings.Fields(labels))
		for i, name := range s.Names() {
			if in.Has(i) {
				names = append(names, name)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s with %q is in %q, want %q", id, labels, got, want)
		}
	}
	f("gpu-1", "pool=short zone=a", "short")
	f("gpu-2", "role=long pool=short", "short long")
	f("gpu-3", "role=longer", "")
	f("old-1", "", "batch")
	f("old-2", "role=long", "long batch")
	f("gpu-4", "", "")
}

// fleet is the state of pools by name.
type fleet map[string]State

// routed shows the steps of a request: the open ones first in order, closed ones in brackets.
func routed(s *Set, now fleet, r Request) string {
	var out []string
	for _, at := range s.Route(r, func(pool int) State { return now[s.Name(pool)] }, nil) {
		text := s.Name(at.Pool)
		if at.OnlyIdle {
			text += "/idle"
		}
		if at.Overflow {
			text += "+"
		}
		if !at.Open {
			text = "(" + text + ")"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestRulesRangesAndLoadSayWhichPoolsARequestMayUse(t *testing.T) {
	s := set(t, example())
	up, idle := State{Workers: 4}, State{Workers: 2, IdleWorkers: 1}
	late := State{Workers: 4, WaitSeconds: 3}
	short, long := Request{PromptTokens: 900}, Request{PromptTokens: 60_000, KVTokensPeak: 61_000}
	for _, c := range []struct {
		name string
		now  fleet
		r    Request
		want string
	}{
		{"a short one stays", fleet{"short": up, "long": idle}, short, "short (long/idle+)"},
		{"it spills to idle workers when the wait is long", fleet{"short": late, "long": idle}, short, "long/idle+ short"},
		{"and not when none is idle", fleet{"short": late, "long": up}, short, "short (long/idle+)"},
		{"it spills when nobody is there", fleet{"long": idle}, short, "long/idle+ (short)"},
		{"a long one goes to its pool", fleet{"short": up, "long": late}, long, "long"},
		{"and waits for it when its KV room is spoken for", fleet{"short": up, "long": {Workers: 2, KVTokensHeld: 450_000}}, long, "(long)"},
		{"an empty pool takes whatever comes", fleet{"long": idle}, Request{PromptTokens: 600_000, KVTokensPeak: 600_100}, "long"},
		{"best effort goes by the earlier rule", fleet{"short": up, "batch": up, "long": up}, Request{PromptTokens: 60_000, BestEffort: true}, "batch short (long+)"},
		{"and to the next in its list when nobody is in the first", fleet{"short": up, "long": up}, Request{PromptTokens: 900, BestEffort: true}, "(batch) short (long/idle+)"},
	} {
		if got := routed(s, c.now, c.r); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestSpillingIsPricedAndExplained(t *testing.T) {
	s := set(t, example())
	f := func(short, long float64, want string) {
		t.Helper()
		now := fleet{"short": {Workers: 1, WaitSeconds: short}, "long": {Workers: 1, IdleWorkers: 1, WaitSeconds: long}}
		r := Request{PromptTokens: 31_999}
		steps := s.Route(r, func(pool int) State { return now[s.Name(pool)] }, nil)
		var text []string
		for _, at := range steps {
			text = append(text, s.Explain(at))
		}
		if got := strings.Join(text, "; "); got != want {
			t.Errorf("waits of %v and %v s:\n got %s\nwant %s", short, long, got, want)
		}
	}
	f(1.5, 0, "short: no rule matched; long: no rule matched, closed: a wait of 1.5 s before it is not more than 2.0 s (setting overflow.wait)")
	f(2.5, 0, "long: no rule matched, spilled: a wait of 2.5 s before it, 0.5 s with its price; short: no rule matched")
	o := example()
	o.Pools[1].IdleBelow = 0
	s = set(t, o)
	f(2.5, 2.1, "short: no rule matched; long: no rule matched, closed: a wait of 2.5 s before it, 2.6 s with its price (setting overflow.price)")
}

func TestASpillGoesOnWhereTheNextPoolCannotTakeIt(t *testing.T) {
	second := time.Second
	s := set(t, Options{Default: "a", Pools: []Pool{
		{Name: "a", Overflow: Overflow{To: "b", Wait: second}}, {Name: "b", Overflow: Overflow{To: "c", Wait: second}}, {Name: "c"},
	}})
	wait := func(seconds float64) State { return State{Workers: 1, WaitSeconds: seconds} }
	f := func(now fleet, want string) {
		t.Helper()
		if got := routed(s, now, Request{}); got != want {
			t.Errorf("%v: %s, want %s", now, got, want)
		}
	}
	f(fleet{"a": wait(0.5), "c": wait(0)}, "a (b+) (c+)")
	f(fleet{"a": wait(5), "c": wait(0)}, "c+ a (b+)")
	f(fleet{"a": wait(5), "b": wait(3), "c": wait(0)}, "c+ b+ a")
	f(fleet{"a": wait(5), "b": wait(0.5), "c": wait(0)}, "b+ a (c+)")
	f(fleet{"b": wait(9), "c": wait(0)}, "c+ b+ (a)")
	f(fleet{}, "(a) (b+) (c+)")
}

func TestModalityAdapterModelAndTenantAreMatched(t *testing.T) {
	s := set(t, Options{
		Pools: []Pool{{Name: "eyes"}, {Name: "lora"}, {Name: "ours"}, {Name: "chats"}},
		Rules: []Rule{
			{Name: "media", Order: 1, Modalities: []string{"vision", "audio"}, To: []string{"eyes"}},
			{Name: "adapters", Order: 2, Adapters: []string{"*"}, To: []string{"lora"}},
			{Name: "ours", Order: 3, Tenants: []string{"research"}, Models: []string{"m"}, To: []string{"ours"}},
			{Name: "small", Order: 4, Total: Range{Max: 1000}, To: []string{"chats"}},
		},
	})
	f := func(r Request, want, rule string) {
		t.Helper()
		pool, by := s.Home(r)
		if s.Name(pool) != want || by != rule {
			t.Errorf("%+v: %s by %q, want %s by %q", r, s.Name(pool), by, want, rule)
		}
	}
	f(Request{Needs: llmapi.NeedVision | llmapi.NeedTools}, "eyes", "media")
	f(Request{Needs: llmapi.NeedVision | llmapi.NeedAudio, Adapter: "x"}, "eyes", "media")
	f(Request{Adapter: "x", Tenant: "research", Model: "m"}, "lora", "adapters")
	f(Request{Tenant: "research", Model: "m"}, "ours", "ours")
	f(Request{Tenant: "research", Model: "n", PromptTokens: 990, TotalTokens: 999}, "chats", "small")
	f(Request{PromptTokens: 990, TotalTokens: 1000}, "any", "")
	f(Request{PromptTokens: 1001}, "any", "")
}

func TestHeavyRequestsAreDirected(t *testing.T) {
	o := example()
	o.Heavy = "long"
	s := set(t, o)
	if got := routed(s, fleet{"short": {Workers: 3}, "long": {Workers: 2}}, Request{PromptTokens: 32_000, Heavy: true}); got != "long" {
		t.Errorf("a heavy one goes to %s", got)
	}
	if got := routed(s, fleet{"short": {Workers: 3}}, Request{PromptTokens: 20_000, Heavy: true}); got != "(long/idle) short" {
		t.Errorf("without its pool it goes to %s", got)
	}
}

func TestWithoutPoolsEveryWorkerTakesEveryRequest(t *testing.T) {
	s := set(t, Options{})
	if got := routed(s, nil, Request{PromptTokens: 1 << 20, Heavy: true, BestEffort: true}); got != "any" {
		t.Errorf("it may go to %s", got)
	}
	if s.Members("w", []string{"pool=x"}) != 0 {
		t.Error("a worker is in a pool that is none")
	}
}

func BenchmarkRoute(b *testing.B) {
	s, _ := New(example())
	steps := make([]Step, 0, 8)
	state := func(pool int) State { return State{Workers: 4, WaitSeconds: 3, IdleWorkers: 1} }
	b.ReportAllocs()
	for b.Loop() {
		steps = s.Route(Request{PromptTokens: 900}, state, steps[:0])
	}
}
