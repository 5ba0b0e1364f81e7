package main

import (
	"syscall"

	"github.com/warmpath/warmpath/internal/config"
)

// descriptorsKept is how many descriptors are kept from clients: for listeners, files, the admin port, and clients that are only told that
// there is no room. A tenth of the limit where that is less; two more for each worker, which telemetry asks.
const descriptorsKept = 128

// workersExpected is how many workers there may come to be.
func workersExpected(c config.Config) int {
	if c.Discovery.Any() {
		return c.Discovery.WorkersMax
	}
	return len(c.Workers)
}

// connectionsMax is how many clients may be connected at once: half of the descriptors that this process may have beside those kept, since
// each has a connection to a worker. 0, no bound, where the limit is not known.
func connectionsMax(workers int) int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	all := int(min(limit.Cur, 1<<20))
	return (all - min(all/10, descriptorsKept+2*workers)) / 2
}
