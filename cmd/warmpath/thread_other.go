//go:build !linux

package main

import "time"

// threadTime is the time that passed: what a thread had of processors is not told here. On a busy machine that is more.
func threadTime(since time.Time) time.Duration { return time.Since(since) }
