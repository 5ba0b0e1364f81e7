// Package pools is the second decision: which workers may serve a request at all, and in which order. Rules on what a request is (its
// size, modality, adapter, tenant) name pools of workers; a pool may spill to another when the wait there is too long. It is pure.
//
//	set, problems := pools.New(pools.Options{
//		Pools: []pools.Pool{
//			{Name: "short", Overflow: pools.Overflow{To: "long", Wait: 2 * time.Second, Price: 500 * time.Millisecond}},
//			{Name: "long", Labels: []string{"role=long"}, IdleBelow: 32_768},
//		},
//		Rules: []pools.Rule{{Name: "long prompts", Prompt: pools.Range{Min: 32_768}, To: []string{"long"}}},
//		Default: "short",
//	})
//	in := set.Members("gpu-1", []string{"role=long"})  // once a worker is known
//	steps := set.Route(request, stateOf, nil)          // the first open one first; each says why it is open or not
//
// Without pools there is one step, any worker, and nothing is ever held back.
package pools

import (
	"slices"
	"strings"
	"time"
)

// Bounds of a configuration.
const (
	PoolsMax = 64
	RulesMax = 256
)

// Options are the pools and the rules that lead to them.
type Options struct {
	Pools   []Pool `yaml:"pools" doc:"Pools of workers, by name. A worker may be in several. None: every worker may take every request."`
	Rules   []Rule `yaml:"pool_rules" doc:"Which requests go to which pools. Rules that can match the same request need an order."`
	Default string `yaml:"default_pool" doc:"Pool of requests that no rule matches. Empty: any worker."`
	Heavy   string `yaml:"heavy_pool" doc:"Pool that heavy requests go to before those that the rules name (see queue.heavy). Empty: they go where the rules say."`
}

// Pool is a set of workers. Without workers and labels it is those that carry the label pool with its name.
type Pool struct {
	Name    string   `yaml:"name" doc:"Name in rules, metrics and explanations."`
	Workers []string `yaml:"workers" doc:"Ids of workers that are in it."`
	Labels  []string `yaml:"labels" doc:"Labels such as role=long; workers that have all of them are in it."`
	// KVTokensMax bounds the sum of what its requests need at their peaks.
	KVTokensMax int      `yaml:"kv_tokens_max" doc:"KV tokens that its requests may need at one time, at their peaks. 0: as much as its workers hold."`
	IdleBelow   int      `yaml:"idle_below" doc:"Prompts of fewer tokens are taken by its idle workers only. 0: all are taken alike."`
	Overflow    Overflow `yaml:"overflow" doc:"Where requests may go when the wait is too long here."`
}

// Overflow is where a pool spills to.
type Overflow struct {
	To    string        `yaml:"to" doc:"Pool that takes what waits too long. Empty: none."`
	Wait  time.Duration `yaml:"wait" doc:"Expected wait before its prefill, in the queue and in the engines, from which on it spills."`
	Price time.Duration `yaml:"price" doc:"What it costs to be served there: the wait there must be shorter by more than this."`
}

// Range is from Min up to, but without, Max. Max 0 is no bound.
type Range struct {
	Min int `yaml:"min" doc:"Least tokens."`
	Max int `yaml:"max" doc:"Tokens from which on it does not match. 0: no bound."`
}

// Rule matches requests for which all of its conditions hold. A condition that is not given holds for all.
type Rule struct {
	Name       string   `yaml:"name" doc:"Name in metrics and explanations. Empty: rule and its number."`
	Order      int      `yaml:"order" doc:"Of rules that can match the same request the one with the least order decides."`
	Prompt     Range    `yaml:"prompt_tokens" doc:"Tokens of the prompt."`
	Total      Range    `yaml:"total_tokens" doc:"Tokens of the prompt and of the answer that is expected."`
	Models     []string `yaml:"models" doc:"Models."`
	Adapters   []string `yaml:"adapters" doc:"Adapters; * is any, requests without one are not matched."`
	Tenants    []string `yaml:"tenants" doc:"Tenants."`
	Modalities []string `yaml:"modalities" doc:"What is read or spoken: text (and nothing else), vision, audio. Requests with any of them match."`
	BestEffort string   `yaml:"best_effort" enum:",yes,no" doc:"yes: only requests of the least urgent class of the queue; no: only others."`
	To         []string `yaml:"to" doc:"Pools, the preferred one first. The next one is for when those before have no worker or no room. There is no other way out: what finds none of them waits or is refused."`
}

// Problem is one thing wrong with Options.
type Problem struct {
	Key     string // path of the setting, such as pools[1].overflow.to
	Message string
}

func (p Problem) String() string { return p.Key + ": " + p.Message }

// Bits is a set of pools, by their index.
type Bits uint64

// Has tells whether a pool is in the set.
func (b Bits) Has(pool int) bool { return pool >= 0 && b>>pool&1 == 1 }

// Spills tells whether a pool spills to another, or another to it: only then does it matter how long one waits there.
func (s *Set) Spills(pool int) bool {
	return pool >= 0 && (s.over[pool] >= 0 || slices.Contains(s.over, pool))
}

// Set is a checked configuration. It never changes.
type Set struct {
	pools  []Pool
	labels [][]label // by pool
	over   []int     // by pool: the one it spills to, -1
	rules  []rule    // in the order in which they are tried
	home   int       // of what no rule matches; -1 any worker
	heavy  int       // -1
}

type label struct{ key, value string }

func labelOf(text string) (label, bool) {
	key, value, ok := strings.Cut(text, "=")
	return label{strings.TrimSpace(key), strings.TrimSpace(value)}, ok && strings.TrimSpace(key) != ""
}

// New checks the options and makes a set. With problems there is none.
func New(o Options) (*Set, []Problem) {
	c := checker{o: &o, index: map[string]int{}}
	set := &Set{pools: slices.Clone(o.Pools), home: -1, heavy: -1}
	c.pools(set)
	c.rules(set)
	if o.Default != "" {
		set.home = c.pool("default_pool", o.Default)
	}
	if o.Heavy != "" {
		set.heavy = c.pool("heavy_pool", o.Heavy)
	}
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	return set, nil
}

// Names are the pools' names, by index.
func (s *Set) Names() []string {
	names := make([]string, len(s.pools))
	for i := range s.pools {
		names[i] = s.pools[i].Name
	}
	return names
}

// Name is a pool's name; "any" for no pool.
func (s *Set) Name(pool int) string {
	if pool < 0 || pool >= len(s.pools) {
		return "any"
	}
	return s.pools[pool].Name
}

// Members are the pools that a worker is in, by its id and its labels (key=value).
func (s *Set) Members(id string, labels []string) (in Bits) {
	for i := range s.pools {
		p := &s.pools[i]
		named := slices.Contains(p.Workers, id)
		if named || len(s.labels[i]) > 0 && carries(labels, s.labels[i]) {
			in |= 1 << i
		}
	}
	return in
}

func carries(labels []string, all []label) bool {
	for _, want := range all {
		if !slices.ContainsFunc(labels, func(text string) bool { have, ok := labelOf(text); return ok && have == want }) {
			return false
		}
	}
	return true
}
