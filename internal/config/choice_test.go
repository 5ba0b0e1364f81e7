package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/models"
	"github.com/warmpath/warmpath/internal/pools"
)

const poolsAndModels = `
workers:
  - {url: http://a, pool: short, labels: [zone=x]}
  - {url: http://b, labels: [role=long]}
pools:
  - {name: short, overflow: {to: long, wait: 2s, price: 500ms}}
  - {name: long, labels: [role=long], workers: [c], kv_tokens_max: 900, idle_below: 32000}
pool_rules:
  - {name: big, order: 1, prompt_tokens: {min: 32000}, total_tokens: {max: 99000}, models: [m], adapters: ["*"], tenants: [t], modalities: [text], best_effort: "no", to: [long, short]}
default_pool: short
heavy_pool: long
models:
  - name: chat
    choose: cost
    candidates:
      - small
      - {model: large, context_max: 9, can: [tools], tier: 2, price: {worker_hour: 1.5, input: 2, cached: 0.5, output: 4}, tenants: [t]}
    fallback: [large, {model: small, on: [context]}]
    tenants: [t]
    tier_min: 0
default_model: chat
value_of_second: 0.25
conversations_max: 7
`

func TestPoolsAndModelsArrive(t *testing.T) {
	got, err := Parse("w.yaml", []byte(poolsAndModels), env(nil))
	if err != nil {
		t.Fatal(err)
	}
	wantPools := pools.Options{
		Pools: []pools.Pool{{Name: "short", Overflow: pools.Overflow{To: "long", Wait: 2 * time.Second, Price: 500 * time.Millisecond}},
			{Name: "long", Labels: []string{"role=long"}, Workers: []string{"c"}, KVTokensMax: 900, IdleBelow: 32000}},
		Rules: []pools.Rule{{Name: "big", Order: 1, Prompt: pools.Range{Min: 32000}, Total: pools.Range{Max: 99000}, Models: []string{"m"}, Adapters: []string{"*"},
			Tenants: []string{"t"}, Modalities: []string{"text"}, BestEffort: "no", To: []string{"long", "short"}}},
		Default: "short", Heavy: "long",
	}
	wantModels := models.Options{
		Models: []models.Virtual{{Name: "chat", Choose: "cost", Candidates: []models.Candidate{{Model: "small"},
			{Model: "large", ContextMax: 9, Can: []string{"tools"}, Tier: 2, Price: cost.Price{WorkerHour: 1.5, Input: 2, Cached: 0.5, Output: 4}, Tenants: []string{"t"}}},
			Fallback: []models.Fallback{{Model: "large"}, {Model: "small", On: []string{"context"}}}, Tenants: []string{"t"}}},
		Default: "chat", SecondValue: 0.25, ConversationsMax: 7,
	}
	if p, m := got.PoolOptions(), got.ModelOptions(); !reflect.DeepEqual(p, wantPools) || !reflect.DeepEqual(m, wantModels) {
		t.Errorf("pools %+v\nmodels %+v", p, m)
	}
	if l := got.Workers[0].AllLabels(); !reflect.DeepEqual(l, []string{"zone=x", "pool=short"}) {
		t.Errorf("%q", l)
	}
}

func TestMUL01RulesThatCannotBeMeantAreRefusedWithTheirLineAndReason(t *testing.T) {
	ab := "pools: [{name: a}, {name: b}]\n"
	for _, c := range []struct{ text, want string }{
		{ab + "pool_rules:\n- {name: one, to: [a]}\n- {name: two, to: [b], tenants: [x]}", `w.yaml:4: pool_rules[1].order: "two" and "one" (pool_rules[0]) can match the same request`},
		{ab + "pool_rules:\n- to: [a]\n- to: [c]\n  order: 1", `w.yaml:4: pool_rules[1].to[0]: unknown pool "c"; there are: a, b`},
		{ab + "default_pool: c", `w.yaml:2: default_pool: unknown pool "c"`},
		{"heavy_pool: long", `w.yaml:1: heavy_pool: unknown pool "long"; there are none`},
		{"pools:\n- name: a\n  overflow: {to: b}\n- name: b\n  overflow:\n    to: a", `w.yaml:3: pools[0].overflow.to: spills in a circle: a -> b -> a`},
		{"pools:\n- {name: a, idle_below: -1}", `w.yaml:2: pools[0].idle_below: -1 is below the least, 0`},
		{ab + "workers:\n- {url: http://w, pool: c}", `w.yaml:3: workers[0].pool: "c" is not known; `},
		{"workers:\n- {url: http://w, pool: c}", `w.yaml:2: workers[0].pool: "c" is no pool; there are none (setting pools)`},
		{"workers:\n- {url: http://w, labels: [long]}", `w.yaml:2: workers[0].labels[0]: "long" is no label, write key=value`},
		{"models:\n- name: a\n  candidates: [b]\n- name: b\n  candidates: [a]", `w.yaml:5: models[1].candidates[0].model: stands for itself: a -> b -> a`},
		{"models:\n- name: a\n  choose: weight\n  candidates:\n  - {model: m, weight: -1}", `w.yaml:5: models[0].candidates[0].weight: -1 is below the least, 0`},
		{"models:\n- name: a\n  candidates: [m]\n  fallback: [{model: n, on: [rain]}]", `w.yaml:4: models[0].fallback[0].on[0]: unknown error "rain"`},
		{"models:\n- name: a\n  choose: dice\n  candidates: [m]", `w.yaml:3: models[0].choose: "dice" is not known; choose one of cost, weight, order`},
		{"models:\n- {name: a, candidates: [m]}\n- {name: a, candidates: [m]}", `w.yaml:3: models[1].name: "a" is the name of models[0] already`},
		{"models:\n- name: a", `w.yaml:2: models[0].candidates: has 0 candidates, want 1 to`},
	} {
		_, err := Parse("w.yaml", []byte(c.text), env(nil))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

func TestPoolsAndModelsArePrintedAsAGoodFile(t *testing.T) {
	c, err := Parse("w.yaml", []byte(poolsAndModels), env(nil))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse("printed.yaml", []byte(Print(c)), env(nil))
	if err != nil {
		t.Fatalf("%v in\n%s", err, Print(c))
	}
	if !reflect.DeepEqual(c.PoolOptions(), again.PoolOptions()) || !reflect.DeepEqual(c.ModelOptions(), again.ModelOptions()) || !reflect.DeepEqual(c.Workers, again.Workers) {
		t.Errorf("got  %+v %+v\nwant %+v %+v", again.PoolOptions(), again.ModelOptions(), c.PoolOptions(), c.ModelOptions())
	}
}
