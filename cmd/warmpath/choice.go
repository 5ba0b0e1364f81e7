package main

import (
	"fmt"
	"strings"

	"github.com/warmpath/warmpath/internal/choice"
	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/models"
	"github.com/warmpath/warmpath/internal/pools"
)

// wireChoices has models chosen for names that stand for others, and requests led to pools of workers, where there are any.
func (r *router) wireChoices() error {
	po, mo := r.settings().PoolOptions(), r.settings().ModelOptions()
	set, wrong := pools.New(po)
	if len(wrong) > 0 {
		return fmt.Errorf("the pools cannot be as configured: %s", wrong[0])
	}
	r.gate.UsePools(orNone(set, po))
	r.gate.UsePrices(models.PricesOf(mo).Of)
	desk, odd := choice.New(mo, r.gate)
	if len(odd) > 0 {
		return fmt.Errorf("the models cannot be as configured: %s", odd[0])
	}
	r.choice = desk
	for _, m := range mo.Models {
		r.metrics.KnowModel(m.Name)
	}
	return nil
}

// collectChoices fills in pools and models for a scrape.
func (r *router) collectChoices(s *metrics.State) {
	for _, c := range r.choice.Counts() {
		s.Choices = append(s.Choices, metrics.ChoiceState{Virtual: c.Virtual, Model: c.Model, Reason: c.Reason, Requests: c.Requests})
	}
	for _, p := range r.gate.PoolStats() {
		s.Pools = append(s.Pools, metrics.PoolState{Pool: p.Pool, Workers: p.Workers, Requests: p.Requests, Spilled: p.Spilled})
	}
}

// poolState is one pool in /state. Counts are since the start.
type poolState struct {
	Pool     string `json:"pool"`
	Workers  int    `json:"workers"`
	Idle     int    `json:"idle"`
	InFlight int    `json:"inflight_requests"`
	KVTokens int    `json:"kv_tokens_held"`
	Requests uint64 `json:"requests"`
	Spilled  uint64 `json:"spilled"`
}

// poolsNow are the pools for /state; none where there are none.
func (r *router) poolsNow() (all []poolState) {
	for _, p := range r.gate.PoolStats() {
		all = append(all, poolState{p.Pool, p.Workers, p.Idle, p.InFlight, p.KVTokens, p.Requests, p.Spilled})
	}
	return all
}

// virtualState is one name that stands for other models, in /state.
type virtualState struct {
	Model   string        `json:"model"`
	Chosen  []chosenState `json:"chosen"`
	Unknown []string      `json:"unknown,omitempty"` // settings whose model nobody serves
}

// chosenState is what it stood for, and how often since the start.
type chosenState struct {
	Model    string `json:"model"`
	Reason   string `json:"reason"`
	Requests uint64 `json:"requests"`
}

// virtualsNow are the virtual models for /state; none where there are none.
func (r *router) virtualsNow() (all []virtualState) {
	counts, unknown := r.choice.Counts(), r.choice.Unknown(r.settings().ModelOptions())
	for i, m := range r.settings().Models {
		v := virtualState{Model: m.Name, Chosen: []chosenState{}}
		for _, c := range counts {
			if c.Virtual == m.Name {
				v.Chosen = append(v.Chosen, chosenState{c.Model, c.Reason, c.Requests})
			}
		}
		for _, p := range unknown {
			if strings.HasPrefix(p.Key, fmt.Sprintf("models[%d].", i)) {
				v.Unknown = append(v.Unknown, p.String())
			}
		}
		all = append(all, v)
	}
	return all
}
