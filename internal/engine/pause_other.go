//go:build !linux

package engine

import "time"

// pause sleeps as well as the runtime's timers can.
type pause struct{}

func newPause() (*pause, error) { return &pause{}, nil }

// until returns at that instant, or at once when it has passed.
func (*pause) until(deadline time.Time) { time.Sleep(time.Until(deadline)) }

func (*pause) close() {}
