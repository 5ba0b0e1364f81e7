package main

import (
	"context"

	"github.com/warmpath/warmpath/internal/config"
	scenes "github.com/warmpath/warmpath/internal/crowd"
	"github.com/warmpath/warmpath/internal/line"
	"github.com/warmpath/warmpath/internal/sim"
)

// proveQueue shows the queue's promises in virtual time.
func proveQueue(ctx context.Context, p *proof) error {
	return scenes.Show(ctx, replayQueue(config.Default().Queue), p.seed, func(v scenes.Verdict) {
		p.that(v.Pass, v.Case, v.Figures, nil, v.Detail...)
	})
}

// replayQueue is a configured queue as a replay has it.
func replayQueue(q config.Queue) sim.Queue {
	return sim.Queue{Options: line.Options{Options: q.Flow(), Heavy: q.HeavyRule(), Hold: q.Hold}, Room: q.Room(), Class: q.Class}
}
