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

// connectionsMax is how many clients may be connected at once: what is configured, or half of the descriptors that this process may have beside
// those kept, since each has a connection to a worker. 0, no bound, where neither is known.
func connectionsMax(c config.Config) int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return c.ClientsMax
	}
	all := int(min(limit.Cur, 1<<20))
	half := (all - min(all/10, descriptorsKept+2*workersExpected(c))) / 2
	if c.ClientsMax > 0 {
		return min(c.ClientsMax, half)
	}
	return half
}
