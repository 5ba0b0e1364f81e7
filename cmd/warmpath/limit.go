package main

import "syscall"

// connectionsMax is how many clients may be connected at once: nine twentieths of the descriptors that this process may have. As many are
// for connections to workers, a tenth for clients that are only told so and for all else. 0, no bound, where the limit is not known.
func connectionsMax() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(limit.Cur, 1<<20) * 9 / 20)
}
