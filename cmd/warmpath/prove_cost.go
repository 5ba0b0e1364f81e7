package main

import (
	"context"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/reckoning"
)

// proveCost holds what requests are foretold to cost against what they cost, in virtual time.
func proveCost(ctx context.Context, p *proof) error {
	queue := replayQueue(config.Default().Queue)
	return reckoning.Show(ctx, reckoning.Options{Agents: p.agents, Seed: p.seed}, &queue, func(v reckoning.Verdict) {
		p.that(v.Pass, v.Case, v.Figures, v.Values, v.Detail...)
	})
}
