package pools

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/llmapi"
)

func TestMUL01RulesThatCannotBeMeantAreRefusedWithTheirPlaceAndReason(t *testing.T) {
	ab := []Pool{{Name: "a"}, {Name: "b"}}
	to := []string{"a"}
	for _, c := range []struct {
		o    Options
		want string // of all problems, a part of each, by ;
	}{
		{Options{Pools: []Pool{{Name: "a"}, {Name: "a"}, {Name: ""}}}, `pools[1].name: "a" is the name of pools[0]; pools[2].name: "" is no name`},
		{Options{Pools: []Pool{{Name: "any"}}}, `pools[0].name: "any" is no name`},
		{Options{Pools: []Pool{{Name: "a b,\n"}}}, `pools[0].name: "a b,\n" is no name`},
		{Options{Pools: ab, Default: "c"}, `default_pool: unknown pool "c"; there are: a, b`},
		{Options{Heavy: "long"}, `heavy_pool: unknown pool "long"; there are none`},
		{Options{Pools: []Pool{{Name: "a", Labels: []string{"role"}}}}, `pools[0].labels[0]: "role" is no label`},
		{Options{Pools: []Pool{{Name: "a", KVTokensMax: -1, IdleBelow: -1}}}, `pools[0].kv_tokens_max: is negative; pools[0].idle_below: is negative`},
		{Options{Pools: []Pool{{Name: "a", Overflow: Overflow{To: "x"}}}}, `pools[0].overflow.to: unknown pool "x"`},
		{Options{Pools: []Pool{{Name: "a", Overflow: Overflow{Wait: time.Second}}}}, `pools[0].overflow: says when to spill but not where`},
		{Options{Pools: []Pool{{Name: "a", Overflow: Overflow{To: "a"}}}}, `pools[0].overflow.to: spills in a circle: a -> a`},
		{Options{Pools: []Pool{{Name: "x", Overflow: Overflow{To: "a"}}, {Name: "a", Overflow: Overflow{To: "b"}}, {Name: "b", Overflow: Overflow{To: "a"}}}},
			`pools[1].overflow.to: spills in a circle: a -> b -> a`},
		{Options{Pools: ab, Rules: []Rule{{}}}, `pool_rules[0].to: names no pool`},
		{Options{Pools: ab, Rules: []Rule{{To: []string{"a", "c", "a"}}}}, `pool_rules[0].to[1]: unknown pool "c"; pool_rules[0].to[2]: "a" is in the list already`},
		{Options{Pools: ab, Rules: []Rule{{Name: "r", To: to, Order: 1, Tenants: []string{"x"}}, {Name: "r", To: to}}}, `pool_rules[1].name: "r" is the name of pool_rules[0]`},
		{Options{Pools: ab, Rules: []Rule{{To: to, Prompt: Range{Min: 9, Max: 9}}}}, `pool_rules[0].prompt_tokens: from 9 up to 9 is no range`},
		{Options{Pools: ab, Rules: []Rule{{To: to, Total: Range{Min: -1}}}}, `pool_rules[0].total_tokens: from -1 up to 0 is no range`},
		{Options{Pools: ab, Rules: []Rule{{To: to, Prompt: Range{Min: 9}, Total: Range{Max: 9}}}}, `pool_rules[0].total_tokens: ends at 9, below the least prompt of 9 tokens`},
		{Options{Pools: ab, Rules: []Rule{{To: to, Modalities: []string{"smell"}, BestEffort: "maybe"}}}, `pool_rules[0].modalities[0]: unknown modality "smell"; pool_rules[0].best_effort: is "maybe"`},
		{Options{Pools: ab, Rules: []Rule{{Name: "one", To: to, Prompt: Range{Max: 5000}}, {Name: "two", To: to, Prompt: Range{Min: 4000}}}},
			`pool_rules[1].order: "two" and "one" (pool_rules[0]) can match the same request, such as one of 4000 prompt tokens; give them different orders`},
		{Options{Pools: ab, Rules: []Rule{{Name: "one", To: to, Prompt: Range{Max: 5000}}, {Name: "two", To: to, Tenants: []string{"x"}}}},
			`pool_rules[1].order: "two" and "one"`},
		{Options{Pools: ab, Rules: []Rule{{Name: "late", To: to, Order: 2, Tenants: []string{"x"}}, {Name: "all", To: to, Order: 1}}}, `pool_rules[0]: "late" is never reached`},
		{Options{Pools: ab, Rules: []Rule{{To: to, Order: 1, Prompt: Range{Max: 100}}, {To: to, Order: 2, Prompt: Range{Min: 50}}, {Name: "late", To: to, Order: 3, Modalities: []string{"vision"}}}},
			`pool_rules[2]: "late" is never reached`},
		{Options{Pools: ab, Rules: []Rule{{To: to, Order: 1, Adapters: []string{"*"}}, {Name: "late", To: to, Order: 3, Adapters: []string{"x", "y"}}}}, `pool_rules[1]: "late" is never reached`},
		{Options{Pools: make([]Pool, PoolsMax+1)}, `pools: has 65 pools, at most 64`},
		{Options{Pools: ab, Rules: make([]Rule, RulesMax+1)}, `pool_rules: has 257 rules, at most 256`},
	} {
		s, problems := New(c.o)
		var got []string
		for _, p := range problems {
			got = append(got, p.String())
		}
		wants := strings.Split(c.want, "; ")
		if joined := strings.Join(got, "; "); s != nil || !partsInOrder(joined, wants) {
			t.Errorf("%s\n got %s", c.want, joined)
		}
	}
}

