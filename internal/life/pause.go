package life

import (
	"context"
	"time"
)

// Pause waits for so long, unless ctx ends first: false.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
