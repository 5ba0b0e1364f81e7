package main

import (
	"context"

	"github.com/warmpath/warmpath/internal/reenact"
)

// proveGhosts holds what ghosts say to what replays of the same traffic find, in virtual time.
func proveGhosts(ctx context.Context, p *proof) error {
	return reenact.Show(ctx, reenact.Options{Seed: p.seed}, func(v reenact.Verdict) {
		p.that(v.Pass, v.Case, v.Figures, v.Values)
	})
}