func partsInOrder(text string, parts []string) bool {
	for _, p := range parts {
		at := strings.Index(text, p)
		if at < 0 {
			return false
		}
		text = text[at+len(p):]
	}
	return true
}

func TestRulesThatOnlyTouchNeedNoOrder(t *testing.T) {
	to := []string{"a"}
	set(t, Options{Pools: []Pool{{Name: "a"}}, Rules: []Rule{
		{To: to, Prompt: Range{Max: 4000}, Modalities: []string{"text"}},
		{To: to, Prompt: Range{Min: 4000, Max: 9000}, Modalities: []string{"text"}},
		{To: to, Prompt: Range{Min: 9000}, Modalities: []string{"text"}, Tenants: []string{"x"}},
		{To: to, Prompt: Range{Min: 9000}, Modalities: []string{"text"}, Tenants: []string{"y"}},
		{To: to, Modalities: []string{"vision"}, BestEffort: "no"},
		{To: to, Modalities: []string{"vision"}, BestEffort: "yes", Total: Range{Max: 10}},
		{To: to, Modalities: []string{"vision"}, BestEffort: "yes", Prompt: Range{Min: 10}},
	}})
}

// Whatever the rules: where they pass, no order is left open for any request, and hardly a rule is never reached.
func TestOfRulesThatPassEachRequestHasOneAndEachHasARequest(t *testing.T) {
	seed := uint64(41)
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	some := func(names ...string) []string {
		if r.IntN(2) == 0 {
			return nil
		}
		return names[r.IntN(len(names)):][:1]
	}
	edge := func() int { return r.IntN(5) * 10 }
	passed, missed := 0, 0
	for range 4000 {
		o := Options{Pools: []Pool{{Name: "a"}, {Name: "b"}}}
		for i := range 1 + r.IntN(4) {
			o.Rules = append(o.Rules, Rule{Name: fmt.Sprint(i), Order: r.IntN(3), Prompt: Range{edge(), edge()}, Tenants: some("x", "y"),
				Modalities: some("text", "vision"), BestEffort: []string{"", "yes", "no"}[r.IntN(3)], Adapters: some("l", "*"), To: []string{"a"}})
		}
		s, problems := New(o)
		if problems != nil {
			continue
		}
		passed++
		reached := map[string]bool{}
		for _, tokens := range []int{0, 5, 10, 15, 20, 25, 30, 35, 40, 45} {
			for kind := range 3 * 3 * 3 * 2 {
				q := Request{PromptTokens: tokens, Tenant: []string{"x", "y", ""}[kind%3], Adapter: []string{"", "l", "m"}[kind/3%3],
					Needs: []llmapi.Needs{0, llmapi.NeedVision, llmapi.NeedAudio}[kind/9%3], BestEffort: kind/27 == 1}
				_, rule := s.Home(q)
				reached[rule] = true
				least := 0
				for _, m := range s.rules {
					if m.matches(&q) && m.name != rule && m.order <= s.rules[index(s, rule)].order {
						least++
					}
				}
				if least > 0 {
					t.Fatalf("%+v: %+v is matched by %q and by others of its order or a lower one", o.Rules, q, rule)
				}
			}
		}
		for i := range o.Rules {
			if !reached[fmt.Sprint(i)] {
				missed++
			}
		}
	}
	// Rules that are covered only by several others together, each of another tenant, say, are not looked for.
	if passed < 200 || missed > passed/100 {
		t.Errorf("%d sets of rules passed, %d rules in them are never reached", passed, missed)
	}
}

