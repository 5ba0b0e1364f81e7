package main

import (
	"context"

	"github.com/warmpath/warmpath/internal/config"
	scenes "github.com/warmpath/warmpath/internal/crowd"
)

// proveQueue shows the queue's promises in virtual time.
func proveQueue(ctx context.Context, p *proof) error {
	return scenes.Show(ctx, replayQueue(config.Default().Queue), p.seed, func(v scenes.Verdict) {
		p.that(v.Pass, v.Case, v.Figures, nil, v.Detail...)
	})
}
