//go:build !linux

package engine

import (
	"context"
	"time"
)

// pause sleeps as well as the runtime's timers can.
type pause struct{ ctx context.Context }

func newPause(ctx context.Context) (*pause, error) { return &pause{ctx}, nil }

// until returns at that instant, or at once when it has passed or the context ends.
func (p *pause) until(deadline time.Time) { sleep(p.ctx, deadline) }

func (*pause) close() {}