func index(s *Set, name string) int {
	return max(0, slices.IndexFunc(s.rules, func(m rule) bool { return m.name == name }))
}

func TestADryRunCountsWhereRequestsWouldGo(t *testing.T) {
	before := set(t, example())
	o := example()
	o.Rules[1].Prompt.Min = 8000
	after := set(t, o)
	var requests []Request
	for _, r := range []declog.Record{
		{Model: "m", PromptTokens: 900, CompletionTokens: 100}, {Model: "m", PromptTokensEst: 900}, {Model: "m", PromptTokens: 9000, PromptTokensEst: 5, StreamedTokenCount: 7},
		{Model: "m", PromptTokens: 64_000},
	} {
		requests = append(requests, RequestOf(&r))
	}
	got := fmt.Sprintf("%+v", Compare(before, after, slices.Values(requests)))
	want := "{Requests:4 Moved:1 Moves:[{From:short To:short Requests:2 PromptTokens:1800} {From:long To:long Requests:1 PromptTokens:64000} {From:short To:long Requests:1 PromptTokens:9000}]" +
		" Before:[{Pool:short Rule: Requests:3 Tokens:10907} {Pool:long Rule:long prompts Requests:1 Tokens:64000}]" +
		" After:[{Pool:long Rule:long prompts Requests:2 Tokens:73007} {Pool:short Rule: Requests:2 Tokens:1900}]}"
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// Whatever the load, a request has each pool once, open ones before closed ones but for those that a rule lists, and no more than there are.
func TestStepsAreEachPoolOnceWhateverTheLoad(t *testing.T) {
	seed := uint64(42)
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		o := Options{}
		n := 1 + r.IntN(5)
		for i := range n {
			p := Pool{Name: fmt.Sprint(i), IdleBelow: r.IntN(3) * 100, KVTokensMax: r.IntN(2) * 1000}
			if to := i + 1 + r.IntN(3); to < n && r.IntN(3) > 0 {
				p.Overflow = Overflow{To: fmt.Sprint(to), Wait: time.Duration(r.IntN(3)) * time.Second, Price: time.Duration(r.IntN(2)) * time.Second}
			}
			o.Pools = append(o.Pools, p)
		}
		list := []string{}
		for _, i := range r.Perm(n)[:1+r.IntN(n)] {
			list = append(list, fmt.Sprint(i))
		}
		o.Rules, o.Heavy = []Rule{{To: list}}, fmt.Sprint(r.IntN(n))
		s := set(t, o)
		states := make([]State, n)
		for i := range states {
			states[i] = State{Workers: r.IntN(3), IdleWorkers: r.IntN(2), WaitSeconds: float64(r.IntN(6)), KVTokensHeld: r.IntN(1200)}
		}
		q := Request{PromptTokens: r.IntN(300), KVTokensPeak: 300, Heavy: r.IntN(2) == 0}
		steps := s.Route(q, func(pool int) State { return states[pool] }, nil)
		seen := map[int]bool{}
		for _, at := range steps {
			if seen[at.Pool] || at.Open && states[at.Pool].Workers == 0 || at.Open == (at.Why >= NoWorker) || s.Explain(at) == "" {
				t.Fatalf("%+v with %+v: %+v", o, states, steps)
			}
			seen[at.Pool] = true
		}
		for _, name := range list {
			if !seen[slices.Index(s.Names(), name)] {
				t.Fatalf("%+v: pool %s of the rule is no step: %+v", o, name, steps)
			}
		}
	}
}
