package main

import (
	"syscall"
	"time"
)

// rusageThread asks for the calling thread alone (RUSAGE_THREAD in Linux' sys/resource.h).
const rusageThread = 1

// threadTime is what the calling thread has had of processors, for a goroutine that is locked to it.
func threadTime(time.Time) time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(rusageThread, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
