package config

import (
	"strconv"

	"github.com/warmpath/warmpath/internal/models"
	"github.com/warmpath/warmpath/internal/pools"
)

// PoolOptions is what the room calls them.
func (c Config) PoolOptions() pools.Options {
	return pools.Options{Pools: c.Pools, Rules: c.PoolRules, Default: c.DefaultPool, Heavy: c.HeavyPool}
}

// ModelOptions is what the room calls them.
func (c Config) ModelOptions() models.Options {
	return models.Options{Models: c.Models, Default: c.DefaultModel, SecondValue: c.ValueOfSecond, Prices: c.Prices, ConversationsMax: c.Conversations}
}

// AllLabels are what pools go by: the labels, and the pool as one of them.
func (w Worker) AllLabels() []string {
	if w.Pool == "" {
		return w.Labels
	}
	return append(append([]string(nil), w.Labels...), "pool="+w.Pool)
}

// poolsAndModels holds what only the rooms themselves can tell of pools and models.
func (v *verdict) poolsAndModels(c Config) {
	if len(*v) == 0 { // else they say the same again
		_, wrong := pools.New(c.PoolOptions())
		for _, p := range wrong {
			v.wrong(p.Key, "%s", p.Message)
		}
		_, odd := models.New(c.ModelOptions())
		for _, p := range odd {
			v.wrong(p.Key, "%s", p.Message)
		}
	}
	v.workerPools(c)
}

// workerPools refuses pools that workers cannot be in, and labels that are none.
func (v *verdict) workerPools(c Config) {
	names := make([]string, len(c.Pools))
	for i, p := range c.Pools {
		names[i] = p.Name
	}
	for i, w := range c.Workers {
		key := "workers[" + strconv.Itoa(i) + "]"
		switch {
		case w.Pool == "":
		case len(names) == 0:
			v.wrong(key+".pool", "%q is no pool; there are none (setting pools)", w.Pool)
		default:
			v.choice(key+".pool", w.Pool, names)
		}
		for j, label := range w.Labels {
			v.label(key+".labels["+strconv.Itoa(j)+"]", label)
		}
	}
}
